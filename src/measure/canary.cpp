#include "measure/canary.h"

#include <cmath>

#include "measure/statistics.h"

namespace fusetune::measure {
namespace {

constexpr long kBytesPerThread = 2 << 20;
constexpr int kArithmeticSteps = 20000;
constexpr int kSamples = 5;
constexpr int kAttempts = 15;
constexpr double kSampleSeconds = 1e-3;

/// Dependent multiply-adds in eight vectors, then a stream over this thread's share of the memory.
void canary_kernel(const ft_args* args, int thread, int /*threads*/, ft_barrier* /*barrier*/) {
  typedef float Vector __attribute__((vector_size(16)));
  float* memory = reinterpret_cast<float*>(args->scratch + thread * args->scratch_stride);
  Vector sums[8];
  for (int i = 0; i < 8; ++i) sums[i] = Vector{1, 2, 3, 4} * static_cast<float>(i);
  for (int step = 0; step < kArithmeticSteps; ++step) {
    for (Vector& sum : sums) sum = sum * 0.5f + 1.0f;
  }
  Vector total = {};
  for (const Vector& sum : sums) total += sum;
  for (long i = 0; i < args->scratch_stride / 4; ++i) memory[i] = memory[i] * 0.5f + total[0];
}

}  // namespace

Canary::Canary(backend::cpu::Runner& runner)
    : timer_(runner, CacheMode::warm, kSampleSeconds, 0),
      memory_(static_cast<std::size_t>(runner.threads() * kBytesPerThread / 4)) {
  args_.scratch = reinterpret_cast<char*>(memory_.data());
  args_.scratch_stride = kBytesPerThread;
  sequence_.copies = {{{canary_kernel, &args_}}};
}

double Canary::time_us() {
  // Interruptions are known without a canary; what it has to notice is a slower machine: its clock, or a
  // neighbour on the same core or memory.
  std::vector<double> samples;
  for (int i = 0; i < kAttempts && static_cast<int>(samples.size()) < kSamples; ++i) {
    const Sample sample = timer_.sample(sequence_);
    if (!sample.interrupted) samples.push_back(sample.seconds * 1e6);
  }
  return static_cast<int>(samples.size()) < kSamples ? 0 : median(samples);
}

bool Canary::in_band(double time_us, double reference_us) {
  return std::abs(time_us - reference_us) <= kCanaryBand * reference_us;
}

}  // namespace fusetune::measure
