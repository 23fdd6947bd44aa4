// The GEMM micro-kernel and the loops around it.
//
// C[rows x N] = A[rows x K] * W[K x N], W packed in panels: [N / panel][K][panel], panel = Vectors * kLanes.
// A register tile of Rows x Vectors accumulators runs down K; the panel stays in L1/L2 while all rows of the
// block pass over it, and the next panel is prefetched into L2 one cache line per k-step meanwhile: enough
// to hide memory at 24 rows or more, without bursts that would stall the loads of the present one.
#ifndef FUSETUNE_KERNELS_CPU_GEMM_H
#define FUSETUNE_KERNELS_CPU_GEMM_H

namespace ft {

/// One register tile. `a`: Rows rows, stride lda. Adds to c where `accumulate`, else overwrites.
/// Prefetches the line at `next` and the following ones, one per k-step, where Prefetch.
template <int Rows, int Vectors, bool Prefetch>
FT_INLINE void multiply_tile(const float* a, long lda, const float* panel, long k, float* c, long ldc,
                             bool accumulate, const char* next) {
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
#pragma GCC unroll 2
  for (long p = 0; p < k; ++p) {
    vec b[Vectors];
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) b[j] = load(panel + j * kLanes);
    panel += Vectors * kLanes;
    if (Prefetch) {
      __builtin_prefetch(next, 0, 2);
      next += 64;
    }
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
      const vec x = splat<vec>(a[i * lda + p]);
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) acc[i][j] += x * b[j];
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < Vectors; ++j) store(c + i * ldc + j * kLanes, acc[i][j]);
}

/// C[rows x panel] (+)= A[rows x k] * panel[k x panel]. `next`: where to prefetch from, null: nowhere;
/// k * panel floats of it are touched at most. Not inlined: one copy serves every GEMM of a translation unit.
template <int Rows, int Vectors>
FT_NOINLINE void multiply_rows(const float* a, long lda, long rows, const float* panel, long k, float* c,
                               long ldc, bool accumulate, const float* next) {
  const long lines = k * Vectors * kLanes / 16;
  const char* ahead = reinterpret_cast<const char*>(next);
  long touched = next ? 0 : lines, r = 0;
  for (; r + Rows <= rows; r += Rows) {
    const float* x = a + r * lda;
    float* y = c + r * ldc;
    if (touched + k <= lines) {
      multiply_tile<Rows, Vectors, true>(x, lda, panel, k, y, ldc, accumulate, ahead + touched * 64);
      touched += k;
    } else {
      multiply_tile<Rows, Vectors, false>(x, lda, panel, k, y, ldc, accumulate, nullptr);
    }
  }
  if constexpr (Rows > 8)
    if (rows - r >= 8) {
      multiply_tile<8, Vectors, false>(a + r * lda, lda, panel, k, c + r * ldc, ldc, accumulate, nullptr);
      r += 8;
    }
  if constexpr (Rows > 4)
    if (rows - r >= 4) {
      multiply_tile<4, Vectors, false>(a + r * lda, lda, panel, k, c + r * ldc, ldc, accumulate, nullptr);
      r += 4;
    }
  if (rows - r >= 2) {
    multiply_tile<2, Vectors, false>(a + r * lda, lda, panel, k, c + r * ldc, ldc, accumulate, nullptr);
    r += 2;
  }
  if (rows - r >= 1)
    multiply_tile<1, Vectors, false>(a + r * lda, lda, panel, k, c + r * ldc, ldc, accumulate, nullptr);
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
                          bool accumulate) {
  constexpr long width = Vectors * kLanes;
  const float* panel = w.data + p * w.k * width;
  const long k_end = w.k_begin + w.k_count;
  for (long k = w.k_begin; k < k_end; k += k_chunk) {
    const long depth = min(k_chunk, k_end - k);
    const float* following = more ? panel + (w.k + w.k_begin) * width : nullptr;
    const float* next = k + depth < k_end ? panel + (k + depth) * width : following;
    multiply_rows<TileRows, Vectors>(a.data + (k - w.k_begin), a.ld, a.count, panel + k * width, depth, c, ldc,
                                     accumulate || k > w.k_begin, next);
  }
}

/// C block (+)= A * panels [begin, end): panel p goes to column (p - begin) * width of c, which has room for
/// whole panels.
template <int TileRows, int Vectors>
FT_INLINE void gemm_to_block(Rows a, PackedWeight w, Range panels, long k_chunk, float* c, long ldc,
                             bool accumulate) {
  for (long p = panels.begin; p < panels.end; ++p)
    gemm_panel<TileRows, Vectors>(a, w, p, p + 1 < panels.end, k_chunk,
                                  c + (p - panels.begin) * Vectors * kLanes, ldc, accumulate);
}

/// A * panels [begin, end), each finished panel handed to `store(row, column, values, columns)` row by row:
/// `values` holds a panel's width, of which `columns` lie inside the matrix of `n` columns. `tile` is
/// scratch of a.count x width floats, and a vector more.
template <int TileRows, int Vectors, class Store>
FT_INLINE void gemm_to_store(Rows a, PackedWeight w, Range panels, long n, long k_chunk, float* tile,
                             const Store& store) {
  constexpr long width = Vectors * kLanes;
  for (long p = panels.begin; p < panels.end; ++p) {
    gemm_panel<TileRows, Vectors>(a, w, p, p + 1 < panels.end, k_chunk, tile, width, false);
    for (long r = 0; r < a.count; ++r) store(r, p * width, tile + r * width, min(width, n - p * width));
  }
}

}  // namespace ft

#endif
