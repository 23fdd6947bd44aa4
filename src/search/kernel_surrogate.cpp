#include "search/kernel_surrogate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

#include "model/features.h"
#include "search/cholesky.h"

namespace fusetune::search {
namespace {

/// A kernel timed again minutes later differs by so much: a little more than plans do
/// (data/recorded/README.md).
constexpr double kNoise = 0.015;
/// An operator's time differs by so much of it from kernel to kernel, before anything was timed; and by as
/// much of this share of the block, which a short operator takes that has to wait for others.
constexpr double kSpread = 0.15, kLeastShare = 0.01;
/// No kernel's time is known better than that.
constexpr double kLeastDoubt = 1e-3;
/// Times kSpread, squared.
constexpr std::array kAmplitudes = {0.1, 0.2, 0.35, 0.6, 1.0, 1.6, 2.5, 4.0};

/// Operators that a field of a schedule concerns, a bit each.
constexpr std::uint32_t operators(int first, int last) { return (2U << last) - (1U << first); }
constexpr std::uint32_t kAll = operators(0, 14), kAttention = operators(2, 6), kRows = operators(7, 14),
                        kFfn = operators(10, 12), kProducts = 1U << 0 | 1U << 7 | 1U << 10 | 1U << 12;

/// A field: how fast operators become unlike with it, and which.
struct Trait {
  double weight;
  std::uint32_t concerns;
};
/// In the order of Kernel's constructor. Weights are as in the covariance exp(-sum of weight x doublings): by
/// judgement, none was fitted.
constexpr std::array<Trait, 16> kTraitTable = {{
    {0.3, kAll},             // hand-off
    {0.35, kProducts},       // tile_rows
    {0.35, kProducts},       // tile_columns
    {0.2, kProducts},        // k_chunk, tile_depth
    {0.2, kRows},            // row_block
    {0.1, kFfn},             // ffn_chunk
    {0.2, kAttention},       // query_rows
    {0.2, kAttention},       // key_tiles
    {0.5, operators(0, 6)},  // qkv_per_head
    {0.3, kAll},             // bridge
    {1.0, kAttention},       // hand-written attention
    {0.3, kAll},             // warps
    {0.2, kProducts},        // stages
    {0.3, kProducts},        // split_k
    {0.2, kAll},             // sync
    {1.0, kProducts},        // library
}};
/// Of one operator more or less before, or behind, in the kernel; more than kNear make no difference.
constexpr double kNeighbour = 0.15;
constexpr int kNear = 2;

double doublings(int value) { return std::log2(1.0 + value); }

/// What is unlike in the surroundings of an operator that both kernels have.
double neighbours_unlike(const plan::Segment& a, const plan::Segment& b, int op) {
  const int before = std::abs(std::min(op - a.first, kNear) - std::min(op - b.first, kNear));
  const int behind = std::abs(std::min(a.last - op, kNear) - std::min(b.last - op, kNear));
  return kNeighbour * (before + behind);
}

}  // namespace

KernelSurrogate::Kernel::Kernel(const Candidate& candidate, double expected_share)
    : variant(plan::all_variants()[static_cast<std::size_t>(candidate.variant)]), expected(expected_share) {
  const double hand_written = variant.hand_written ? 1 : 0;
  if (const lower::Schedule* const cpu = candidate.schedule.cpu()) {
    traits = {static_cast<double>(cpu->hand_off),
              doublings(cpu->tile_rows),
              doublings(cpu->tile_columns),
              doublings(cpu->k_chunk),
              doublings(cpu->row_block),
              doublings(cpu->ffn_chunk),
              doublings(cpu->query_rows),
              doublings(cpu->key_tiles),
              cpu->qkv_per_head ? 1.0 : 0.0,
              cpu->bridge ? 1.0 : 0.0,
              hand_written};
    return;
  }
  const lower::GpuSchedule& gpu = *candidate.schedule.gpu();
  traits = {model::rank(gpu.hand_off),
            doublings(gpu.tile_rows),
            doublings(gpu.tile_columns),
            doublings(gpu.tile_depth),
            doublings(gpu.row_block),
            doublings(gpu.ffn_chunk),
            doublings(gpu.query_rows),
            0,
            0,
            0,
            hand_written,
            doublings(gpu.warps),
            doublings(gpu.stages),
            doublings(gpu.split_k),
            gpu.sync == lower::GpuSync::rows ? 1.0 : 0.0,
            gpu.product == lower::GpuProduct::library ? 1.0 : 0.0};
}

KernelSurrogate::KernelSurrogate(const OperatorTimes& alone_us) : alone_us_(alone_us) {
  const double block_us = std::accumulate(alone_us.begin(), alone_us.end(), 0.0);
  for (std::size_t op = 0; op < alone_us.size(); ++op) {
    const double deviation_us = kSpread * std::max(alone_us[op], kLeastShare * block_us);
    variance_[op] = deviation_us * deviation_us;
  }
}

double KernelSurrogate::expected_us(const Kernel& kernel) const {
  const plan::Segment& segment = kernel.variant.segment;
  return kernel.expected *
         std::accumulate(alone_us_.begin() + segment.first, alone_us_.begin() + segment.last + 1, 0.0);
}

/// Before amplitude_, us^2.
double KernelSurrogate::covariance(const Kernel& a, const Kernel& b) const {
  const plan::Segment &one = a.variant.segment, &other = b.variant.segment;
  double sum = 0;
  for (int op = std::max(one.first, other.first); op <= std::min(one.last, other.last); ++op) {
    double unlike = neighbours_unlike(one, other, op);
    for (std::size_t i = 0; i < kTraitTable.size(); ++i)
      if (kTraitTable[i].concerns >> op & 1)
        unlike += kTraitTable[i].weight * std::abs(a.traits[i] - b.traits[i]);
    sum += variance_[static_cast<std::size_t>(op)] * std::exp(-unlike);
  }
  return sum;
}

std::vector<double> KernelSurrogate::covariances(const Kernel& kernel) const {
  std::vector<double> values;
  values.reserve(kernels_.size());
  for (const Kernel& sample : kernels_) values.push_back(amplitude_ * covariance(kernel, sample));
  return values;
}

/// Takes the amplitude where the samples are likelier under it.
void KernelSurrogate::refit(double amplitude, const std::vector<double>& covariance,
                            const std::vector<double>& noise) {
  const std::size_t n = kernels_.size();
  std::vector<double> factor(n * n), weights = rest_us_;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j)
      factor[i * n + j] = amplitude * covariance[i * n + j] + (i == j ? noise[i] : 0);
  const double log_determinant = factor_in_place(factor, n);
  solve_lower(factor, weights);
  const double log_likelihood = -sum_of_squares(weights) / 2 - log_determinant;
  if (!(log_likelihood > log_likelihood_)) return;
  solve_upper(factor, weights);
  amplitude_ = amplitude;
  log_likelihood_ = log_likelihood;
  factor_ = std::move(factor);
  weights_ = std::move(weights);
}

void KernelSurrogate::fit(std::span<const Sample> samples) {
  kernels_.clear();
  rest_us_.clear();
  std::vector<double> noise;
  for (const Sample& sample : samples) {
    kernels_.push_back(sample.kernel);
    rest_us_.push_back(sample.time_us - expected_us(sample.kernel));
    noise.push_back(std::pow(kNoise * sample.time_us, 2) + std::pow(sample.deviation_us, 2));
  }
  const std::size_t n = kernels_.size();
  std::vector<double> covariances(n * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j <= i; ++j) covariances[i * n + j] = covariance(kernels_[i], kernels_[j]);
  log_likelihood_ = -std::numeric_limits<double>::infinity();
  for (const double amplitude : kAmplitudes) refit(amplitude, covariances, noise);
}

KernelSurrogate::Belief KernelSurrogate::believe(const Kernel& kernel) const {
  std::vector<double> shared = covariances(kernel);
  const double mean_us = expected_us(kernel) + dot(shared, weights_);
  solve_lower(factor_, shared);
  const double variance = amplitude_ * covariance(kernel, kernel) - sum_of_squares(shared);
  return {mean_us, std::sqrt(std::max(variance, 0.0))};
}

std::vector<std::vector<double>> KernelSurrogate::draw(std::span<const Kernel> kernels, int count,
                                                       double widening, RandomSource& random) const {
  const std::size_t m = kernels.size();
  std::vector<double> means_us;
  std::vector<std::vector<double>> known;  // of each kernel, what the samples leave no doubt of
  for (const Kernel& kernel : kernels) {
    std::vector<double> shared = covariances(kernel);
    means_us.push_back(expected_us(kernel) + dot(shared, weights_));
    solve_lower(factor_, shared);
    known.push_back(std::move(shared));
  }
  std::vector<double> factor(m * m);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j <= i; ++j)
      factor[i * m + j] = amplitude_ * covariance(kernels[i], kernels[j]) - dot(known[i], known[j]);
    // Two schedules that no trait tells apart would make it singular.
    factor[i * m + i] += std::pow(kLeastDoubt * expected_us(kernels[i]), 2);
  }
  factor_in_place(factor, m);
  std::vector<std::vector<double>> draws(static_cast<std::size_t>(count));
  std::vector<double> normal(m);
  for (std::vector<double>& times_us : draws) {
    for (double& each : normal) each = random.normal();
    for (std::size_t i = 0; i < m; ++i)
      times_us.push_back(means_us[i] + widening * dot(&factor[i * m], normal.data(), i + 1));
  }
  return draws;
}

}  // namespace fusetune::search
