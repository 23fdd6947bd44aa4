// GEMM stages: C = A * W for any M, N, K, tile by tile, with a pipeline of asynchronous copies.
//
// Blocks take tiles of C in turn. A tile's sums stay in registers; a store (stores.h) writes them, with the
// element-wise operator behind the product applied on the way.
#ifndef FUSETUNE_KERNELS_CUDA_GEMM_H
#define FUSETUNE_KERNELS_CUDA_GEMM_H

namespace ft {

/// Sizes of a block's tile: Rows x Columns of C, Depth of k per step, Stages steps in flight, its warps in a
/// grid of WarpRows x WarpColumns.
template <class T, int Rows, int Columns, int Depth, int WarpRows, int WarpColumns, int Stages>
struct GemmTile {
  using Element = T;
  static constexpr int kRows = Rows, kColumns = Columns, kDepth = Depth, kStages = Stages;
  static constexpr int kThreads = 32 * WarpRows * WarpColumns;
  static constexpr int kLdA = Depth + kPad<T>, kLdB = Columns + kPad<T>;
  static constexpr int kStage = Rows * kLdA + Depth * kLdB;  // elements
  static constexpr int kBytes = Stages * kStage * int(sizeof(T));
  static constexpr int kWarpM = Rows / WarpRows, kWarpN = Columns / WarpColumns;
  static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0 && Depth % 16 == 0 && Stages >= 2, "tile sizes");
  using Sums = Accumulator<kWarpM, kWarpN>;

  static FT_INLINE int warp_row() { return warp_index() / WarpColumns * kWarpM; }
  static FT_INLINE int warp_column() { return warp_index() % WarpColumns * kWarpN; }
};

/// sums += A[row0 .. , k_begin .. k_end) * B[k_begin .. k_end), column0 ..]; A ends at `rows`, B at
/// `columns`. `shared` has Tile::kBytes and is free for other use afterwards.
template <class Tile, class A, class B>
FT_INLINE void accumulate_tile(typename Tile::Sums& sums, typename Tile::Element* shared, const A& a,
                               const B& b, int row0, int rows, int column0, int columns, int k_begin,
                               int k_end) {
  constexpr int depth = Tile::kDepth, ahead = Tile::kStages - 1;
  const int steps = ceil_div(k_end - k_begin, depth);
  const auto load = [&](int step) {
    if (step < steps) {
      auto* tile = shared + step % Tile::kStages * Tile::kStage;
      const int k = k_begin + step * depth;
      load_tile<Tile::kRows, depth, Tile::kLdA, Tile::kThreads>(tile, a, row0, rows, k, k_end);
      load_tile<depth, Tile::kColumns, Tile::kLdB, Tile::kThreads>(tile + Tile::kRows * Tile::kLdA, b, k,
                                                                   k_end, column0, columns);
    }
    copy_async_commit();
  };
  for (int step = 0; step < ahead; ++step) load(step);
  for (int step = 0; step < steps; ++step) {
    copy_async_wait<ahead - 1>();
    block_sync();  // this step's tile is there, and all have left the one that the next load overwrites
    load(step + ahead);
    const auto* tile = shared + step % Tile::kStages * Tile::kStage;
    multiply<Order::k_by_n, depth, Tile::kLdA, Tile::kLdB>(
        sums, tile + Tile::warp_row() * Tile::kLdA, tile + Tile::kRows * Tile::kLdA + Tile::warp_column());
  }
  block_sync();  // the last step waited for all copies: groups behind it are empty
}

/// Hands the sums of a tile at (row0, column0) to store(row, column, pair), inside M x N only.
template <class Tile, int N, class Store>
FT_INLINE void store_tile(typename Tile::Sums& sums, int row0, int M, int column0, const Store& store) {
  sums.for_pairs([&](int r, int c, float_pair pair) {
    const int row = row0 + Tile::warp_row() + r, column = column0 + Tile::warp_column() + c;
    if (row < M && column < N) store(row, column, pair);
  });
}

/// C[M,N] = A[M,K] * B[K,N].
template <class Tile, int N, int K, class A, class B, class Store, class Hand>
FT_INLINE void gemm_stage(unsigned char* shared, int M, const A& a, const B& b, const Store& store,
                          const Hand& hand) {
  using T = typename Tile::Element;
  constexpr int across = ceil_div(N, Tile::kColumns);
  for (int t = block_index(); t < ceil_div(M, Tile::kRows) * across; t += grid_blocks()) {
    const int row0 = t / across * Tile::kRows, column0 = t % across * Tile::kColumns;
    typename Tile::Sums sums;
    sums.clear();
    hand.before(row0, min_of(row0 + Tile::kRows, M));
    accumulate_tile<Tile>(sums, reinterpret_cast<T*>(shared), a, b, row0, M, column0, N, 0, K);
    store_tile<Tile, N>(sums, row0, M, column0, store);
    hand.after(row0, min_of(row0 + Tile::kRows, M));
  }
}

/// The same with K in Splits parts, each by another block: for products with few tiles and a long K. The
/// parts of a tile meet in `partial` [tiles][Splits][tile]; whoever comes last adds them up in order, so that
/// two runs give the same bits. `arrived` has a counter per tile.
template <class Tile, int N, int K, int Splits, class A, class B, class Store, class Hand>
FT_INLINE void split_gemm_stage(unsigned char* shared, int M, const A& a, const B& b, const Store& store,
                                const Hand& hand, float* partial, u32* arrived) {
  using T = typename Tile::Element;
  constexpr int across = ceil_div(N, Tile::kColumns), size = Tile::kRows * Tile::kColumns;
  constexpr int part = round_up(ceil_div(K, Splits), Tile::kDepth);
  u32* const flag = reinterpret_cast<u32*>(shared);
  for (int t = block_index(); t < ceil_div(M, Tile::kRows) * across * Splits; t += grid_blocks()) {
    const int tile = t / Splits, split = t % Splits;
    const int row0 = tile / across * Tile::kRows, column0 = tile % across * Tile::kColumns;
    typename Tile::Sums sums;
    sums.clear();
    hand.before(row0, min_of(row0 + Tile::kRows, M));
    accumulate_tile<Tile>(sums, reinterpret_cast<T*>(shared), a, b, row0, M, column0, N,
                          min_of(split * part, K), min_of((split + 1) * part, K));
    float* const sums_of_tile = partial + i64(tile) * Splits * size;
    const auto at = [&](int which, int r, int c) {
      return reinterpret_cast<float_pair*>(sums_of_tile + which * size +
                                           (Tile::warp_row() + r) * Tile::kColumns + Tile::warp_column() + c);
    };
    sums.for_pairs([&](int r, int c, float_pair pair) { *at(split, r, c) = pair; });
    if (!counter_last(arrived + tile, Splits, flag)) continue;
    sums.for_pairs([&](int r, int c, float_pair) {
      const int row = row0 + Tile::warp_row() + r, column = column0 + Tile::warp_column() + c;
      float_pair total = *at(0, r, c);
      for (int which = 1; which < Splits; ++which) {
        const float_pair more = *at(which, r, c);
        total.x += more.x;
        total.y += more.y;
      }
      if (row < M && column < N) store(row, column, total);
    });
    hand.after(row0, min_of(row0 + Tile::kRows, M));
  }
}

}  // namespace ft

#endif
