// What kernels take, beside what the device can do at best, measured in the same process.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "backend/cuda/cublaslt.h"
#include "block/rounding.h"
#include "cases.h"
#include "gpu_block.h"
#include "measure/check.h"
#include "stages.h"

namespace fusetune::device_check {
namespace {

using backend::cuda::CublasLt;
using backend::cuda::CublasLtGemm;
using backend::cuda::DeviceBuffer;
using block::Tensor;

constexpr int kThreads = 128, kWarps = kThreads / 32;

/// Numbers in [-1, 1).
std::vector<float> noise_of(std::int64_t count, std::uint32_t seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::uint32_t state = seed;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<std::int32_t>(state)) / 2147483648.0f;
  }
  return values;
}

// ---------------------------------------------------------------------------------- what is possible at best

struct Rates {
  double flops = 0;  // a second, of matrix products in registers, f16
  double bytes = 0;  // a second, read and written by a copy
};

/// Products in registers on every multiprocessor.
double matrix_rate(Gpu& gpu, const std::string& symbol) {
  constexpr double kFlopsOfRound = 8 * 2.0 * 16 * 8 * 16;  // of a warp: eight products of 16x8x16
  const LoadedKernel kernel = gpu.kernel(probe_image("rates.cu"), symbol);
  const std::int64_t blocks = gpu.resident_blocks(kernel, kThreads, 0);
  DeviceBuffer in(gpu.context(), 4 * (512 + 2 * kThreads)), out(gpu.context(), 4 * blocks * kThreads);
  // Any halves below 2 in magnitude, in both formats: zeros would draw less power.
  constexpr std::uint32_t kSmallHalves = 0xbfffbfffu;
  std::vector<std::uint32_t> halves(static_cast<std::size_t>(in.bytes() / 4), 1);
  for (std::size_t i = 1; i < halves.size(); ++i) halves[i] = halves[i - 1] * 1664525u + 1013904223u;
  for (std::uint32_t& pair : halves) pair &= kSmallHalves;
  in.write(halves.data(), in.bytes());
  ft_gpu_args args = {};
  args.tensor[0] = in.pointer();
  args.tensor[1] = out.pointer();
  args.batch = gpu.quick() ? 4 : 4000;
  const Timing timing = gpu.time([&] { gpu.launch(kernel, {blocks, kThreads, 0, false}, args); });
  return kFlopsOfRound * args.batch * static_cast<double>(blocks) * kWarps / (1e-6 * timing.microseconds);
}

/// Between two buffers far larger than the cache.
double copy_rate(Gpu& gpu) {
  const std::int64_t bytes = gpu.quick() ? 1 << 20 : std::int64_t{1} << 30;
  const DeviceBuffer from(gpu.context(), bytes);
  DeviceBuffer to(gpu.context(), bytes);
  const Timing timing = gpu.time([&] { to.copy_from(from); });
  return 2.0 * static_cast<double>(bytes) / (1e-6 * timing.microseconds);
}

/// Measures both and records them.
Rates measure_rates(Gpu& gpu, Records& records) {
  const Rates rates = {matrix_rate(gpu, "rate_mma_f16"), copy_rate(gpu)};
  records.add(
      "at best", rates.flops > 0 && rates.bytes > 0,
      {{"matrix_f16_tflops", rounded(1e-12 * rates.flops)}, {"copy_tb_per_s", rounded(1e-12 * rates.bytes)}});
  return rates;
}

// -------------------------------------------------------------------------------------- barriers and
// launches

/// Microseconds of one barrier: the slope between two numbers of rounds, so that the launch is out of it.
void time_barrier(Gpu& gpu, Records& records, const LoadedKernel& kernel, std::int64_t blocks) {
  const int few = gpu.quick() ? 1 : 100, many = gpu.quick() ? 3 : 1100;
  DeviceBuffer sync(gpu.context(), 8);
  sync.fill(0);
  ft_gpu_args args = {};
  args.sync = sync.pointer<unsigned>();
  const auto microseconds = [&](int rounds) {
    args.batch = rounds;
    return gpu.time([&] { gpu.launch(kernel, {blocks, kThreads, 0, true}, args); }).microseconds;
  };
  const double base = microseconds(few), more = microseconds(many);
  records.add("grid barrier, " + std::to_string(blocks) + " blocks", true,
              {{"us_per_barrier", rounded((more - base) / (many - few))}});
}

void time_launch(Gpu& gpu, Records& records, bool cooperative) {
  const LoadedKernel kernel = gpu.kernel(probe_image("rates.cu"), "rate_empty");
  const std::int64_t blocks = gpu.device().multiprocessors;
  const Timing timing = gpu.time([&] { gpu.launch(kernel, {blocks, kThreads, 0, cooperative}, {}); });
  records.add(cooperative ? "cooperative launch" : "launch", true,
              {{"us", rounded(timing.microseconds)}, {"spread", rounded(timing.spread, 2)}});
}

// ----------------------------------------------------------------------------------------------------
// kernels

/// Floating-point operations of the products in a segment; a masked pair counts for nothing.
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

/// Bytes that a segment reads and writes at least.
double bytes_of(const codegen::GpuKernel& kernel, const block::Problem& problem) {
  std::int64_t elements = 0;
  for (const auto* list : {&kernel.reads, &kernel.writes})
    for (const Tensor which : *list) elements += problem.elements(which);
  for (const block::Weight weight : kernel.weights) {
    const auto [rows, columns] = problem.shape(weight);
    elements += rows * columns;
  }
  return static_cast<double>(elements * block::element_size(problem.dtype));
}

/// Times cases of one name; the first one's results are what the others' are compared with.
class NamedCases {
 public:
  NamedCases(Gpu& gpu, Records& records, const Rates& rates, const block::Problem& problem)
      : gpu_(gpu),
        records_(records),
        rates_(rates),
        problem_(problem),
        mask_(problem.mask, problem.batch, problem.seq),
        memory_(gpu, problem, mask_, block::generate_data(problem)) {}

  void time(const TimedCase& one) {
    fill_inputs(one.kernel);
    std::optional<std::string> wrong = memory_.run(one.kernel);
    const double difference = compare(one.kernel);
    // Both schedules may be wrong by the bound, in opposite directions.
    if (!wrong && !(difference <= 2 * measure::bounds(problem_.dtype).norm))
      wrong = "differs from the first schedule's result";
    const BoundKernel bound = memory_.bind(one.kernel);
    const Timing timing = gpu_.time([&] { gpu_.launch(bound.kernel, bound.shape, bound.args); });
    report(one, bound, timing, difference, wrong);
  }

  /// The same product by NVIDIA's library: the fastest of the algorithms that it offers.
  void time_vendor(const CublasLt& library, const TimedCase& one) {
    constexpr std::int64_t kWorkspaceBytes = 32 << 20;
    constexpr int kMostAlgorithms = 8;
    fill_inputs(one.kernel);
    const ft_gpu_args args = memory_.bind(one.kernel).args;
    const block::Weight weight = one.kernel.weights.front();
    const auto [k, n] = problem_.shape(weight);
    const CublasLtGemm gemm(library, {problem_.tokens(), n, k, problem_.dtype}, kWorkspaceBytes,
                            kMostAlgorithms);
    DeviceBuffer workspace(gpu_.context(), kWorkspaceBytes);
    const auto launch = [&](int algorithm) {
      gemm.launch(algorithm, args.tensor[static_cast<int>(one.kernel.reads.front())],
                  args.weight[static_cast<int>(weight)],
                  args.tensor[static_cast<int>(one.kernel.writes.front())], workspace.pointer());
    };
    std::optional<Timing> best;
    double difference = 0;
    for (int algorithm = 0; algorithm < gemm.algorithms(); ++algorithm) {
      launch(algorithm);
      gpu_.context().synchronize();
      difference = std::max(difference, compare(one.kernel));
      const Timing timing = gpu_.time([&] { launch(algorithm); });
      if (!best || timing.microseconds < best->microseconds) best = timing;
    }
    if (best) report_vendor(one, gemm.algorithms(), *best, difference);
  }

 private:
  /// Tensors behind the block's input hold noise: no kernel's time depends on it.
  void fill_inputs(const codegen::GpuKernel& kernel) {
    for (const Tensor which : kernel.reads)
      memory_.write(which, noise_of(problem_.elements(which), 1 + static_cast<std::uint32_t>(which)));
  }

  /// Relative to the first schedule's result of the same tensor; NaN for what is not finite.
  double compare(const codegen::GpuKernel& kernel) {
    double squares = 0, errors = 0;
    for (const Tensor which : kernel.writes) {
      const std::vector<float> got = memory_.read(which);
      const std::vector<float>& want = first_.try_emplace(which, got).first->second;
      for (std::size_t i = 0; i < got.size(); ++i) {
        errors += std::pow(double{got[i]} - want[i], 2);
        squares += std::pow(double{want[i]}, 2);
      }
    }
    return std::sqrt(errors / squares);
  }

  void report(const TimedCase& one, const BoundKernel& bound, const Timing& timing, double difference,
              const std::optional<std::string>& wrong) {
    using backend::cuda::FunctionAttribute;
    nlohmann::ordered_json fields = {{"segment", one.kernel.variant.to_string()},
                                     {"schedule", one.kernel.schedule.to_string()}};
    fields.update(figures(one, timing));
    fields.update({{"blocks", bound.shape.blocks},
                   {"registers", bound.kernel.function.attribute(FunctionAttribute::registers)},
                   {"local_bytes", bound.kernel.function.attribute(FunctionAttribute::local_bytes)},
                   {"shared_bytes", bound.shape.shared_bytes},
                   {"blocks_per_multiprocessor", bound.kernel.function.blocks_per_multiprocessor(
                                                     bound.shape.threads, bound.shape.shared_bytes)},
                   {"difference", rounded(difference, 2)}});
    if (wrong) fields["finding"] = *wrong;
    records_.add(one.name, !wrong, fields);
  }

  void report_vendor(const TimedCase& one, int algorithms, const Timing& timing, double difference) {
    nlohmann::ordered_json fields = {{"vendor", "cuBLASLt"}, {"algorithms", algorithms}};
    fields.update(figures(one, timing));
    fields["difference"] = rounded(difference, 2);
    records_.add(one.name, difference <= 2 * measure::bounds(problem_.dtype).norm, fields);
  }

  /// A time and what it means. The rate is that of 16-bit products: float32 has no share of it.
  nlohmann::ordered_json figures(const TimedCase& one, const Timing& timing) const {
    const double flops = flops_of(one.kernel.variant, problem_, mask_), seconds = 1e-6 * timing.microseconds;
    nlohmann::ordered_json fields = {{"us", rounded(timing.microseconds)},
                                     {"spread", rounded(timing.spread, 2)},
                                     {"tflops", rounded(1e-12 * flops / seconds)}};
    if (problem_.dtype == block::Dtype::f32) return fields;
    const double floor = std::max(flops / rates_.flops, bytes_of(one.kernel, problem_) / rates_.bytes);
    fields["of_matrix_rate"] = rounded(flops / seconds / rates_.flops, 3);
    fields["of_bound"] = rounded(floor / seconds, 3);
    return fields;
  }

  Gpu& gpu_;
  Records& records_;
  const Rates& rates_;
  block::Problem problem_;
  block::Mask mask_;
  GpuBlock memory_;
  std::map<Tensor, std::vector<float>> first_;
};

/// NVIDIA's library where the machine has it; a machine may run kernels without.
std::unique_ptr<CublasLt> open_vendor(Records& records) {
  try {
    auto library = std::make_unique<CublasLt>();
    records.add("cuBLASLt", true, {{"version", library->version()}});
    return library;
  } catch (const base::EnvironmentError& error) {
    records.add("cuBLASLt", true, {{"skipped", error.what()}});
    return nullptr;
  }
}

void time_group(Gpu& gpu, Records& records, std::string_view group) {
  const Rates rates = measure_rates(gpu, records);
  const std::unique_ptr<CublasLt> vendor = group == "gemm" ? open_vendor(records) : nullptr;
  const std::vector<TimedCase> cases = timed_cases(group, gpu.target(), gpu.quick());
  std::unique_ptr<NamedCases> named;
  std::string name;
  int step = 0;
  const auto cases_like = [&](const TimedCase& one) -> NamedCases& {
    if (named == nullptr || one.name != name)
      named = std::make_unique<NamedCases>(gpu, records, rates, one.problem);
    name = one.name;
    return *named;
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (records.begin_step(step++)) cases_like(cases[i]).time(cases[i]);
    const bool is_last = i + 1 == cases.size() || cases[i + 1].name != cases[i].name;
    if (vendor != nullptr && is_last && records.begin_step(step++))
      cases_like(cases[i]).time_vendor(*vendor, cases[i]);
  }
}

}  // namespace

void time_rates(Gpu& gpu, Records& records) {
  measure_rates(gpu, records);
  records.add("matrix rate bf16", true, {{"tflops", rounded(1e-12 * matrix_rate(gpu, "rate_mma_bf16"))}});
  for (const bool cooperative : {false, true}) time_launch(gpu, records, cooperative);
  const LoadedKernel barrier = gpu.kernel(probe_image("rates.cu"), "rate_barrier");
  const std::int64_t all = gpu.resident_blocks(barrier, kThreads, 0), one_each = gpu.device().multiprocessors;
  for (const std::int64_t blocks : std::set<std::int64_t>{one_each, std::min(2 * one_each, all), all})
    time_barrier(gpu, records, barrier, blocks);
}

void time_gemm(Gpu& gpu, Records& records) { time_group(gpu, records, "gemm"); }
void time_attention(Gpu& gpu, Records& records) { time_group(gpu, records, "attention"); }
void time_segments(Gpu& gpu, Records& records) { time_group(gpu, records, "segments"); }

}  // namespace fusetune::device_check
