#include "export/manifest.h"

#include <nlohmann/json.hpp>

#include "export/sha256.h"

namespace fusetune::exporting {
namespace {

using Json = nlohmann::ordered_json;

Json problem_json(const block::Problem& problem) {
  return {{"key", problem.key()},   {"batch", problem.batch},           {"seq", problem.seq},
          {"heads", problem.heads}, {"head_size", problem.head_size},   {"hidden", problem.hidden()},
          {"ffn", problem.ffn},     {"mask", problem.mask.to_string()}, {"dtype", block::name(problem.dtype)},
          {"eps", problem.eps},     {"gelu", block::name(problem.gelu)}};
}

Json plan_json(const BundleOrigin& input) {
  const plan::FusionPlan plan = plan::FusionPlan::from_mask(input.mask);
  return {{"typed_mask", input.mask.value},
          {"mask", plan.canonical_mask().value},
          {"translation", plan::translate(plan.canonical_mask())},
          {"segments", plan.to_string()}};
}

Json weights_json(const codegen::KernelSource& kernel) {
  Json weights = Json::object();
  for (int w = 0; w < block::kWeightCount; ++w)
    if (const auto& layout = kernel.layouts[static_cast<std::size_t>(w)])
      weights[std::string(block::name(static_cast<block::Weight>(w)))] = layout->to_string();
  return weights;
}

Json kernels_json(const BundleInput& input) {
  Json kernels = Json::array();
  const std::vector<std::string> paths = kernel_files(input);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const codegen::KernelSource& kernel = input.kernels[i];
    kernels.push_back({{"file", paths[i]},
                       {"segment", kernel.variant.to_string()},
                       {"schedule", kernel.schedule.to_string()},
                       {"schedule_from", input.schedule_origins.at(i)},
                       {"weight_layouts", weights_json(kernel)},
                       {"scratch_bytes", kernel.scratch_bytes},
                       {"source_hash", kernel.hash}});
  }
  return kernels;
}

Json environment_json(const BundleOrigin& input) {
  Json json = {{"fingerprint", input.fingerprint}};
  // What changes from minute to minute is of no use later, and would make two exports differ.
  for (const auto& [name, value] : input.environment)
    if (name != "load") json[name] = value;
  return json;
}

Json measured_json(const BundleOrigin& input) {
  if (!input.measured) return nullptr;
  const MeasuredPlan& plan = *input.measured;
  const auto known = [](const auto& value) { return value ? Json(*value) : Json(); };
  Json segments = Json::array();
  for (const std::optional<std::int64_t>& row : plan.segment_rows) segments.push_back(known(row));
  return {{"search_run", known(plan.run)},
          {"plan_measurement", known(plan.plan_row)},
          {"segment_measurements", segments},
          {"time_us",
           {{"median", known(plan.time_us)}, {"low", known(plan.low_us)}, {"high", known(plan.high_us)}}},
          {"pairs", known(plan.pairs)},
          {"cache_mode", plan.cache_mode}};
}

Json hashes_json(const Files& files) {
  Json hashes = Json::object();
  for (const auto& [path, content] : files) hashes[path] = sha256(content);
  return hashes;
}

Json kernels_json(const CudaBundleInput& input) {
  Json kernels = Json::array();
  const std::vector<std::string> names = kernel_names(input);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const codegen::GpuKernel& kernel = input.kernels[i].source;
    const codegen::GpuLaunch launch = kernel.launch(input.problem.batch);
    kernels.push_back({{"file", "kernels/" + names[i] + ".cu"},
                       {"cubin", "cubin/" + names[i] + ".cubin"},
                       {"symbol", kernel.symbol},
                       {"segment", kernel.variant.to_string()},
                       {"schedule", kernel.schedule.to_string()},
                       {"schedule_from", input.schedule_origins.at(i)},
                       {"threads", launch.threads},
                       {"most_blocks", launch.blocks},  // of the exported batch
                       {"shared_bytes", launch.shared_bytes},
                       {"cooperative", launch.cooperative},
                       {"source_hash", kernel.hash}});
  }
  return kernels;
}

/// The vendor's library of matrix products is not needed, whatever was timed.
Json library_json(const CudaBundleInput& input) {
  return {{"products", "none: a bundle has generated kernels only"}, {"faster_when_timed", input.replaced}};
}

Json errors_json(const EmulatorVerdict::Kernel& errors) {
  return {{"norm_error", errors.norm_error}, {"worst_error", errors.worst_error}};
}

Json emulator_json(const CudaBundleInput& input) {
  if (!input.emulated) return {{"verdict", "left out"}};
  Json kernels = Json::array();
  for (const EmulatorVerdict::Kernel& kernel : input.emulated->kernels)
    kernels.push_back(errors_json(kernel));
  return {{"verdict", "nothing found"},
          {"looked_at", "bounds, alignment, initialisation and order of every access; outputs; counters"},
          {"batch", input.emulated->batch},
          {"kernels", kernels},
          {"plan", errors_json(input.emulated->plan)}};
}

Json checked_json(const CudaBundleInput& input) {
  if (!input.ran) return nullptr;
  return {{"against", "float64 reference"},
          {"on", input.environment.at("device")},
          {"norm_error", input.norm_error},
          {"worst_error", input.worst_error}};
}

std::string text_of(const Json& manifest) {
  return manifest.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string manifest_text(const BundleInput& input, const Files& files) {
  const Json manifest = {
      {"bundle_format", kBundleFormat},
      {"fusetune", input.fusetune_version},
      {"name", input.name},
      {"target", "cpu"},
      {"problem", problem_json(input.problem)},
      {"plan", plan_json(input)},
      {"kernels", kernels_json(input)},
      {"threads", input.threads},
      {"cpu_features", required_features(input.isa)},
      {"compiler", {{"name", input.toolchain.name}, {"kernel_flags", input.toolchain.kernel_flags}}},
      {"environment", environment_json(input)},
      {"checked",
       {{"against", "float64 reference"},
        {"norm_error", input.norm_error},
        {"worst_error", input.worst_error}}},
      {"measured", measured_json(input)},
      {"sha256", hashes_json(files)}};
  return text_of(manifest);
}

std::string manifest_text(const CudaBundleInput& input, const Files& files) {
  const Json manifest = {{"bundle_format", kBundleFormat},
                         {"fusetune", input.fusetune_version},
                         {"name", input.name},
                         {"target", "cuda"},
                         {"problem", problem_json(input.problem)},
                         {"plan", plan_json(input)},
                         {"kernels", kernels_json(input)},
                         {"library", library_json(input)},
                         {"architecture", input.architecture},
                         {"compiler", {{"name", input.compiler}, {"kernel_flags", input.flags}}},
                         {"environment", environment_json(input)},
                         {"checked", checked_json(input)},
                         {"emulator", emulator_json(input)},
                         {"measured", measured_json(input)},
                         {"sha256", hashes_json(files)}};
  return text_of(manifest);
}

std::string checksums_text(const Files& files) {
  std::string text;
  for (const auto& [path, content] : files) text += sha256(content) + "  " + path + "\n";
  return text;
}

}  // namespace fusetune::exporting
