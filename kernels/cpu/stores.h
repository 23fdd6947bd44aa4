// What happens to a GEMM's result on its way out: the element-wise operator behind it, fused.
//
// A store is called as store(row, column, values, columns): `row` counts from the row block's first,
// `values` are `columns` finished sums of that row (padded to a whole vector). destination(column) tells
// where the rows of a panel from that column on will go, for prefetching: near enough is good enough.
#ifndef FUSETUNE_KERNELS_CPU_STORES_H
#define FUSETUNE_KERNELS_CPU_STORES_H

namespace ft {

/// out = x
struct Store {
  float* out;
  long ld;
  FT_INLINE Destination destination(long column) const { return {out + column, ld}; }
  FT_INLINE void operator()(long row, long column, const float* x, long columns) const {
    float* y = out + row * ld + column;
    for_vectors(columns, [&](long j, long lanes) { store_partial(y + j, load(x + j), lanes); });
  }
};

/// out = activation(x + bias): operator 11. `out` holds the columns from column0 on.
template <class Activation>
struct StoreBiasActivation {
  float* out;
  long ld;
  const float* bias;
  long column0;
  FT_INLINE Destination destination(long column) const { return {out + (column - column0), ld}; }
  FT_INLINE void operator()(long row, long column, const float* x, long columns) const {
    float* y = out + row * ld + (column - column0);
    for_vectors(columns, [&](long j, long lanes) {
      store_partial(y + j, Activation{}(load(x + j) + load(bias + column + j)), lanes);
    });
  }
};

/// out = x + bias + residual: operators 8 and 13.
struct StoreBiasResidual {
  float* out;
  long ld;
  const float* bias;
  const float* residual;
  long residual_ld;
  FT_INLINE Destination destination(long column) const { return {out + column, ld}; }
  FT_INLINE void operator()(long row, long column, const float* x, long columns) const {
    float* y = out + row * ld + column;
    const float* z = residual + row * residual_ld + column;
    for_vectors(columns, [&](long j, long lanes) {
      store_partial(y + j, load(x + j) + load(bias + column + j) + load_partial(z + j, lanes), lanes);
    });
  }
};

/// q, k, v in head layout = x + bias: operator 1. A panel may straddle heads: it is stored in runs.
struct StoreBiasHeads {
  float* out[3];  // q, k, v: [B,H,S,W]
  const float* bias;
  long row0;  // token of the row block's first row
  long S, H, W;
  FT_INLINE float* at(long b, long s, long column) const {
    const long head = column / W;
    return out[head / H] + ((b * H + head % H) * S + s) * W + column % W;
  }
  FT_INLINE Destination destination(long column) const { return {at(row0 / S, row0 % S, column), W}; }
  FT_INLINE void operator()(long row, long column, const float* x, long columns) const {
    const long b = (row0 + row) / S, s = (row0 + row) % S;
    for (long done = 0; done < columns;) {
      const long c = column + done, run = min(W - c % W, columns - done);
      float* y = at(b, s, c);
      for_vectors(run, [&](long j, long lanes) {
        store_partial(y + j, load(x + done + j) + load(bias + c + j), lanes);
      });
      done += run;
    }
  }
};

}  // namespace ft

#endif
