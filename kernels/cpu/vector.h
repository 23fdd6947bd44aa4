// Vectors of float for one instruction set, in GCC/clang vector extensions: no headers, any 64-bit CPU.
//
// The translation unit defines ft::kLanes (4, 8 or 16) before this file.
#ifndef FUSETUNE_KERNELS_CPU_VECTOR_H
#define FUSETUNE_KERNELS_CPU_VECTOR_H

#define FT_INLINE __attribute__((always_inline)) inline
#define FT_INLINE_LAMBDA __attribute__((always_inline))
#define FT_NOINLINE __attribute__((noinline))

namespace ft {

typedef float vec __attribute__((vector_size(kLanes * 4)));
typedef int ivec __attribute__((vector_size(kLanes * 4)));
typedef float vec_unaligned __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));

constexpr float kInfinity = __builtin_inff();

/// Subtracting zero keeps every x, -0 included, so the compiler emits a bare broadcast; adding would not.
template <class V>
FT_INLINE V splat(float x) {
  return x - V{};
}
FT_INLINE vec load(const float* p) { return *reinterpret_cast<const vec_unaligned*>(p); }
FT_INLINE void store(float* p, vec x) { *reinterpret_cast<vec_unaligned*>(p) = x; }

FT_INLINE vec select(ivec condition, vec a, vec b) { return condition ? a : b; }

/// {0, 1, 2, ...}
FT_INLINE ivec lane_numbers() {
  ivec n;
  for (int i = 0; i < kLanes; ++i) n[i] = i;
  return n;
}

/// The first n lanes of p, 0 in the others. Never reads past p[n - 1].
FT_INLINE vec load_partial(const float* p, long n) {
  if (n >= kLanes) return load(p);
  vec x{};
  for (int i = 0; i < kLanes; ++i)
    if (i < n) x[i] = p[i];
  return x;
}
/// Stores the first n lanes only.
FT_INLINE void store_partial(float* p, vec x, long n) {
  if (n >= kLanes) return store(p, x);
  for (int i = 0; i < kLanes; ++i)
    if (i < n) p[i] = x[i];
}

/// 2^n * x, where `shifted` is n + 1.5 * 2^23: n sits in the low bits. |n| <= 127.
FT_INLINE vec scale_by_power_of_two(vec x, vec shifted) {
  return reinterpret_cast<vec>(reinterpret_cast<ivec>(x) + (reinterpret_cast<ivec>(shifted) << 23));
}

/// The lanes rotated by n: lane i is lane (i + n) % kLanes of x. The vector's type is a parameter because
/// clang checks the branches not taken of what depends on none.
template <int n, class V>
FT_INLINE V rotate(V x) {
  if constexpr (sizeof(V) == 4 * 4)
    return __builtin_shufflevector(x, x, n, n + 1, n + 2, n + 3);
  else if constexpr (sizeof(V) == 4 * 8)
    return __builtin_shufflevector(x, x, n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7);
  else
    return __builtin_shufflevector(x, x, n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7, n + 8, n + 9,
                                   n + 10, n + 11, n + 12, n + 13, n + 14, n + 15);
}
/// Folds halves together with `f` until one lane is left.
template <int n = kLanes / 2, class F>
FT_INLINE float reduce(vec x, F f) {
  const vec folded = f(x, rotate<n>(x));
  if constexpr (n == 1)
    return folded[0];
  else
    return reduce<n / 2>(folded, f);
}
FT_INLINE float sum_of_lanes(vec x) {
  return reduce(x, [](vec a, vec b) FT_INLINE_LAMBDA { return a + b; });
}
FT_INLINE float max_of_lanes(vec x) {
  return reduce(x, [](vec a, vec b) FT_INLINE_LAMBDA { return a > b ? a : b; });
}

constexpr long round_up(long n, long multiple) { return (n + multiple - 1) / multiple * multiple; }
constexpr long min(long a, long b) { return a < b ? a : b; }
constexpr long max(long a, long b) { return a > b ? a : b; }

/// A compile-time value as an argument.
template <auto x>
struct Constant {
  static constexpr auto value = x;
};

/// f(column, lanes) over [0, n) a vector at a time; `lanes` < kLanes only in the last call.
template <class F>
FT_INLINE void for_vectors(long n, F f) {
  long j = 0;
  for (; j + kLanes <= n; j += kLanes) f(j, long(kLanes));
  if (j < n) f(j, n - j);
}

}  // namespace ft

#endif
