// Row blocks kept on chip: a block's rows stay in shared memory through several operators while weights
// stream past. And LayerNorm with what comes before it, for such rows and for rows in memory.
#ifndef FUSETUNE_KERNELS_CUDA_ROW_BLOCK_H
#define FUSETUNE_KERNELS_CUDA_ROW_BLOCK_H

namespace ft {

/// Sizes of a row pipeline: Rows rows per block, weights in tiles of Depth x Columns, Stages of them in
/// flight; each warp has all rows of its part of the columns.
template <class T, int Rows, int Columns, int Depth, int Warps, int Stages>
struct RowTile {
  using Element = T;
  static constexpr int kRows = Rows, kColumns = Columns, kDepth = Depth, kStages = Stages;
  static constexpr int kThreads = 32 * Warps, kWarpN = Columns / Warps, kLdB = Columns + kPad<T>;
  static constexpr int kStage = Depth * kLdB;  // elements
  static constexpr int kStageBytes = Stages * kStage * int(sizeof(T));
  static_assert(Rows % 16 == 0 && kWarpN % 16 == 0 && Columns % Depth == 0 && Stages >= 2, "row tile");

  /// Row stride of a block of first operands, and of float32 sums, with `columns` columns.
  static FT_INLINE constexpr int ld(int columns) { return round_up(columns, Columns) + kPad<T>; }
  static FT_INLINE constexpr int sum_ld(int columns) { return round_up(columns, Columns) + 8; }
};

/// f(row, rows): blocks of at most Rows of the M rows, by blocks in turn.
template <int Rows, class F>
FT_INLINE void for_row_blocks(int M, const F& f) {
  for (int row = block_index() * Rows; row < M; row += grid_blocks() * Rows) f(row, min_of(Rows, M - row));
}

/// Fills a row block with rows from `row` on and columns [column0, column0 + Columns), zero past the
/// matrix's `rows` and `columns`. The copies belong to the first group of the row_block_gemm() behind it.
template <class Tile, int Columns, class Source>
FT_INLINE void load_row_block(typename Tile::Element* block, const Source& source, int row, int rows,
                              int column0, int columns) {
  load_tile<Tile::kRows, round_up(Columns, Tile::kDepth), Tile::ld(Columns), Tile::kThreads>(
      block, source, row, rows, column0, columns);
}

/// A weight matrix of which a part is used: rows from row0 on, columns from column0 on, zero past its ends.
template <class Source>
struct WeightPart {
  Source source;
  int row0, rows, column0, columns;
};

/// sink(row, column, pair) = block [Rows x K] * weight part [K x N], for all columns up to whole tiles
/// (zero past N and past the weight's end). `stages` has Tile::kStageBytes. The block may have been written,
/// or its copies begun, just before: a barrier comes before its first use and the first sink. Ends with a
/// barrier.
template <class Tile, int N, int K, class Source, class Sink>
FT_INLINE void row_block_gemm(const typename Tile::Element* block, typename Tile::Element* stages,
                              const WeightPart<Source>& weight, const Sink& sink) {
  constexpr int depth = Tile::kDepth, ahead = Tile::kStages - 1;
  constexpr int k_steps = ceil_div(K, depth), steps = ceil_div(N, Tile::kColumns) * k_steps;
  const auto load = [&](int step) {
    if (step < steps)
      load_tile<depth, Tile::kColumns, Tile::kLdB, Tile::kThreads>(
          stages + step % Tile::kStages * Tile::kStage, weight.source, weight.row0 + step % k_steps * depth,
          min_of(weight.row0 + K, weight.rows), weight.column0 + step / k_steps * Tile::kColumns,
          min_of(weight.column0 + N, weight.columns));
    copy_async_commit();
  };
  Accumulator<Tile::kRows, Tile::kWarpN> sums;
  sums.clear();
  for (int step = 0; step < ahead; ++step) load(step);
  for (int step = 0; step < steps; ++step) {
    copy_async_wait<ahead - 1>();
    block_sync();
    load(step + ahead);
    multiply<Order::k_by_n, depth, Tile::ld(K), Tile::kLdB>(
        sums, block + step % k_steps * depth,
        stages + step % Tile::kStages * Tile::kStage + warp_index() * Tile::kWarpN);
    if (step % k_steps < k_steps - 1) continue;
    const int column0 = step / k_steps * Tile::kColumns + warp_index() * Tile::kWarpN;
    sums.for_pairs([&](int r, int c, float_pair x) { sink(r, column0 + c, x); });
    sums.clear();
  }
  block_sync();  // the last step waited for all copies: groups behind it are empty
}

/// Sink: float32 sums in shared memory; with `add` on top of what is there.
template <int Ld>
struct ToSums {
  float* sums;
  bool add;
  FT_INLINE void operator()(int row, int column, float_pair x) const {
    float_pair* const at = reinterpret_cast<float_pair*>(sums + row * Ld + column);
    float_pair sum = x;
    if (add) {
      const float_pair before = *at;  // the pair at once: its words one by one would meet in the same banks
      sum = {before.x + x.x, before.y + x.y};
    }
    *at = sum;
  }
};

/// Sink: activation(x + bias) as the next product's first operand; columns past N are zero.
template <class T, int Ld, class Activation>
struct ToActivations {
  T* block;
  const float* bias;  // of the block's first column
  int columns;        // of the block that exist
  FT_INLINE void operator()(int row, int column, float_pair x) const {
    const float_pair y = {column < columns ? Activation{}(x.x + bias[column]) : 0.0f,
                          column + 1 < columns ? Activation{}(x.y + bias[column + 1]) : 0.0f};
    store_pair<true>(block + row * Ld + column, y, true);
  }
};

/// Sink: a store of whole matrices (stores.h), for the rows and columns that exist.
template <int N, class Store>
struct ToMemory {
  Store store;
  int row0, rows;
  FT_INLINE void operator()(int row, int column, float_pair x) const {
    if (row < rows && column < N) store(row0 + row, column, x);
  }
};

// ------------------------------------------------------------------------------------- LayerNorm of rows

/// Values of row r, column c: x, and x + bias + residual.
template <class T, int Ld>
struct Values {
  const T* x;
  FT_INLINE float operator()(int r, int c) const { return to_float(x[i64(r) * Ld + c]); }
};
template <class T, int Ld, class R, int LdResidual>
struct BiasResidual {
  const T* x;
  const float* bias;
  const R* residual;
  FT_INLINE float operator()(int r, int c) const {
    return to_float(x[i64(r) * Ld + c]) + bias[c] + to_float(residual[i64(r) * LdResidual + c]);
  }
};

/// LayerNorm of all M rows: operators 9 and 14, with 8 and 13 where the values are BiasResidual. With
/// `padding` the rows of padding become zero (operator 14).
template <int Threads, int S, int D, class Value, class T, class Hand>
FT_INLINE void layernorm_stage(int M, const Value& value, const float* gamma, const float* beta, float eps,
                               T* out, const ft_gpu_mask& mask, bool padding, const Hand& hand) {
  constexpr int warps = Threads / 32;
  for (int row0 = block_index() * warps; row0 < M; row0 += grid_blocks() * warps) {
    hand.before(row0, min_of(row0 + warps, M));
    const int row = row0 + warp_index();
    if (row < M) {
      const bool keep = !(padding && is_padding<S>(mask, row));
      T* const y = out + i64(row) * D;
      layernorm_row<D>([&](int c) { return value(row, c); }, gamma, beta, eps,
                       [&](int c, float v) { y[c] = from_float<T>(keep ? v : 0.0f); });
    }
    hand.after(row0, min_of(row0 + warps, M));
  }
}

/// LayerNorm of a row block's rows, into another block (rows past `rows` and columns past D zero) and, where
/// `memory` is not null, into memory as well. For a row_block_gemm(): no barrier at the end.
template <class Tile, int D, class Value, class T>
FT_INLINE void layernorm_row_block(int rows, const Value& value, const float* gamma, const float* beta,
                                   float eps, T* block, T* memory) {
  constexpr int ld = Tile::ld(D);
  for (int r = warp_index(); r < Tile::kRows; r += Tile::kThreads / 32) {
    const bool inside = r < rows;
    if (inside)
      layernorm_row<D>([&](int c) { return value(r, c); }, gamma, beta, eps,
                       [&](int c, float v) {
                         block[r * ld + c] = from_float<T>(v);
                         if (memory != nullptr) memory[i64(r) * D + c] = from_float<T>(v);
                       });
    for (int c = (inside ? D : 0) + lane_index(); c < round_up(D, Tile::kDepth); c += 32)
      block[r * ld + c] = from_float<T>(0.0f);
  }
}

/// LayerNorm of a row block's rows into memory: `row` is the first one's token. With `padding` as above.
template <class Tile, int S, int D, class Value, class T>
FT_INLINE void layernorm_rows_out(int row, int rows, const Value& value, const float* gamma,
                                  const float* beta, float eps, T* out, const ft_gpu_mask& mask,
                                  bool padding) {
  for (int r = warp_index(); r < rows; r += Tile::kThreads / 32) {
    const bool keep = !(padding && is_padding<S>(mask, row + r));
    T* const y = out + i64(row + r) * D;
    layernorm_row<D>([&](int c) { return value(r, c); }, gamma, beta, eps,
                     [&](int c, float v) { y[c] = from_float<T>(keep ? v : 0.0f); });
  }
  block_sync();
}

/// Rows of a block's values into memory: x + bias + residual where a segment ends before LayerNorm.
template <class Tile, int D, class Value, class T>
FT_INLINE void save_row_block(int rows, const Value& value, T* memory) {
  for (int r = warp_index(); r < rows; r += Tile::kThreads / 32)
    for (int c = lane_index(); c < D; c += 32) memory[i64(r) * D + c] = from_float<T>(value(r, c));
  block_sync();
}

}  // namespace ft

#endif
