#include "rates.h"

#include <algorithm>

#include "backend/cuda/cublaslt.h"
#include "base/error.h"

namespace fusetune::device_check {
namespace {

using backend::cuda::DeviceBuffer;

constexpr int kThreads = 128, kWarps = kThreads / 32;

/// Any halves below 2 in magnitude, in both 16-bit formats: zeros would draw less power.
void fill_with_halves(DeviceBuffer& buffer) {
  constexpr std::uint32_t kSmallHalves = 0xbfffbfffu;
  std::vector<std::uint32_t> halves(static_cast<std::size_t>(buffer.bytes() / 4), 1);
  for (std::size_t i = 1; i < halves.size(); ++i) halves[i] = halves[i - 1] * 1664525u + 1013904223u;
  for (std::uint32_t& pair : halves) pair &= kSmallHalves;
  buffer.write(halves.data(), buffer.bytes());
}

/// Between two buffers far larger than the cache.
double copy_rate(Gpu& gpu) {
  const std::int64_t bytes = gpu.quick() ? 1 << 20 : std::int64_t{1} << 30;
  const DeviceBuffer from(gpu.context(), bytes);
  DeviceBuffer to(gpu.context(), bytes);
  const Timing timing = gpu.time([&] { to.copy_from(from); });
  return 2.0 * static_cast<double>(bytes) / (1e-6 * timing.microseconds);
}

/// A product large enough to hide its launch and its edges. 0 without the library: a machine may run kernels
/// without.
double gemm_rate(Gpu& gpu) {
  constexpr std::int64_t kWorkspaceBytes = 32 << 20;
  constexpr int kMostAlgorithms = 4;
  const std::int64_t size = gpu.quick() ? 64 : 8192;
  try {
    const backend::cuda::CublasLt library;
    const backend::cuda::CublasLtGemm gemm(library, {size, size, size, block::Dtype::f16}, kWorkspaceBytes,
                                           kMostAlgorithms);
    DeviceBuffer x(gpu.context(), 2 * size * size), w(gpu.context(), 2 * size * size),
        y(gpu.context(), 2 * size * size), workspace(gpu.context(), kWorkspaceBytes);
    fill_with_halves(x);
    fill_with_halves(w);
    double best = 0;
    for (int algorithm = 0; algorithm < gemm.algorithms(); ++algorithm) {
      const Timing timing = gpu.time(
          [&] { gemm.launch(algorithm, x.pointer(), w.pointer(), y.pointer(), workspace.pointer()); });
      best = std::max(best, 2.0 * static_cast<double>(size * size * size) / (1e-6 * timing.microseconds));
    }
    return best;
  } catch (const backend::cuda::DriverError&) {
    throw;
  } catch (const base::EnvironmentError&) {  // stage gemm records why
    return 0;
  }
}

}  // namespace

double matrix_rate(Gpu& gpu, const std::string& symbol) {
  constexpr double kFlopsOfRound = 8 * 2.0 * 16 * 8 * 16;  // of a warp: eight products of 16x8x16
  const LoadedKernel kernel = gpu.kernel(probe_image("rates.cu"), symbol);
  const std::int64_t blocks = gpu.resident_blocks(kernel, kThreads, 0);
  DeviceBuffer in(gpu.context(), 4 * (512 + 2 * kThreads)), out(gpu.context(), 4 * blocks * kThreads);
  fill_with_halves(in);
  ft_gpu_args args = {};
  args.tensor[0] = in.pointer();
  args.tensor[1] = out.pointer();
  args.batch = gpu.quick() ? 4 : 4000;
  const Timing timing = gpu.time([&] { gpu.launch(kernel, {blocks, kThreads, 0, false}, args); });
  return kFlopsOfRound * args.batch * static_cast<double>(blocks) * kWarps / (1e-6 * timing.microseconds);
}

Rates measure_rates(Gpu& gpu, Records& records, const std::string& item) {
  const Rates rates = {matrix_rate(gpu, "rate_mma_f16"), copy_rate(gpu), gemm_rate(gpu)};
  nlohmann::ordered_json fields = {{"matrix_f16_tflops", rounded(1e-12 * rates.flops)},
                                   {"copy_tb_per_s", rounded(1e-12 * rates.bytes)}};
  if (rates.gemm > 0) fields["gemm_f16_tflops"] = rounded(1e-12 * rates.gemm);
  records.add(item, rates.flops > 0 && rates.bytes > 0, fields);
  return rates;
}

double flops_of(const plan::SegmentVariant& variant, const block::Problem& problem, const block::Mask& mask) {
  const auto tokens = static_cast<double>(problem.tokens()), hidden = static_cast<double>(problem.hidden()),
             ffn = static_cast<double>(problem.ffn);
  double pairs = 0;
  for (std::int64_t b = 0; b < problem.batch; ++b)
    pairs += static_cast<double>(mask.visible_count(mask.entries() == 1 ? 0 : b));
  double flops = 0;
  const auto add = [&](int op, double amount) {
    if (variant.segment.contains(op)) flops += 2 * amount;
  };
  add(0, tokens * hidden * 3 * hidden);
  add(2, pairs * hidden);
  add(5, pairs * hidden);
  add(7, tokens * hidden * hidden);
  add(10, tokens * hidden * ffn);
  add(12, tokens * ffn * hidden);
  return flops;
}

nlohmann::ordered_json shares(const Rates& rates, double microseconds, double flops, double bytes, bool f16) {
  const double seconds = 1e-6 * microseconds;
  nlohmann::ordered_json fields = {{"tflops", rounded(1e-12 * flops / seconds)}};
  if (!f16) return fields;
  const double floor = std::max(flops / rates.flops, bytes / rates.bytes);
  fields["of_matrix_rate"] = rounded(flops / seconds / rates.flops, 3);
  if (rates.gemm > 0) fields["of_gemm_rate"] = rounded(flops / seconds / rates.gemm, 3);
  fields["of_copy_rate"] = rounded(bytes / seconds / rates.bytes, 3);
  fields["of_bound"] = rounded(floor / seconds, 3);
  return fields;
}

}  // namespace fusetune::device_check
