#include "fma_peak.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace peers {
namespace {

// Independent accumulators: more than latency x units (4 x 2) of current cores, fewer than the registers.
constexpr int kAccumulators = 12;
constexpr long kSteps = 100'000;
constexpr double kFlopsPerLane = 2.0 * kAccumulators * kSteps;

// The accumulators end here, so that the compiler cannot drop the loop.
volatile float sink;

#if defined(__x86_64__)

__attribute__((target("avx2,fma"))) void fma_avx2(const ft_args*, int, int, ft_barrier*) {
  __m256 sum[kAccumulators];
  const __m256 factor = _mm256_set1_ps(0.5f), addend = _mm256_set1_ps(1.0f);
  for (__m256& value : sum) value = addend;
  for (long step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kAccumulators; ++i) sum[i] = _mm256_fmadd_ps(sum[i], factor, addend);
  }
  for (int i = 1; i < kAccumulators; ++i) sum[0] = _mm256_add_ps(sum[0], sum[i]);
  sink = _mm256_cvtss_f32(sum[0]);
}

__attribute__((target("avx512f"))) void fma_avx512(const ft_args*, int, int, ft_barrier*) {
  __m512 sum[kAccumulators];
  const __m512 factor = _mm512_set1_ps(0.5f), addend = _mm512_set1_ps(1.0f);
  for (__m512& value : sum) value = addend;
  for (long step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kAccumulators; ++i) sum[i] = _mm512_fmadd_ps(sum[i], factor, addend);
  }
  for (int i = 1; i < kAccumulators; ++i) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  sink = _mm512_cvtss_f32(sum[0]);
}

#endif

using Vector = float __attribute__((vector_size(16)));

void fma_generic(const ft_args*, int, int, ft_barrier*) {
  Vector sum[kAccumulators];
  const Vector factor = {0.5f, 0.5f, 0.5f, 0.5f}, addend = {1, 1, 1, 1};
  for (Vector& value : sum) value = addend;
  for (long step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kAccumulators; ++i) sum[i] = sum[i] * factor + addend;
  }
  for (int i = 1; i < kAccumulators; ++i) sum[0] += sum[i];
  sink = sum[0][0];
}

}  // namespace

FmaPeak fma_peak() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {fma_avx512, kFlopsPerLane * 16, "12 independent fma zmm"};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {fma_avx2, kFlopsPerLane * 8, "12 independent fma ymm"};
  }
#endif
  return {fma_generic, kFlopsPerLane * 4, "12 independent multiply-adds of 4 lanes"};
}

}  // namespace peers
