#include "gpu.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/file.h"

namespace fusetune::device_check {
namespace {

namespace fs = std::filesystem;
using backend::cuda::Architecture;

constexpr double kSampleMicroseconds = 300;  // long against an event's resolution
constexpr int kSamples = 25;
constexpr int kMostLaunches = 200;  // of a sample: the launch queue holds about a thousand

/// The tree's architecture that runs on a device: its own, else an older one of the same generation.
std::optional<Architecture> choose_architecture(const fs::path& tree, int compute_capability) {
  std::optional<Architecture> best;
  for (const fs::directory_entry& entry : fs::directory_iterator(tree)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory() || !name.starts_with("sm_")) continue;
    const Architecture found = backend::cuda::parse_architecture(name);
    const bool runs = found.number == compute_capability ||
                      (!found.specific && found.number / 10 == compute_capability / 10 &&
                       found.number < compute_capability);
    if (runs && (!best || *best < found)) best = found;
  }
  return best;
}

Architecture required_architecture(const fs::path& tree, int compute_capability) {
  const auto found = choose_architecture(tree, compute_capability);
  if (found) return *found;
  throw base::EnvironmentError("no kernels for compute capability " + std::to_string(compute_capability) +
                               " were prepared: tools/device_check --prepare --arch sm_" +
                               std::to_string(compute_capability));
}

double quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(std::lround(share * static_cast<double>(sorted.size() - 1)))];
}

}  // namespace

lower::GpuTarget target_of(const Architecture& architecture) {
  lower::GpuTarget target;
  target.shared_bytes = backend::cuda::limits(architecture).shared_bytes_per_block;
  constexpr int kHopper = 90, kHopperMultiprocessors = 132;
  if (architecture.number >= kHopper) target.multiprocessors = kHopperMultiprocessors;
  return target;
}

Gpu::Gpu(const fs::path& tree, bool quick)
    : context_(backend::cuda::Driver()),
      tree_(tree),
      architecture_(required_architecture(tree, context_.device().compute_capability)),
      quick_(quick) {}

LoadedKernel Gpu::kernel(const Image& image, const std::string& symbol) {
  std::unique_ptr<backend::cuda::Module>& module = modules_[image.cubin_name()];
  if (module == nullptr) {
    const fs::path file = tree_ / architecture_.name() / image.cubin_name();
    if (!fs::exists(file))
      throw base::EnvironmentError("the prepared tree has no " + image.name + " for " + architecture_.name() +
                                   ": repeat tools/device_check --prepare");
    module = std::make_unique<backend::cuda::Module>(context_, base::read_file(file));
  }
  return {module->function(symbol), symbol};
}

std::int64_t Gpu::resident_blocks(const LoadedKernel& kernel, int threads, std::int64_t shared_bytes) const {
  return std::int64_t{kernel.function.blocks_per_multiprocessor(threads, shared_bytes)} *
         device().multiprocessors;
}

void Gpu::launch(const LoadedKernel& kernel, const backend::cuda::LaunchShape& shape,
                 const ft_gpu_args& args) {
  kernel.function.launch(shape, &args);
}

Timing Gpu::time(const std::function<void()>& launch) {
  backend::cuda::Event begin(context_), end(context_);
  const auto sample = [&](int launches) {
    begin.record();
    for (int i = 0; i < launches; ++i) launch();
    end.record();
    end.wait();
    return 1000 * end.since(begin) / launches;
  };
  const int warm_up = quick_ ? 1 : 10;
  sample(warm_up);
  const double once = std::max(sample(warm_up), 0.1);
  const int launches =
      quick_ ? 1 : std::clamp(static_cast<int>(kSampleMicroseconds / once) + 1, 1, kMostLaunches);
  std::vector<double> samples(quick_ ? 1 : kSamples);
  for (double& value : samples) value = sample(launches);
  std::sort(samples.begin(), samples.end());
  const double median = quantile(samples, 0.5);
  return {median, median > 0 ? (quantile(samples, 0.75) - quantile(samples, 0.25)) / median : 0,
          static_cast<int>(samples.size())};
}

}  // namespace fusetune::device_check
