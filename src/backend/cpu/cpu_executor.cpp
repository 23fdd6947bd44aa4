#include "backend/cpu/cpu_executor.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

#include "backend/cpu/device_block.h"
#include "backend/cpu/loaded_kernel.h"
#include "backend/cpu/runner.h"

namespace fusetune::backend::cpu {
namespace {

/// Reads its share of a buffer: scratch is the buffer, scratch_stride the bytes of one thread.
void stream_over(const ft_args* args, int thread, int /*threads*/, ft_barrier* /*barrier*/) {
  const char* begin = args->scratch + thread * args->scratch_stride;
  long sum = 0;
  for (long offset = 0; offset < args->scratch_stride; offset += 64) sum += begin[offset];
  __asm__ volatile("" : : "r"(sum));
}

/// What takes the place of everything in the caches when it is streamed.
struct FlushBuffer {
  FlushBuffer(std::int64_t bytes, int threads) : memory(static_cast<std::size_t>(bytes)) {
    // Written once: pages never written are all the same page of zeros, which evicts nothing.
    std::memset(memory.data(), 1, memory.size());
    args.scratch = memory.data();
    args.scratch_stride = bytes / threads / 64 * 64;
  }

  std::vector<char> memory;
  ft_args args{};
};

class CpuSequence final : public LaunchSequence {
 public:
  CpuSequence(DeviceBlock& block, Runner& runner, std::span<const backend::CompiledKernel> kernels)
      : block_(block), runner_(runner) {
    kernels_.reserve(kernels.size());
    for (const backend::CompiledKernel& kernel : kernels) {
      const codegen::KernelSource* source = kernel.source.cpu();
      if (source == nullptr) throw base::InternalError("a GPU's kernel was given to the CPU");
      kernels_.emplace_back(cpu::CompiledKernel{kernel.image, source->symbol, *source, 0});
    }
  }

  int ready() override {
    std::vector<const LoadedKernel*> pointers;
    for (const LoadedKernel& kernel : kernels_) pointers.push_back(&kernel);
    const int copies = std::max(1, block_.copies(pointers));
    copies_.clear();
    for (int copy = 0; copy < copies; ++copy) copies_.push_back(launches(copy));
    return copies;
  }

  void run() override { runner_.run(launches(0)); }

  double run_timed(int first, int passes) override {
    queue_.clear();
    for (int pass = 0; pass < passes; ++pass) {
      const auto& copy = copies_.at(static_cast<std::size_t>(first + pass) % copies_.size());
      queue_.insert(queue_.end(), copy.begin(), copy.end());
    }
    return runner_.run_timed(queue_);
  }

  StampedRun run_stamped(int copy) override {
    const std::vector<Launch>& launches = copies_.at(static_cast<std::size_t>(copy));
    std::vector<std::chrono::steady_clock::time_point> times(launches.size() + 1);
    runner_.run_stamped(launches, times);
    StampedRun run;
    for (const auto time : times)
      run.times.push_back(std::chrono::duration<double>(time.time_since_epoch()).count());
    return run;
  }

 private:
  std::vector<Launch> launches(int copy) {
    std::vector<Launch> launches;
    for (const LoadedKernel& kernel : kernels_)
      launches.push_back({kernel.function(), block_.arguments(kernel, copy)});
    return launches;
  }

  DeviceBlock& block_;
  Runner& runner_;
  std::vector<LoadedKernel> kernels_;
  std::vector<std::vector<Launch>> copies_;
  std::vector<Launch> queue_;  // of one sample, kept for its memory
};

class CpuExecutor final : public Executor {
 public:
  CpuExecutor(const block::Problem& problem, const block::Mask& mask, const block::BlockData& data,
              const ExecutorOptions& options)
      : runner_(options.threads), block_(problem, mask, data, options.threads) {
    block_.set_rotation_bytes(options.rotation_bytes);
    if (options.flush_bytes > 0) flush_ = std::make_unique<FlushBuffer>(options.flush_bytes, options.threads);
  }

  void write(block::Tensor tensor, std::span<const double> values) override { block_.write(tensor, values); }
  void poison(block::Tensor tensor) override { block_.poison(tensor); }
  std::vector<float> read(block::Tensor tensor) override {
    const std::span<const float> values = block_.tensor_view(tensor);
    return {values.begin(), values.end()};
  }
  std::string find_damage() override {
    const std::string guards = block_.check_guards();
    return guards.empty() ? "" : "wrote outside of its tensors: guard bytes overwritten around " + guards;
  }
  std::unique_ptr<LaunchSequence> load(std::span<const backend::CompiledKernel> kernels) override {
    return std::make_unique<CpuSequence>(block_, runner_, kernels);
  }
  void flush_caches() override {
    if (flush_) runner_.run(std::array{Launch{stream_over, &flush_->args}});
  }
  int threads() const override { return runner_.threads(); }

 private:
  Runner runner_;
  DeviceBlock block_;
  std::unique_ptr<FlushBuffer> flush_;
};

}  // namespace

std::unique_ptr<Executor> make_executor(const block::Problem& problem, const block::Mask& mask,
                                        const block::BlockData& data, const ExecutorOptions& options) {
  return std::make_unique<CpuExecutor>(problem, mask, data, options);
}

}  // namespace fusetune::backend::cpu
