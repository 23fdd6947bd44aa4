#include <fmt/format.h>

#include <utility>

#include "backend/cuda/loaded_segment.h"
#include "base/error.h"
#include "base/file.h"

namespace fusetune::backend::cuda {
namespace {

/// A kernel with its module and the shape that it is launched in.
class LoadedKernel final : public LoadedSegment {
 public:
  LoadedKernel(const Context& context, const CompiledKernel& compiled, std::int64_t batch)
      : source_(*compiled.source.gpu()),
        module_(context, base::read_file(compiled.image)),
        function_(module_.function(source_.symbol)),
        needs_(source_.launch(batch)) {
    require_shared_memory(context.device());
    if (needs_.cooperative) needs_ = source_.launch(batch, resident_blocks(context.device()));
  }

  plan::SegmentVariant variant() const override { return source_.variant; }
  const std::string& symbol() const override { return source_.symbol; }
  const std::vector<block::Weight>& weights() const override { return source_.weights; }
  std::int64_t scratch_bytes() const override { return needs_.scratch_bytes; }
  std::int64_t sync_words() const override { return needs_.sync_words; }

  void launch(const Stream& stream, CudaBlock& block, const Workspace& workspace, int copy) const override {
    ft_gpu_args arguments = block.arguments(source_, copy);
    arguments.scratch = workspace.scratch.pointer<float>();
    arguments.sync = workspace.sync.pointer<unsigned>();
    const LaunchShape shape{needs_.blocks, needs_.threads, needs_.shared_bytes, needs_.cooperative};
    function_.launch(shape, &arguments, &stream);
  }

 private:
  void require_shared_memory(const DriverDevice& device) const {
    const std::int64_t limit = device.shared_bytes_per_block;
    const std::int64_t shared =
        needs_.shared_bytes + function_.attribute(FunctionAttribute::static_shared_bytes);
    if (shared <= limit) return;
    DeviceError error(fmt::format("{} needs {} bytes of shared memory in a block, this device has {}",
                                  source_.symbol, shared, limit));
    error.is_resource_limit = true;
    throw error;
  }

  /// That the device holds at once.
  std::int64_t resident_blocks(const DriverDevice& device) const {
    const std::int64_t resident =
        std::int64_t{function_.blocks_per_multiprocessor(needs_.threads, needs_.shared_bytes)} *
        device.multiprocessors;
    if (resident > 0) return resident;
    DeviceError error(source_.symbol + " cannot be resident on this device: a block needs more " +
                      "registers or shared memory than a multiprocessor has");
    error.is_resource_limit = true;
    throw error;
  }

  codegen::GpuKernel source_;
  Module module_;
  Function function_;
  codegen::GpuLaunch needs_;
};

}  // namespace

std::unique_ptr<LoadedSegment> load_kernel(const Context& context, const CompiledKernel& compiled,
                                           std::int64_t batch) {
  if (compiled.source.gpu() == nullptr) throw base::InternalError("a CPU's kernel was given to a GPU");
  return std::make_unique<LoadedKernel>(context, compiled, batch);
}

}  // namespace fusetune::backend::cuda
