// The GEMM micro-kernel and the loops around it.
//
// C[rows x N] = A[rows x K] * W[K x N], W packed in panels: [N / panel][K][panel], panel = Vectors * kLanes.
// A register tile of Rows x Vectors accumulators runs down K; the panel stays in L1/L2 while all rows of the
// block pass over it, and the next panel is prefetched into L2 meanwhile, a cache line every few k-steps (see
// kStepsPerLine), without bursts that would stall the loads of the present one.
#ifndef FUSETUNE_KERNELS_CPU_GEMM_H
#define FUSETUNE_KERNELS_CPU_GEMM_H

namespace ft {

/// acc += A[:, p] * panel[p, :], one k-step.
template <int Rows, int Vectors>
FT_INLINE void multiply_step(vec (&acc)[Rows][Vectors], const float* a, long lda, const float* panel) {
  vec b[Vectors];
#pragma GCC unroll 4
  for (int j = 0; j < Vectors; ++j) b[j] = load(panel + j * kLanes);
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
    const vec x = splat<vec>(a[i * lda]);
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) acc[i][j] += x * b[j];
  }
}

/// k-steps per prefetched cache line: a panel of one line a step is spread over four row tiles, a wider one
/// over as many. Fetching it during the first tile alone fills the miss buffers that tile's own loads need:
/// best of three alternated runs with 64 rows, 78 GFLOP/s in one burst, 90 spread, of 94 to 96 on a Zen 3
/// core.
template <int Vectors>
constexpr long kStepsPerLine = Vectors* kLanes >= 48   ? 1
                               : Vectors* kLanes >= 32 ? 2
                                                       : 4;

/// One register tile. `a`: Rows rows, stride lda. Adds to c where `accumulate`, else overwrites.
/// Prefetches k / kStepsPerLine lines from `next` on where Prefetch.
template <int Rows, int Vectors, bool Prefetch>
FT_INLINE void multiply_tile(const float* a, long lda, const float* panel, long k, float* c, long ldc,
                             bool accumulate, const char* next) {
  constexpr long steps = kStepsPerLine<Vectors>;
  vec acc[Rows][Vectors];
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) acc[i][j] = vec{};
  if (accumulate) {
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) acc[i][j] = load(c + i * ldc + j * kLanes);
  }
  long p = 0;
  for (; p + steps <= k; p += steps) {
    if (Prefetch) {
      __builtin_prefetch(next, 0, 2);
      next += 64;
    }
#pragma GCC unroll 4
    for (long q = 0; q < steps; ++q)
      multiply_step<Rows, Vectors>(acc, a + p + q, lda, panel + (p + q) * Vectors * kLanes);
  }
  for (; p < k; ++p) multiply_step<Rows, Vectors>(acc, a + p, lda, panel + p * Vectors * kLanes);
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) store(c + i * ldc + j * kLanes, acc[i][j]);
}

/// Where a panel's sums are stored in the end: row r's at data + r * ld. data null: in caches already.
struct Destination {
  const float* data;
  long ld;
};

/// C[rows x panel] (+)= A[rows x k] * panel[k x panel]. `next`: where to prefetch from, null: nowhere;
/// k * panel floats of it are touched at most. Each full tile also fetches the lines of `destination` for its
/// rows: their stores come in a burst, in which every miss would be waited for (Zen 3, two threads,
/// 128 x 768 x 3072: 1.19 times the FMA floor with, 1.24 without). Not inlined: one copy serves every GEMM of
/// a translation unit.
template <int Rows, int Vectors>
FT_NOINLINE void multiply_rows(const float* a, long lda, long rows, const float* panel, long k, float* c,
                               long ldc, bool accumulate, const float* next, Destination destination) {
  const long lines = next ? k * Vectors * kLanes / 16 : 0, per_tile = k / kStepsPerLine<Vectors>;
  const char* ahead = reinterpret_cast<const char*>(next);
  long r = 0;
  const auto tiles_of = [&](auto prefetch, long end) FT_INLINE_LAMBDA {
    for (; r + Rows <= end; r += Rows, ahead += per_tile * 64) {
      if (destination.data)
        for (int i = 0; i < Rows; ++i)
          for (int j = 0; j < Vectors * kLanes; j += 16)
            __builtin_prefetch(destination.data + (r + i) * destination.ld + j, 1, 3);
      multiply_tile<Rows, Vectors, decltype(prefetch)::value>(a + r * lda, lda, panel, k, c + r * ldc, ldc,
                                                              accumulate, ahead);
    }
  };
  const auto tail = [&](auto count) FT_INLINE_LAMBDA {
    constexpr int n = decltype(count)::value;
    for (; rows - r >= n; r += n)
      multiply_tile<n, Vectors, false>(a + r * lda, lda, panel, k, c + r * ldc, ldc, accumulate, nullptr);
  };
  // Eight rows are two tiles of four: both keep two FMA units busy, a tile of two rows half of the time.
  const long full = Rows == 6 && rows % Rows == 2 && rows > Rows ? rows - 8 : rows;
  if (lines > 0) tiles_of(Constant<true>{}, min(full, (lines + per_tile - 1) / max(per_tile, 1) * Rows));
  tiles_of(Constant<false>{}, full);
  if constexpr (Rows > 8) tail(Constant<8>{});
  if constexpr (Rows > 4) tail(Constant<4>{});
  tail(Constant<2>{});
  tail(Constant<1>{});
}

/// The left operand of a GEMM: a row block in memory or scratch.
struct Rows {
  const float* data;
  long ld;
  long count;
};

/// A packed weight, and the part of its K that this call multiplies by: [k_begin, k_begin + k_count).
struct PackedWeight {
  const float* data;
  long k;  // rows of the whole matrix: panels are k * panel floats apart
  long k_begin, k_count;
};

/// C[rows x panel] (+)= A * panel number p, K in chunks of `k_chunk`; prefetches panel p + 1 where `more`.
template <int TileRows, int Vectors>
FT_INLINE void gemm_panel(Rows a, PackedWeight w, long p, bool more, long k_chunk, float* c, long ldc,
                          bool accumulate, Destination destination) {
  constexpr long width = Vectors * kLanes;
  const float* panel = w.data + p * w.k * width;
  const long k_end = w.k_begin + w.k_count;
  for (long k = w.k_begin; k < k_end; k += k_chunk) {
    const long depth = min(k_chunk, k_end - k);
    const float* following = more ? panel + (w.k + w.k_begin) * width : nullptr;
    const float* next = k + depth < k_end ? panel + (k + depth) * width : following;
    multiply_rows<TileRows, Vectors>(a.data + (k - w.k_begin), a.ld, a.count, panel + k * width, depth, c,
                                     ldc, accumulate || k > w.k_begin, next,
                                     k + depth < k_end ? Destination{} : destination);
  }
}

/// C block (+)= A * panels [begin, end): panel p goes to column (p - begin) * width of c, which has room for
/// whole panels.
template <int TileRows, int Vectors>
FT_INLINE void gemm_to_block(Rows a, PackedWeight w, Range panels, long k_chunk, float* c, long ldc,
                             bool accumulate) {
  for (long p = panels.begin; p < panels.end; ++p)
    gemm_panel<TileRows, Vectors>(a, w, p, p + 1 < panels.end, k_chunk,
                                  c + (p - panels.begin) * Vectors * kLanes, ldc, accumulate, {});
}

/// A * panels [begin, end), each finished panel handed to `store(row, column, values, columns)` row by row:
/// `values` holds a panel's width, of which `columns` lie inside the matrix of `n` columns. `tile` is
/// scratch of a.count x width floats, and a vector more.
template <int TileRows, int Vectors, class Store>
FT_INLINE void gemm_to_store(Rows a, PackedWeight w, Range panels, long n, long k_chunk, float* tile,
                             const Store& store) {
  constexpr long width = Vectors * kLanes;
  for (long p = panels.begin; p < panels.end; ++p) {
    gemm_panel<TileRows, Vectors>(a, w, p, p + 1 < panels.end, k_chunk, tile, width, false,
                                  store.destination(p * width));
    for (long r = 0; r < a.count; ++r) store(r, p * width, tile + r * width, min(width, n - p * width));
  }
}

}  // namespace ft

#endif
