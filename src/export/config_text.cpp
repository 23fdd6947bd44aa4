#include "export/config_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/number.h"
#include "export/bundle_text.h"

namespace fusetune::exporting {
namespace {

using block::Parameter;
using block::Tensor;
using block::Weight;

/// The layout of a weight: in a plan exactly one kernel reads it.
codegen::PanelLayout layout_of(const BundleInput& input, Weight weight) {
  for (const codegen::KernelSource& kernel : input.kernels) {
    if (const auto& layout = kernel.layouts[static_cast<std::size_t>(weight)]) return *layout;
  }
  throw base::InternalError("no kernel of the plan reads " + std::string(block::name(weight)));
}

/// True where the tensor needs memory in the workspace.
bool in_workspace(const BundleInput& input, Tensor tensor) {
  if (tensor == Tensor::hidden || tensor == Tensor::output) return false;
  const auto has = [tensor](const std::vector<Tensor>& list) {
    return std::find(list.begin(), list.end(), tensor) != list.end();
  };
  return std::any_of(input.kernels.begin(), input.kernels.end(), [&](const codegen::KernelSource& kernel) {
    return has(kernel.reads) || has(kernel.writes) || has(kernel.workspace);
  });
}

std::string weight_rows(const BundleInput& input) {
  std::string text;
  for (int w = 0; w < block::kWeightCount; ++w) {
    const auto weight = static_cast<Weight>(w);
    const auto [rows, columns] = input.problem.shape(weight);
    const codegen::PanelLayout layout = layout_of(input, weight);
    text += fmt::format("    {{{}, {}, {}, {}}},  // {}\n", rows, columns, layout.panel, layout.group,
                        block::name(weight));
  }
  return text;
}

std::string tensor_rows(const BundleInput& input) {
  std::string text;
  for (int t = 0; t < block::kTensorCount; ++t) {
    const auto tensor = static_cast<Tensor>(t);
    const std::int64_t floats = in_workspace(input, tensor) ? input.problem.elements(tensor) : 0;
    text += fmt::format("    {},  // {}\n", floats, block::name(tensor));
  }
  return text;
}

std::string lengths_text(const block::Problem& problem) {
  const block::Mask mask(problem.mask, problem.batch, problem.seq);
  if (!mask.has_padding()) return "constexpr const long* kLengths = nullptr;  // no padding\n";
  std::string text = "constexpr long kLengthList[] = {";
  for (std::int64_t b = 0; b < mask.batch(); ++b)
    text += fmt::format("{}{}", b > 0 ? ", " : "", mask.length(b));
  return text + "};\nconstexpr const long* kLengths = kLengthList;  // tokens of each batch entry\n";
}

std::string names(int count, const auto& name) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("{}\"{}\"", i > 0 ? ", " : "", name(i));
  return text;
}

}  // namespace

std::string bundle_symbol(const std::string& name, const codegen::KernelSource& kernel) {
  constexpr std::string_view prefix = "ft";
  if (!kernel.symbol.starts_with("ft_segment_"))
    throw base::InternalError("a kernel is called " + kernel.symbol);
  return name + kernel.symbol.substr(prefix.size());
}

std::string config_text(const BundleInput& input) {
  const block::Problem& problem = input.problem;
  std::int64_t scratch = 0;
  std::string declarations, segments;
  for (const codegen::KernelSource& kernel : input.kernels) {
    const std::string symbol = bundle_symbol(input.name, kernel);
    scratch = std::max(scratch, kernel.scratch_bytes);
    declarations += fmt::format("void {}(const ft_args*, int thread, int threads, ft_barrier*);\n", symbol);
    segments += fmt::format("    {},  // {}\n", symbol, kernel.variant.to_string());
  }
  std::string text = fmt::format(
      "// What this bundle computes and where things are: sizes, weight layouts, workspace, kernels.\n"
      "#ifndef {0}_CONFIG_H\n#define {0}_CONFIG_H\n\n#include \"abi.h\"\n\n",
      input.name);
  text +=
      fmt::format("constexpr const char* kDescription =\n    {};\n",
                  c_string(problem.key() + "  plan " + plan::FusionPlan::from_mask(input.mask).to_string()));
  text += fmt::format("constexpr long kBatch = {}, kSeq = {}, kHidden = {};\n", problem.batch, problem.seq,
                      problem.hidden());
  text += lengths_text(problem);
  text += fmt::format(
      "\n/// A weight [rows, columns] and how the kernels want it packed: see pack() in block.cpp.\n"
      "struct WeightLayout {{\n  long rows, columns, panel, group;\n}};\n"
      "constexpr WeightLayout kWeights[4] = {{\n{}}};\n",
      weight_rows(input));
  text += fmt::format("constexpr const char* kWeightNames[4] = {{{}}};\n",
                      names(block::kWeightCount, [](int i) { return block::name(static_cast<Weight>(i)); }));
  std::string lengths;
  for (int p = 0; p < block::kParameterCount; ++p)
    lengths += fmt::format("{}{}", p > 0 ? ", " : "", problem.elements(static_cast<Parameter>(p)));
  text += fmt::format(
      "constexpr long kParameterFloats[8] = {{{}}};\nconstexpr const char* kParameterNames[8] = {{{}}};\n",
      lengths, names(block::kParameterCount, [](int i) { return block::name(static_cast<Parameter>(i)); }));
  text += fmt::format(
      "\n/// Floats of each tensor in the workspace; 0: the caller's, or never in memory.\n"
      "constexpr int kTensorCount = {}, kHiddenTensor = {}, kOutputTensor = {};\n"
      "constexpr long kTensorFloats[kTensorCount] = {{\n{}}};\n"
      "constexpr unsigned long kScratchBytes = {};  // of each thread\n",
      block::kTensorCount, static_cast<int>(Tensor::hidden), static_cast<int>(Tensor::output),
      tensor_rows(input), scratch);
  text += fmt::format(
      "\nextern \"C\" {{\n{}}}\ntypedef void (*Segment)(const ft_args*, int, int, ft_barrier*);\n"
      "constexpr Segment kSegments[] = {{\n{}}};\n\n#endif\n",
      declarations, segments);
  return text;
}

std::string data_rows(const block::Problem& problem) {
  const bool uniform = problem.data == block::DataMode::uniform;
  std::string text;
  const auto add = [&](std::string_view name, std::int64_t rows, std::int64_t columns, double deviation,
                       bool is_gamma) {
    std::string kind = "uniform, -0.4, 0.4";
    if (!uniform) kind = is_gamma ? "constant, 1, 0" : "normal, 0, " + base::format_shortest(deviation);
    text += fmt::format("    {{\"{}\", {}, {}, Kind::{}}},\n", name, rows, columns, kind);
  };
  add("hidden", problem.tokens(), problem.hidden(), 1, false);
  for (int w = 0; w < block::kWeightCount; ++w) {
    const auto weight = static_cast<Weight>(w);
    const auto [rows, columns] = problem.shape(weight);
    add(block::name(weight), rows, columns, 1.0 / std::sqrt(static_cast<double>(rows)), false);
  }
  for (int p = 0; p < block::kParameterCount; ++p) {
    const auto parameter = static_cast<Parameter>(p);
    add(block::name(parameter), 1, problem.elements(parameter), 0.02,
        parameter == Parameter::gamma1 || parameter == Parameter::gamma2);
  }
  return text;
}

}  // namespace fusetune::exporting
