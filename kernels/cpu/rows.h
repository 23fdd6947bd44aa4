// Row stages: element-wise operators and LayerNorm over a block of rows.
#ifndef FUSETUNE_KERNELS_CPU_ROWS_H
#define FUSETUNE_KERNELS_CPU_ROWS_H

namespace ft {

/// y[r] = x[r] + bias + residual[r] over n columns: operators 8 and 13. y may be x.
FT_INLINE void bias_residual_rows(Rows x, const float* bias, Rows residual, long n, float* y, long ldy) {
  for (long r = 0; r < x.count; ++r) {
    const float* a = x.data + r * x.ld;
    const float* z = residual.data + r * residual.ld;
    for_vectors(n, [&](long j, long lanes) {
      store_partial(y + r * ldy + j, load_partial(a + j, lanes) + load(bias + j) + load_partial(z + j, lanes),
                    lanes);
    });
  }
}

/// y[r] = activation(x[r] + bias) over n columns: operator 11.
template <class Activation>
FT_INLINE void bias_activation_rows(Rows x, const float* bias, long n, float* y, long ldy) {
  for (long r = 0; r < x.count; ++r) {
    const float* a = x.data + r * x.ld;
    for_vectors(n, [&](long j, long lanes) {
      store_partial(y + r * ldy + j, Activation{}(load_partial(a + j, lanes) + load(bias + j)), lanes);
    });
  }
}

/// LayerNorm of one row, y may be x. Subtracts the row's first element, then takes two passes: a row such as
/// 1000 + 0.001 i keeps its digits, which neither one pass nor a plain two-pass mean does in float32.
FT_INLINE void layernorm_row(const float* x, long n, const float* gamma, const float* beta, float eps,
                             float* y) {
  const float first = x[0];
  vec sum{};
  for_vectors(n, [&](long j, long lanes) {
    const vec d = load_partial(x + j, lanes) - first;
    sum += lanes == kLanes ? d : select(lane_numbers() < int(lanes), d, vec{});
  });
  const float mean = sum_of_lanes(sum) / float(n);
  vec squares{};
  for_vectors(n, [&](long j, long lanes) {
    const vec d = (load_partial(x + j, lanes) - first) - mean;
    squares += lanes == kLanes ? d * d : select(lane_numbers() < int(lanes), d * d, vec{});
  });
  const float scale = 1.0f / __builtin_sqrtf(sum_of_lanes(squares) / float(n) + eps);
  for_vectors(n, [&](long j, long lanes) {
    const vec d = (load_partial(x + j, lanes) - first) - mean;
    store_partial(y + j, d * scale * load(gamma + j) + load(beta + j), lanes);
  });
}

/// LayerNorm of every row: operators 9 and 14. y may be x.
FT_NOINLINE void layernorm_rows(Rows x, long n, const float* gamma, const float* beta, float eps, float* y,
                                long ldy) {
  for (long r = 0; r < x.count; ++r) layernorm_row(x.data + r * x.ld, n, gamma, beta, eps, y + r * ldy);
}

/// Rows of `output` that belong to padding are exactly zero, whatever was computed for them.
FT_INLINE void zero_padded_rows(const ft_mask& mask, long S, long row0, long rows, long n, float* y,
                                long ldy) {
  if (!mask.length) return;
  for (long r = 0; r < rows; ++r)
    if ((row0 + r) % S >= mask.length[(row0 + r) / S]) __builtin_memset(y + r * ldy, 0, n * sizeof(float));
}

/// Rows row0 .. of `merged` [B,S,D] gathered from `context` [B,H,S,W]: operator 6.
FT_INLINE void merge_heads_rows(const float* context, long S, long H, long W, long row0, long rows, float* y,
                                long ldy) {
  for (long r = 0; r < rows; ++r) {
    const long b = (row0 + r) / S, s = (row0 + r) % S;
    for (long h = 0; h < H; ++h)
      __builtin_memcpy(y + r * ldy + h * W, context + ((b * H + h) * S + s) * W, W * sizeof(float));
  }
}

}  // namespace ft

#endif
