#include "export/cuda_bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "block/rounding.h"
#include "export/bundle_text.h"
#include "export/config_text.h"
#include "export/cuda_config_text.h"
#include "export/mask_text.h"
#include "export/torch_text.h"

namespace fusetune::exporting {
namespace {

constexpr std::array<TemplateFile, 15> kTemplates = {{
    {"cuda_bundle/README.md.in", "README.md"},
    {"cuda_bundle/CMakeLists.txt.in", "CMakeLists.txt"},
    {"cuda_bundle/bundle.h.in", "include/@name@.h"},
    {"cuda_bundle/internal.h.in", "src/internal.h"},
    {"cuda_bundle/driver.h.in", "src/driver.h"},
    {"cuda_bundle/driver.c.in", "src/driver.c"},
    {"cuda_bundle/block.c.in", "src/block.c"},
    {"cuda_bundle/context.c.in", "src/context.c"},
    {"cuda_bundle/error.c.in", "src/error.c"},
    {"cuda_bundle/mask.c.in", "src/mask.c"},
    {"cuda_bundle/shape.c.in", "src/shape.c"},
    {"cuda_bundle/cubins.S.in", "src/cubins.S"},
    {"cuda_bundle/verify.cpp.in", "verify/verify.cpp"},
    {"cuda_bundle/elements.h.in", "verify/elements.h"},
    {"cpu_bundle/data.h.in", "verify/data.h"},
}};

/// Without padding and with one pattern for all entries any batch runs; else those that the mask has entries
/// of.
bool any_batch(const block::Mask& mask) { return mask.entries() == 1 && !mask.has_padding(); }

std::int64_t most_entries(const block::Problem& problem, const block::Mask& mask) {
  return any_batch(mask) ? codegen::kMostGpuRows / (problem.seq * problem.heads) : problem.batch;
}

std::string batch_note(const block::Problem& problem, const block::Mask& mask) {
  if (any_batch(mask))
    return fmt::format("Any batch from 1 to {} runs; {} is what it was checked with.",
                       most_entries(problem, mask), problem.batch);
  return fmt::format(
      "Each of the {} batch entries has a mask of its own, with its padding: a smaller batch takes the first "
      "ones.",
      problem.batch);
}

std::string emulated_text(const CudaBundleInput& input) {
  if (!input.emulated) return "left out";
  return fmt::format("every access of these kernels checked at batch {}: nothing found",
                     input.emulated->batch);
}

std::string checked_text(const CudaBundleInput& input) {
  if (!input.ran) return "not run: exported without a GPU";
  return fmt::format("checked on {}", one_line(input.environment.at("device")));
}

Values values_of(const CudaBundleInput& input) {
  const block::Problem& problem = input.problem;
  const block::Mask mask(problem.mask, problem.batch, problem.seq);
  const auto number = [](auto value) { return fmt::format("{}", value); };
  Values values = origin_values(input);
  values.merge(Values{{"architecture", input.architecture},
                      {"compiler", one_line(input.compiler)},
                      {"emulated", emulated_text(input)},
                      {"checked", checked_text(input)},
                      {"max_batch", number(most_entries(problem, mask))},
                      {"batch_note", batch_note(problem, mask)},
                      {"dtype", std::string(block::name(problem.dtype))},
                      {"element_bytes", number(block::element_size(problem.dtype))},
                      {"row_group", number(codegen::kGpuRowGroup)},
                      {"norm_bound", number(input.norm_bound)},
                      {"worst_bound", number(input.worst_bound)},
                      {"cubin_rows", cubin_rows(input)},
                      {"kernel_names", cmake_lines(kernel_names(input))}});
  return values;
}

TorchTarget torch_target(const block::Problem& problem) {
  const block::Mask mask(problem.mask, problem.batch, problem.seq);
  return {.templates = "cuda_bundle",
          .processor = "a GPU",
          .device = "cuda",
          .dispatch = "CUDA",
          .batches = fmt::format("1 to {}", most_entries(problem, mask)),
          .lengths = fmt::format("`lengths` has to be None: {}.", mask.has_padding()
                                                                      ? "padding is that of the export"
                                                                      : "it was exported without padding")};
}

}  // namespace

std::vector<std::string> kernel_names(const CudaBundleInput& input) {
  std::vector<std::string> names;
  for (const CudaKernel& kernel : input.kernels) {
    const plan::SegmentVariant& variant = kernel.source.variant;
    names.push_back(fmt::format("segment_{}_{}{}", variant.segment.first, variant.segment.last,
                                variant.hand_written ? "_hand_written" : ""));
  }
  return names;
}

Files bundle_sources(const CudaBundleInput& input) {
  check_name(input.name);
  const block::Problem& problem = input.problem;
  Files files;
  add_templates(kTemplates, values_of(input), files);
  add_torch(input, torch_target(problem), files);
  files["src/abi.h"] = codegen::building_block("cuda/abi.h");
  files["src/config.h"] = config_text(input);
  files["src/mask_data.h"] = mask_tiles_text(block::Mask(problem.mask, problem.batch, problem.seq));
  const std::vector<std::string> names = kernel_names(input);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const CudaKernel& kernel = input.kernels[i];
    files["kernels/" + names[i] + ".cu"] =
        codegen::translation_unit({&kernel.source, 1}, codegen::GpuDialect::cuda);
    files["cubin/" + names[i] + ".cubin"] = kernel.cubin;
  }
  files["verify/expected.bin"] =
      expected_output(problem, problem.dtype == block::Dtype::f32 ? block::ReferenceRounding::none
                                                                  : block::ReferenceRounding::as_stored);
  return files;
}

}  // namespace fusetune::exporting
