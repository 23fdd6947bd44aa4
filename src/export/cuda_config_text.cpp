#include "export/cuda_config_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "block/rounding.h"
#include "export/bundle_text.h"

namespace fusetune::exporting {
namespace {

using block::Tensor;

constexpr std::string_view kTypes =
    R"(/* Tasks of a loop: one for every `rows` rows of all tokens, or of each entry, and each of `times` parts. */
struct @name@_tasks {
  long long rows, times;
  int by_entry;
};

/* A kernel with what decides how it is launched: see shape.c. */
struct @name@_kernel {
  const char *segment, *symbol;
  const void* cubin;
  int threads;      /* of a block */
  int shared_bytes; /* dynamic */
  int stages;       /* that wait for one another: with two or more it is launched cooperatively */
  int waits_for_rows, tile_rows, tile_columns, split_k;
  long long block_scratch_floats;
  int task_count, split_count;
  struct @name@_tasks tasks[@most_tasks@];
  long long split_tiles[@most_splits@]; /* of each stage with split k: tiles across the columns */
};
)";

/// True where the tensor needs memory in the workspace.
bool in_workspace(const CudaBundleInput& input, Tensor tensor) {
  if (tensor == Tensor::hidden || tensor == Tensor::output) return false;
  const auto has = [tensor](const std::vector<Tensor>& list) {
    return std::find(list.begin(), list.end(), tensor) != list.end();
  };
  return std::any_of(input.kernels.begin(), input.kernels.end(), [&](const CudaKernel& kernel) {
    return has(kernel.source.reads) || has(kernel.source.writes) || has(kernel.source.workspace);
  });
}

std::string tensor_rows(const CudaBundleInput& input) {
  const block::Problem& problem = input.problem;
  std::string text;
  for (int t = 0; t < block::kTensorCount; ++t) {
    const auto tensor = static_cast<Tensor>(t);
    const std::int64_t bytes = problem.elements(tensor) / problem.batch *
                               block::element_size(block::stored_as(tensor, problem.dtype));
    text += fmt::format("    {}, /* {} */\n", in_workspace(input, tensor) ? bytes : 0, block::name(tensor));
  }
  return text;
}

std::string kernel_row(const codegen::GpuKernel& kernel, const std::string& cubin) {
  std::string tasks, splits;
  for (const codegen::GpuKernel::Tasks& each : kernel.tasks)
    tasks += fmt::format("{}{{{}, {}, {}}}", tasks.empty() ? "" : ", ", each.rows, each.times,
                         each.by_entry ? 1 : 0);
  for (const std::int64_t tiles : kernel.split_tiles)
    splits += fmt::format("{}{}", splits.empty() ? "" : ", ", tiles);
  const codegen::GpuLaunch launch = kernel.launch(1);
  const lower::GpuSchedule& schedule = kernel.schedule;
  return fmt::format(
      "    {{{}, \"{}\", {},\n     {}, {}, {}, {}, {}, {}, {}, {}, {}, {},\n     {{{}}}, {{{}}}}},\n",
      c_string(kernel.variant.to_string()), kernel.symbol, cubin, launch.threads, launch.shared_bytes,
      kernel.stages, schedule.sync == lower::GpuSync::rows ? 1 : 0, schedule.tile_rows, schedule.tile_columns,
      schedule.split_k, kernel.block_scratch_floats, kernel.tasks.size(), kernel.split_tiles.size(),
      tasks.empty() ? "{0, 0, 0}" : tasks, splits.empty() ? "0" : splits);
}

std::string cubin_symbol(const CudaBundleInput& input, std::size_t kernel) {
  return fmt::format("{}_cubin_{}", input.name, kernel);
}

}  // namespace

std::string config_text(const CudaBundleInput& input) {
  const block::Problem& problem = input.problem;
  std::size_t most_tasks = 1, most_splits = 1;
  std::string cubins, rows;
  for (std::size_t i = 0; i < input.kernels.size(); ++i) {
    const codegen::GpuKernel& kernel = input.kernels[i].source;
    most_tasks = std::max(most_tasks, kernel.tasks.size());
    most_splits = std::max(most_splits, kernel.split_tiles.size());
    cubins += fmt::format("extern const unsigned char {}[];\n", cubin_symbol(input, i));
    rows += kernel_row(kernel, cubin_symbol(input, i));
  }
  const std::string upper_name = upper(input.name);
  const std::string types = fill_template(kTypes, {{"name", input.name},
                                                   {"most_tasks", std::to_string(most_tasks)},
                                                   {"most_splits", std::to_string(most_splits)}});
  std::string text = fmt::format(
      "/* What this bundle computes: its kernels, and the tensors between them. */\n"
      "#ifndef {0}_CONFIG_H\n#define {0}_CONFIG_H\n\n"
      "enum {{ {0}_KERNELS = {1}, {0}_TENSORS = {2}, {0}_HIDDEN_TENSOR = {3}, {0}_OUTPUT_TENSOR = {4} "
      "}};\n\n",
      upper_name, input.kernels.size(), block::kTensorCount, static_cast<int>(Tensor::hidden),
      static_cast<int>(Tensor::output));
  text += types + "\n#ifdef " + upper_name + "_TABLES /* in shape.c: the others only read them */\n";
  text += cubins;
  text += fmt::format("const struct {0}_kernel {0}_kernels[{1}] = {{\n{2}}};\n", input.name,
                      input.kernels.size(), rows);
  text += fmt::format(
      "/* Bytes of each tensor in the workspace, for each batch entry; 0: the caller's, or never in memory. "
      "*/\n"
      "const long long {}_tensor_bytes[{}] = {{\n{}}};\n",
      input.name, block::kTensorCount, tensor_rows(input));
  text +=
      fmt::format("const char {}_text[] =\n    {};\n", input.name,
                  c_string(problem.key() + "  plan " + plan::FusionPlan::from_mask(input.mask).to_string()));
  text += fmt::format(
      "#else\nextern const struct {0}_kernel {0}_kernels[{1}];\nextern const long long "
      "{0}_tensor_bytes[{2}];\n"
      "extern const char {0}_text[];\n#endif\n\n#endif\n",
      input.name, input.kernels.size(), block::kTensorCount);
  return text;
}

std::string cubin_rows(const CudaBundleInput& input) {
  const std::vector<std::string> names = kernel_names(input);
  std::string text = "  .section .rodata\n";
  for (std::size_t i = 0; i < names.size(); ++i)
    text += fmt::format(
        "  .balign 64\n  .globl {0}\n  .hidden {0}\n  .type {0}, %object\n{0}:\n  .incbin \"{1}.cubin\"\n"
        "  .size {0}, . - {0}\n",
        cubin_symbol(input, i), names[i]);
  text.pop_back();
  return text;
}

}  // namespace fusetune::exporting
