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
#include "rates.h"
#include "stages.h"

namespace fusetune::device_check {
namespace {

using backend::cuda::CublasLt;
using backend::cuda::CublasLtGemm;
using backend::cuda::DeviceBuffer;
using block::Tensor;

constexpr int kThreads = 128;

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

  /// A time and what it means. The rates are those of 16-bit products: float32 has no share of them.
  nlohmann::ordered_json figures(const TimedCase& one, const Timing& timing) const {
    nlohmann::ordered_json fields = {{"us", rounded(timing.microseconds)},
                                     {"spread", rounded(timing.spread, 2)}};
    fields.update(shares(rates_, timing.microseconds, flops_of(one.kernel.variant, problem_, mask_),
                         bytes_of(one.kernel, problem_), problem_.dtype != block::Dtype::f32));
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
