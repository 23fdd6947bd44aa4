// One warp's matrix products, from tiles in shared memory into registers.
//
// The accumulator is laid out as PTX's m16n8k16 leaves it, whatever the type: lane l holds rows l / 4 and
// l / 4 + 8 of each block of 16, columns 2 (l % 4) and 2 (l % 4) + 1 of each block of 8. 16-bit types use the
// tensor cores; float32 multiplies by FMA in the same layout, so that all that follows a product is shared.
#ifndef FUSETUNE_KERNELS_CUDA_MMA_H
#define FUSETUNE_KERNELS_CUDA_MMA_H

namespace ft {

/// A warp's Rows x Columns sums, multiples of 16 and 8.
template <int Rows, int Columns>
struct Accumulator {
  static constexpr int kRowBlocks = Rows / 16, kColumnBlocks = Columns / 8;
  float v[kRowBlocks][kColumnBlocks][4];

  FT_INLINE void clear() {
    FT_UNROLL
    for (int i = 0; i < kRowBlocks; ++i) FT_UNROLL
    for (int j = 0; j < kColumnBlocks; ++j) FT_UNROLL
    for (int e = 0; e < 4; ++e) v[i][j][e] = 0.0f;
  }
  /// f(row, column, pair): this lane's values, two neighbouring columns at a time; the pair may be changed.
  template <class F>
  FT_INLINE void for_pairs(const F& f) {
    const int row = lane_index() / 4, column = lane_index() % 4 * 2;
    FT_UNROLL
    for (int i = 0; i < kRowBlocks; ++i) FT_UNROLL
    for (int half = 0; half < 2; ++half) FT_UNROLL
    for (int j = 0; j < kColumnBlocks; ++j)
      f(16 * i + 8 * half + row, 8 * j + column, float_pair{v[i][j][2 * half], v[i][j][2 * half + 1]});
  }
};

/// How a tile of the second operand lies in shared memory.
enum class Order { k_by_n, n_by_k };

// ----------------------------------------------------------------------------------------- 16-bit operands

/// B fragments of two neighbouring blocks of 8 columns for one step of 16 in k.
template <Order order, int Ld, class T>
FT_INLINE void load_b(u32 (&b)[4], const T* tile, int column, int k) {
  const int lane = lane_index();
  if constexpr (order == Order::k_by_n)
    ldmatrix_x4_transposed(b, tile + (k + lane % 16) * Ld + column + lane / 16 * 8);
  else
    ldmatrix_x4(b, tile + (column + lane / 16 * 8 + lane % 8) * Ld + k + lane / 8 % 2 * 8);
}

/// One step of 16 in k: acc += a * B, `a` in fragments.
template <Order order, int LdB, class T, int M, int N>
FT_INLINE void multiply_step(Accumulator<M, N>& acc, const u32 (&a)[M / 16][4], const T* b, int k) {
  FT_UNROLL
  for (int j = 0; j < N / 16; ++j) {
    u32 pair[4];
    load_b<order, LdB>(pair, b, 16 * j, k);
    FT_UNROLL
    for (int i = 0; i < M / 16; ++i) {
      mma_16x8x16<T>(acc.v[i][2 * j], a[i], pair[0], pair[1]);
      mma_16x8x16<T>(acc.v[i][2 * j + 1], a[i], pair[2], pair[3]);
    }
  }
}

// --------------------------------------------------------------------------------------- float32 operands

/// Columns 2 (l % 4) and the next of column block j, element k, of the second operand.
template <Order order, int Ld>
FT_INLINE float_pair b_pair(const float* tile, int j, int k) {
  const int column = 8 * j + lane_index() % 4 * 2;
  if constexpr (order == Order::k_by_n)
    return *reinterpret_cast<const float_pair*>(tile + k * Ld + column);
  else
    return {tile[column * Ld + k], tile[(column + 1) * Ld + k]};
}

template <int M, int N>
FT_INLINE void add_product(Accumulator<M, N>& acc, int j, const float (&a)[M / 16][2], float_pair b) {
  FT_UNROLL
  for (int i = 0; i < M / 16; ++i) FT_UNROLL
  for (int half = 0; half < 2; ++half) {
    acc.v[i][j][2 * half] += a[i][half] * b.x;
    acc.v[i][j][2 * half + 1] += a[i][half] * b.y;
  }
}

// -------------------------------------------------------------------------------------------- the products

/// acc += A * B for Depth (a multiple of 16) elements of k. `a` is the warp's first row of A, K-contiguous;
/// `b` its first column of B. A of float32 with B of 16 bits is rounded to B's type on the way.
template <Order order, int Depth, int LdA, int LdB, class TA, class T, int M, int N>
FT_INLINE void multiply(Accumulator<M, N>& acc, const TA* a, const T* b) {
  const int lane = lane_index(), row = lane / 4;
  if constexpr (sizeof(T) == 2) {
    FT_UNROLL
    for (int k = 0; k < Depth; k += 16) {
      u32 fragments[M / 16][4];
      FT_UNROLL
      for (int i = 0; i < M / 16; ++i) {
        if constexpr (sizeof(TA) == 2) {
          ldmatrix_x4(fragments[i], a + (16 * i + lane % 16) * LdA + k + lane / 16 * 8);
        } else {
          FT_UNROLL
          for (int e = 0; e < 4; ++e) {
            const float_pair x = *reinterpret_cast<const float_pair*>(a + (16 * i + row + e % 2 * 8) * LdA +
                                                                      k + e / 2 * 8 + lane % 4 * 2);
            fragments[i][e] = pack_pair<T>(x.x, x.y);
          }
        }
      }
      multiply_step<order, LdB>(acc, fragments, b, k);
    }
  } else {
    FT_NO_UNROLL
    for (int k = 0; k < Depth; k += 4) {
      float_quad quads[M / 16][2];
      FT_UNROLL
      for (int i = 0; i < M / 16; ++i) FT_UNROLL
      for (int half = 0; half < 2; ++half)
        quads[i][half] = *reinterpret_cast<const float_quad*>(a + (16 * i + 8 * half + row) * LdA + k);
      FT_UNROLL
      for (int e = 0; e < 4; ++e) {
        float values[M / 16][2];
        FT_UNROLL
        for (int i = 0; i < M / 16; ++i) FT_UNROLL
        for (int half = 0; half < 2; ++half) {
          const float_quad& q = quads[i][half];
          values[i][half] = e == 0 ? q.x : e == 1 ? q.y : e == 2 ? q.z : q.w;
        }
        FT_UNROLL
        for (int j = 0; j < N / 8; ++j) add_product(acc, j, values, b_pair<order, LdB>(b, j, k + e));
      }
    }
  }
}

/// acc += P * B, where P's 16 x Depth values are in an accumulator (rounded to B's type on the way): what
/// one product left in registers is the first operand of the next. B is k_by_n.
template <int LdB, class T, int Depth, int N>
FT_INLINE void multiply_registers(Accumulator<16, N>& acc, const Accumulator<16, Depth>& p, const T* b) {
  if constexpr (sizeof(T) == 2) {
    FT_UNROLL
    for (int k = 0; k < Depth; k += 16) {
      const float(&left)[4] = p.v[0][k / 8];
      const float(&right)[4] = p.v[0][k / 8 + 1];
      const u32 a[1][4] = {{pack_pair<T>(left[0], left[1]), pack_pair<T>(left[2], left[3]),
                            pack_pair<T>(right[0], right[1]), pack_pair<T>(right[2], right[3])}};
      multiply_step<Order::k_by_n, LdB>(acc, a, b, k);
    }
  } else {
    // Column k of P is held by lane (k % 8) / 2 of each row's four.
    FT_UNROLL
    for (int block = 0; block < Depth / 8; ++block) FT_UNROLL
    for (int e = 0; e < 8; ++e) {
      const int source = lane_index() / 4 * 4 + e / 2;
      const float values[1][2] = {
          {shuffle(p.v[0][block][e % 2], source), shuffle(p.v[0][block][2 + e % 2], source)}};
      FT_UNROLL
      for (int j = 0; j < N / 8; ++j)
        add_product(acc, j, values, b_pair<Order::k_by_n, LdB>(b, j, 8 * block + e));
    }
  }
}

}  // namespace ft

#endif
