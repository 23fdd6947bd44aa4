#include "codegen/gpu_kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/integer.h"
#include "codegen/kernel_source.h"

namespace fusetune::codegen {
namespace {

using base::ceil_div;

std::string_view platform(GpuDialect dialect) {
  switch (dialect) {
    case GpuDialect::cuda:
      return "cuda/platform_nvidia.h";
    case GpuDialect::hip:
      return "cuda/platform_hip.h";
    case GpuDialect::simt:
      return "cuda/platform_simt.h";
  }
  throw base::InternalError("GPU dialect out of range");
}

std::string numbered(std::string_view path, std::string_view text) {
  return fmt::format("#line 1 \"{}\"\n{}", path, text);
}

/// The platform comes right behind the ABI, which everything else may use.
std::vector<std::string> files_of(const GpuKernel& kernel, GpuDialect dialect) {
  std::vector<std::string> files = kernel.includes;
  files.insert(files.begin() + 1, std::string(platform(dialect)));
  return files;
}

void require_countable_rows(const GpuKernel& kernel, std::int64_t batch) {
  const std::int64_t most = kMostGpuRows / (kernel.seq * kernel.heads);
  if (batch <= most) return;
  throw base::UsageError(
      fmt::format("cannot launch {}: a batch of {} has more than {} rows of scores (batch x {} heads x {} "
                  "tokens), which is "
                  "as many as a kernel counts; use batches of at most {}",
                  kernel.symbol, batch, kMostGpuRows, kernel.heads, kernel.seq, most));
}

}  // namespace

GpuLaunch GpuKernel::launch(std::int64_t batch, std::int64_t resident) const {
  require_countable_rows(*this, batch);
  GpuLaunch launch;
  launch.threads = 32 * schedule.warps;
  launch.shared_bytes = shared_bytes;
  launch.cooperative = stages > 1;
  for (const Tasks& stage : tasks) {
    const std::int64_t blocks =
        stage.by_entry ? batch * ceil_div(seq, stage.rows) : ceil_div(batch * seq, stage.rows);
    launch.blocks = std::max(launch.blocks, blocks * stage.times);
  }
  if (resident > 0) launch.blocks = std::min(launch.blocks, resident);

  const std::int64_t row_tiles = ceil_div(batch * seq, schedule.tile_rows);
  const std::int64_t tile = std::int64_t{schedule.tile_rows} * schedule.tile_columns;
  std::int64_t floats = launch.blocks * block_scratch_floats;
  launch.sync_words = 2;
  if (schedule.sync == lower::GpuSync::rows)
    launch.sync_words += (stages - 1) * ceil_div(batch * seq, kGpuRowGroup);
  for (const std::int64_t across : split_tiles) {
    floats += row_tiles * across * schedule.split_k * tile;
    launch.sync_words += row_tiles * across;
  }
  launch.scratch_bytes = 4 * floats;
  return launch;
}

std::string translation_unit(std::span<const GpuKernel> kernels, GpuDialect dialect) {
  if (kernels.empty()) throw base::InternalError("a translation unit needs at least one kernel");
  std::string text;
  for (const std::string& path : files_of(kernels.front(), dialect))
    text += numbered(path, building_block(path));
  for (const GpuKernel& kernel : kernels) text += numbered(kernel.symbol + ".cu", kernel.body);
  return text;
}

std::string readable_source(const GpuKernel& kernel, GpuDialect dialect) {
  std::string text;
  for (const std::string& path : files_of(kernel, dialect)) text += fmt::format("#include \"{}\"\n", path);
  return text + "\n" + kernel.body;
}

}  // namespace fusetune::codegen
