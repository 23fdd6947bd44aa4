// What happens to a GEMM's result on its way out: the element-wise operator behind it, fused.
//
// A store is called as store(row, column, pair) for two neighbouring columns of a matrix with N columns;
// where N is odd the last pair has one element only, of which nothing is read past the parameters' ends.
#ifndef FUSETUNE_KERNELS_CUDA_STORES_H
#define FUSETUNE_KERNELS_CUDA_STORES_H

namespace ft {

/// The bias of a pair of columns of N. Single floats: a parameter need not be aligned as pairs are.
template <int N>
FT_INLINE float_pair bias_pair(const float* bias, int column) {
  return load_pair<false>(bias + column, N % 2 == 0 || column + 1 < N);
}

/// out = x
template <class T, int N>
struct Store {
  T* out;
  FT_INLINE void operator()(int row, int column, float_pair x) const {
    store_pair<N % 2 == 0>(out + i64(row) * N + column, x, column + 1 < N);
  }
};

/// out = activation(x + bias): operator 11.
template <class T, int N, class Activation>
struct StoreBiasActivation {
  T* out;
  const float* bias;
  FT_INLINE void operator()(int row, int column, float_pair x) const {
    const float_pair b = bias_pair<N>(bias, column);
    store_pair<N % 2 == 0>(out + i64(row) * N + column, {Activation{}(x.x + b.x), Activation{}(x.y + b.y)},
                           column + 1 < N);
  }
};

/// out = x + bias + residual: operators 8 and 13.
template <class T, int N>
struct StoreBiasResidual {
  T* out;
  const float* bias;
  const T* residual;
  FT_INLINE void operator()(int row, int column, float_pair x) const {
    const i64 at = i64(row) * N + column;
    const float_pair z = load_pair<N % 2 == 0>(residual + at, column + 1 < N);
    const float_pair b = bias_pair<N>(bias, column);
    store_pair<N % 2 == 0>(out + at, {x.x + b.x + z.x, x.y + b.y + z.y}, column + 1 < N);
  }
};

/// q, k, v in head layout = x + bias: operator 1.
template <class T, int S, int H, int W>
struct StoreBiasHeads {
  T *q, *k, *v;  // [B,H,S,W]
  const float* bias;
  FT_INLINE T* at(int row, int column) const {
    constexpr int hidden = H * W;
    T* const out = column < hidden ? q : column < 2 * hidden ? k : v;
    const int head = column % hidden / W;
    return out + ((i64(row / S) * H + head) * S + row % S) * W + column % W;
  }
  FT_INLINE void operator()(int row, int column, float_pair x) const {
    const float_pair b = bias_pair<3 * H * W>(bias, column), y = {x.x + b.x, x.y + b.y};
    if constexpr (W % 2 == 0) {
      store_pair<true>(at(row, column), y, true);
    } else {  // a pair may straddle two heads
      *at(row, column) = from_float<T>(y.x);
      if (column + 1 < 3 * H * W) *at(row, column + 1) = from_float<T>(y.y);
    }
  }
};

}  // namespace ft

#endif
