#include "gpu_block.h"

#include <fmt/format.h>

namespace fusetune::device_check {

using backend::cuda::DeviceBuffer;
using backend::cuda::GuardedDeviceBuffer;
using block::Tensor;

GpuBlock::GpuBlock(Gpu& gpu, const block::Problem& problem, const block::Mask& mask,
                   const block::BlockData& data)
    : gpu_(gpu), problem_(problem), block_(gpu.context(), problem, mask, data) {}

BoundKernel GpuBlock::bind(const codegen::GpuKernel& source) {
  BoundKernel bound;
  bound.kernel = gpu_.kernel(segment_image(source), source.symbol);
  bound.needs = source.launch(problem_.batch);
  if (bound.needs.cooperative) {
    const std::int64_t resident =
        gpu_.resident_blocks(bound.kernel, bound.needs.threads, bound.needs.shared_bytes);
    bound.needs = source.launch(problem_.batch, resident);
  }
  bound.shape = {bound.needs.blocks, bound.needs.threads, bound.needs.shared_bytes, bound.needs.cooperative};
  if (bound.needs.scratch_bytes > scratch_.bytes())
    scratch_ = GuardedDeviceBuffer(gpu_.context(), bound.needs.scratch_bytes);
  if (4 * bound.needs.sync_words > sync_.bytes())
    sync_ = DeviceBuffer(gpu_.context(), 4 * bound.needs.sync_words);
  sync_.fill(0);
  bound.args = block_.arguments(source, 0);
  bound.args.scratch = scratch_.pointer<float>();
  bound.args.sync = sync_.pointer<unsigned>();
  return bound;
}

std::optional<std::string> GpuBlock::run(const codegen::GpuKernel& source) {
  constexpr unsigned char kPoison = 0xff;  // a NaN in every format
  const BoundKernel bound = bind(source);
  for (const auto* list : {&source.writes, &source.workspace})
    for (const Tensor which : *list) block_.poison(which);
  scratch_.fill(kPoison);
  gpu_.launch(bound.kernel, bound.shape, bound.args);
  gpu_.context().synchronize();
  return find_leftovers(bound.needs);
}

std::optional<std::string> GpuBlock::find_leftovers(const codegen::GpuLaunch& needs) {
  constexpr unsigned kFlip = 0x80000000u;  // the grid barrier's word ends as 0 or this
  std::string damaged = block_.check_guards();
  if (scratch_.has_damaged_guards()) damaged.append(damaged.empty() ? "" : ", ").append("scratch");
  if (!damaged.empty()) return "wrote outside of its tensors: guard bytes overwritten around " + damaged;
  std::vector<unsigned> words(static_cast<std::size_t>(needs.sync_words));
  sync_.read(words.data(), 4 * needs.sync_words);
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i] != 0 && (i > 0 || words[i] != kFlip))
      return fmt::format("counter {} was left at {}, not zero", i, words[i]);
  return std::nullopt;
}

}  // namespace fusetune::device_check
