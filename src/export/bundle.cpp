#include "export/bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "base/error.h"
#include "block/data.h"
#include "block/reference.h"
#include "export/bundle_text.h"
#include "export/config_text.h"
#include "export/mask_text.h"
#include "export/torch_text.h"

namespace fusetune::exporting {
namespace {

constexpr std::size_t kLongestName = 64;

/// Words that cannot name a library: keywords are prefixes only and do no harm, but CMake has targets of its
/// own, and the system libraries.
constexpr std::array<std::string_view, 15> kTaken = {"cuda", "all",     "test",    "install", "clean",
                                                     "help", "package", "depend",  "c",       "m",
                                                     "dl",   "rt",      "pthread", "gcc",     "util"};

constexpr std::array<TemplateFile, 12> kTemplates = {{
    {"cpu_bundle/README.md.in", "README.md"},
    {"cpu_bundle/CMakeLists.txt.in", "CMakeLists.txt"},
    {"cpu_bundle/bundle.h.in", "include/@name@.h"},
    {"cpu_bundle/internal.h.in", "src/internal.h"},
    {"cpu_bundle/block.cpp.in", "src/block.cpp"},
    {"cpu_bundle/cpu_check.cpp.in", "src/cpu_check.cpp"},
    {"cpu_bundle/error.cpp.in", "src/error.cpp"},
    {"cpu_bundle/mask.cpp.in", "src/mask.cpp"},
    {"cpu_bundle/threads.cpp.in", "src/threads.cpp"},
    {"cpu_bundle/weights.cpp.in", "src/weights.cpp"},
    {"cpu_bundle/verify.cpp.in", "verify/verify.cpp"},
    {"cpu_bundle/data.h.in", "verify/data.h"},
}};

unsigned feature_bits(lower::Isa isa) {
  switch (isa) {
    case lower::Isa::generic:
      return 0;
    case lower::Isa::avx2:
      return 0x3f;
    case lower::Isa::avx512:
      return 0x7ff;
  }
  throw base::InternalError("no feature list for this instruction set");
}

std::string requirements(lower::Isa isa) {
  std::string words;
  for (const std::string& feature : required_features(isa)) words += (words.empty() ? "" : " ") + feature;
#if defined(__x86_64__)
  return words.empty() ? "any x86-64 CPU" : "an x86-64 CPU with " + words;
#else
  return words.empty() ? "a CPU of the architecture that it was exported on" : "a CPU with " + words;
#endif
}

std::string measured_text(const BundleInput& input) {
  if (!input.measured || !input.measured->time_us)
    return "not measured: no search timed this plan whole with these kernels";
  const MeasuredPlan& plan = *input.measured;
  const std::string interval =
      plan.low_us && plan.high_us ? fmt::format(" (95 % {:.4g} to {:.4g})", *plan.low_us, *plan.high_us) : "";
  return fmt::format("{:.4g} us{} on {} thread{} of {}, cache mode {}", *plan.time_us, interval,
                     input.threads, input.threads == 1 ? "" : "s", input.environment.at("device"),
                     plan.cache_mode);
}

/// The kernels' flags, for compilers other than the one that the plan was checked with too.
std::string cmake_kernel_flags(const BundleInput& input) {
  std::vector<std::string> flags;
  for (const std::string& flag : input.toolchain.kernel_flags)
    flags.push_back(flag == "-fno-gnu-unique" ? "$<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>" : flag);
  return cmake_lines(flags);
}

std::string default_lengths(const block::Problem& problem) {
  return block::Mask(problem.mask, problem.batch, problem.seq).has_padding()
             ? "the lengths it was exported with"
             : "no padding";
}

Values values_of(const BundleInput& input) {
  Values values = origin_values(input);
  values.merge(Values{{"measured", one_line(measured_text(input))},
                      {"requirements", requirements(input.isa)},
                      {"tokens", fmt::format("{}", input.problem.tokens())},
                      {"threads", fmt::format("{}", input.threads)},
                      {"default_lengths", default_lengths(input.problem)},
                      {"required_features", fmt::format("0x{:x}", feature_bits(input.isa))},
                      {"baseline_flag", std::string(baseline_flag())},
                      {"kernel_files", cmake_lines(kernel_files(input))},
                      {"kernel_flags", cmake_kernel_flags(input)}});
  return values;
}

TorchTarget torch_target(const block::Problem& problem) {
  return {.templates = "cpu_bundle",
          .processor = "the CPU",
          .device = "cpu",
          .dispatch = "CPU",
          .batches = fmt::format("a multiple of {}", problem.batch),
          .lengths = fmt::format("`lengths` [batch] int64: tokens of each entry that are no padding;\n"
                                 "        the output of the others is zero. None: {}.",
                                 default_lengths(problem))};
}

/// The kernel's text with its symbol under the bundle's name.
std::string kernel_text(const BundleInput& input, codegen::KernelSource kernel) {
  const std::string symbol = bundle_symbol(input.name, kernel);
  const std::size_t at = kernel.body.find(kernel.symbol);
  if (at == std::string::npos) throw base::InternalError("a kernel's text lacks its symbol " + kernel.symbol);
  kernel.body.replace(at, kernel.symbol.size(), symbol);
  return fmt::format(
             "// The building blocks below, in a namespace of this kernel's own: several kernels make a "
             "library.\n"
             "#define ft {}_blocks\n\n",
             symbol) +
         codegen::translation_unit({&kernel, 1});
}

}  // namespace

std::string_view baseline_flag() {
#if defined(__x86_64__)
  return "-march=x86-64";
#else
  return "-fno-common";  // no name for the oldest CPU of other architectures: their compilers' default is it
#endif
}

std::string default_name(const block::Problem& problem) {
  return fmt::format("encoder_{}_b{}_s{}_h{}x{}", problem.mask.pattern, problem.batch, problem.seq,
                     problem.heads, problem.head_size);
}

void check_name(const std::string& name) {
  const auto fits = [](unsigned char c) { return c < 128 && (std::isalnum(c) != 0 || c == '_'); };
  const bool identifier = !name.empty() && name.size() <= kLongestName &&
                          std::all_of(name.begin(), name.end(), fits) &&
                          std::isalpha(static_cast<unsigned char>(name[0])) != 0;
  if (!identifier)
    throw base::UsageError(
        fmt::format("--name {}: expected a letter, then letters, digits and underscores, at most {} in all",
                    name, kLongestName));
  if (std::find(kTaken.begin(), kTaken.end(), name) != kTaken.end())
    throw base::UsageError(
        fmt::format("--name {}: CMake or the system uses that name; choose another", name));
}

std::vector<std::string> required_features(lower::Isa isa) {
  // In the order of cpu_check.cpp.in.
  static const std::array<const char*, 11> names = {"avx2",     "fma",      "f16c",    "bmi",
                                                    "bmi2",     "popcnt",   "avx512f", "avx512bw",
                                                    "avx512dq", "avx512vl", "avx512cd"};
  std::vector<std::string> features;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (feature_bits(isa) >> i & 1u) features.emplace_back(names[i]);
  return features;
}

std::vector<std::string> kernel_files(const BundleInput& input) {
  std::vector<std::string> paths;
  for (const codegen::KernelSource& kernel : input.kernels) {
    const plan::SegmentVariant& variant = kernel.variant;
    paths.push_back(fmt::format("src/segment_{}_{}{}.cpp", variant.segment.first, variant.segment.last,
                                variant.hand_written ? "_hand_written" : ""));
  }
  return paths;
}

Files bundle_sources(const BundleInput& input) {
  check_name(input.name);
  const block::Problem& problem = input.problem;
  if (problem.dtype != block::Dtype::f32)
    throw base::UsageError("bundles for the CPU run dtype f32, not " +
                           std::string(block::name(problem.dtype)));
  Files files;
  add_templates(kTemplates, values_of(input), files);
  add_torch(input, torch_target(problem), files);
  files["src/abi.h"] = codegen::building_block("cpu/abi.h");
  files["verify/sampling.h"] = embedded("measure/sampling.h");
  files["src/config.h"] = config_text(input);
  files["src/mask_data.h"] =
      mask_data_text(block::Mask(without_padding(problem.mask), problem.batch, problem.seq));
  const std::vector<std::string> paths = kernel_files(input);
  for (std::size_t i = 0; i < paths.size(); ++i) files[paths[i]] = kernel_text(input, input.kernels[i]);
  files["verify/expected.bin"] = expected_output(problem, block::ReferenceRounding::none);
  return files;
}

}  // namespace fusetune::exporting
