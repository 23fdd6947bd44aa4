// Attention for blocks of query rows of one head: the score row block held whole, and the hand-written online
// form that never holds it.
//
// Keys and values come in tiles of 64 rows, the next one on its way while one is used. Scores are float32.
#ifndef FUSETUNE_KERNELS_CUDA_ATTENTION_H
#define FUSETUNE_KERNELS_CUDA_ATTENTION_H

namespace ft {

constexpr int kKeys = 64;  // keys of a tile: the mask's

/// Sizes of a block's work on one head: Queries rows by Warps warps, in a grid of warps of which each row has
/// kWarpRows; the others share its columns.
template <class T, int S, int W, int Queries, int Warps>
struct HeadTile {
  using Element = T;
  static constexpr int kQueries = Queries, kThreads = 32 * Warps;
  static constexpr int kWarpRows = Queries / 16, kWarpColumns = Warps / kWarpRows;
  static_assert(Queries % 16 == 0 && kWarpRows * kWarpColumns == Warps && kWarpColumns <= 4, "head tile");
  static constexpr int kKeyColumns = kKeys / kWarpColumns;                         // of a warp, in scores
  static constexpr int kValueColumns = round_up(ceil_div(W, kWarpColumns), 16);    // of a warp, in context
  static constexpr int kDepth = round_up(W, 16);                                   // of q * k
  static constexpr int kWidth = max_of(kDepth, kValueColumns* kWarpColumns);       // of a tile of k or v
  static constexpr int kLd = kWidth + kPad<T>, kScoreLd = round_up(S, kKeys) + 8;  // 8: see mma.h's rows
  static constexpr int kTiles = ceil_div(S, kKeys);
  static constexpr int kTileBytes = (Queries + 2 * kKeys) * kLd * int(sizeof(T));  // q and two of k or v
  static constexpr int kScoreBytes = Queries * kScoreLd * 4;

  static FT_INLINE int warp_row() { return warp_index() / kWarpColumns * 16; }
  static FT_INLINE int warp_column() { return warp_index() % kWarpColumns; }
  static FT_INLINE T* query(unsigned char* shared) { return reinterpret_cast<T*>(shared); }
  static FT_INLINE T* key_tile(unsigned char* shared, int i) {
    return query(shared) + (Queries + i % 2 * kKeys) * kLd;
  }
};

/// f(b, h, s): every block of Queries query rows from s on of head h of entry b, by blocks in turn.
template <int S, int H, int Queries, class F>
FT_INLINE void for_query_blocks(int batch, const F& f) {
  constexpr int blocks = ceil_div(S, Queries);
  for (int t = block_index(); t < batch * H * blocks; t += grid_blocks()) {
    const int head = t / blocks;
    f(head / H, head % H, t % blocks * Queries);
  }
}

/// use(tile, data) for all tiles of 64 rows of a source, the next on its way. What was begun before (the
/// queries) has arrived too. All threads; ends with a barrier.
template <class Head, int W, class Source, class Use>
FT_INLINE void for_key_tiles(unsigned char* shared, int S, const Source& source, const Use& use) {
  const auto load = [&](int tile) {
    load_tile<kKeys, Head::kWidth, Head::kLd, Head::kThreads>(Head::key_tile(shared, tile), source,
                                                              tile * kKeys, S, 0, W);
    copy_async_commit();
  };
  load(0);
  for (int tile = 0; tile < Head::kTiles; ++tile) {
    if (tile + 1 < Head::kTiles)
      load(tile + 1);
    else
      copy_async_commit();
    copy_async_wait<1>();
    block_sync();
    use(tile, Head::key_tile(shared, tile));
    block_sync();
  }
}

/// Operator 2: sink(row, column, pair) with q * k^T * scale for the block's rows and all keys, rounded up to
/// whole tiles (keys past S count as zero).
template <class Head, int S, int W, class Queries, class Keys, class Sink>
FT_INLINE void score_rows(unsigned char* shared, int s, const Queries& q, const Keys& k, float scale,
                          const Sink& sink) {
  load_tile<Head::kQueries, Head::kWidth, Head::kLd, Head::kThreads>(Head::query(shared), q, s, S, 0, W);
  for_key_tiles<Head, W>(shared, S, k, [&](int tile, const typename Head::Element* keys) {
    Accumulator<16, Head::kKeyColumns> sums;
    sums.clear();
    const int column0 = Head::warp_column() * Head::kKeyColumns;
    multiply<Order::n_by_k, Head::kDepth, Head::kLd, Head::kLd>(
        sums, Head::query(shared) + Head::warp_row() * Head::kLd, keys + column0 * Head::kLd);
    sums.for_pairs([&](int r, int c, float_pair x) {
      sink(Head::warp_row() + r, tile * kKeys + column0 + c, float_pair{x.x * scale, x.y * scale});
    });
  });
}

/// Sink of score_rows: the block of whole rows.
struct ToScoreBlock {
  float* block;
  int ld;
  FT_INLINE void operator()(int row, int column, float_pair x) const {
    *reinterpret_cast<float_pair*>(block + row * ld + column) = x;
  }
};

/// Sink of score_rows: the block's rows of `scores` in memory, [S][S].
template <int S>
struct ToScores {
  float* scores;
  int s;
  FT_INLINE void operator()(int row, int column, float_pair x) const {
    if (s + row < S && column < S)
      store_pair<S % 2 == 0>(scores + i64(s + row) * S + column, x, column + 1 < S);
  }
};

/// f(row) for the block's rows of scores, a warp each; rows past S are left out.
template <class Head, int S, class F>
FT_INLINE void for_score_rows(int s, const F& f) {
  for (int row = warp_index(); row < Head::kQueries; row += Head::kThreads / 32)
    if (s + row < S) f(row);
}

// Between operators on the block there is no barrier: each lane has the same rows and columns in all of them.
// score_rows() ends with one, and context_rows() begins with one before it reads the block.

/// Rows of scores, masked scores or weights between memory [S][S] and the block; with `pad` the columns from
/// S on, which are in no memory.
template <class Head, int S>
FT_INLINE void load_score_rows(const float* memory, int s, float* block, float pad) {
  for (int row = warp_index(); row < Head::kQueries; row += Head::kThreads / 32)
    for (int j = lane_index(); j < Head::kTiles * kKeys; j += 32)
      block[row * Head::kScoreLd + j] = s + row < S && j < S ? memory[i64(s + row) * S + j] : pad;
}
template <class Head, int S>
FT_INLINE void save_score_rows(const float* block, int s, float* memory) {
  for_score_rows<Head, S>(s, [&](int row) {
    for (int j = lane_index(); j < S; j += 32) memory[i64(s + row) * S + j] = block[row * Head::kScoreLd + j];
  });
}

/// Operator 3 on the block: masked keys become -infinity.
template <class Head, int S>
FT_INLINE void mask_score_rows(const ft_gpu_mask& mask, int b, int s, float* block) {
  for_score_rows<Head, S>(s, [&](int row) {
    float* x = block + row * Head::kScoreLd;
    mask_row<Head::kTiles * kKeys>(
        MaskRow(mask, b, s + row, S), [&](int j) { return x[j]; }, [&](int j, float v) { x[j] = v; });
  });
}

/// Operator 4 on the block, in place. Columns past S must be -infinity, and become zero.
template <class Head, int S>
FT_INLINE void softmax_score_rows(int s, float* block) {
  for_score_rows<Head, S>(s, [&](int row) {
    float* x = block + row * Head::kScoreLd;
    softmax_row<Head::kTiles * kKeys>([&](int j) { return x[j]; }, [&](int j, float v) { x[j] = v; });
  });
}

/// Operator 5: store(row, column, pair) with weights * v for the block's rows. Columns of the block past S
/// must be zero.
template <class Head, int S, int W, class Values, class Store>
FT_INLINE void context_rows(unsigned char* shared, int s, const float* block, const Values& v,
                            const Store& store) {
  Accumulator<16, Head::kValueColumns> sums;
  sums.clear();
  const int column0 = Head::warp_column() * Head::kValueColumns;
  for_key_tiles<Head, W>(shared, S, v, [&](int tile, const typename Head::Element* values) {
    multiply<Order::k_by_n, kKeys, Head::kScoreLd, Head::kLd>(
        sums, block + Head::warp_row() * Head::kScoreLd + tile * kKeys, values + column0);
  });
  sums.for_pairs([&](int r, int c, float_pair x) {
    const int row = s + Head::warp_row() + r, column = column0 + c;
    if (row < S && column < W) store(row, column, x);
  });
}

/// Where context rows of one head go: to [S][Ld] from `out` on.
template <class T, int W, int Ld>
struct StoreHead {
  T* out;
  FT_INLINE void operator()(int row, int column, float_pair x) const {
    store_pair<W % 2 == 0 && Ld % 2 == 0>(out + i64(row) * Ld + column, x, column + 1 < W);
  }
};

// ------------------------------------------------------------------------------------ online attention

/// The tiles of the mask that a block of queries needs, in ascending order: those of one or two tile rows.
template <int Queries, int S>
struct TileList {
  static constexpr int kRows = Queries > 64 ? Queries / 64 : 1;
  const ft_gpu_mask& mask;
  int next[kRows], end[kRows];

  FT_INLINE TileList(const ft_gpu_mask& m, int b, int s) : mask(m) {
    constexpr int tile_rows = ceil_div(S, 64);
    FT_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const bool inside = s / 64 + i < tile_rows;
      const int row = (m.entries == 1 ? 0 : b) * tile_rows + s / 64 + i;
      next[i] = inside ? m.row_begin[row] : 0;
      end[i] = inside ? m.row_begin[row + 1] : 0;
    }
  }
  static constexpr int kNone = 0x7fffffff;
  /// The next column that any of the rows has; kNone after the last.
  FT_INLINE int take() {
    int column = kNone;
    FT_UNROLL
    for (int i = 0; i < kRows; ++i)
      if (next[i] < end[i]) column = min_of(column, mask.column[next[i]]);
    FT_UNROLL
    for (int i = 0; i < kRows; ++i)
      if (next[i] < end[i] && mask.column[next[i]] == column) ++next[i];
    return column;
  }
};

/// A warp's softmax so far, for the two rows of 16 that a lane shares with three others.
struct OnlineRows {
  float peak[2] = {-infinity(), -infinity()};
  float sum[2] = {0, 0};

  /// Takes in new scores (already times log2 e; hidden ones -infinity), which become weights relative to the
  /// new peaks; `context` is scaled to them. While a row has seen no visible key its peak stays -infinity and
  /// its weights are zero: -infinity - -infinity is never formed.
  template <int Keys, int Columns>
  FT_INLINE void add(Accumulator<16, Keys>& scores, Accumulator<16, Columns>& context) {
    FT_UNROLL
    for (int half = 0; half < 2; ++half) {
      float top = peak[half];
      FT_UNROLL
      for (int j = 0; j < Keys / 8; ++j) FT_UNROLL
      for (int e = 2 * half; e < 2 * half + 2; ++e) top = scores.v[0][j][e] > top ? scores.v[0][j][e] : top;
      FT_UNROLL
      for (int mask = 1; mask < 4; mask *= 2) {
        const float other = shuffle_xor(top, mask);
        top = other > top ? other : top;
      }
      const float base = top == -infinity() ? 0.0f : top;
      const float scale = exp2_fast(peak[half] - base);
      peak[half] = top;
      float total = sum[half] * scale;
      FT_UNROLL
      for (int j = 0; j < Keys / 8; ++j) FT_UNROLL
      for (int e = 2 * half; e < 2 * half + 2; ++e) {
        scores.v[0][j][e] = exp2_fast(scores.v[0][j][e] - base);
        total += scores.v[0][j][e];
      }
      sum[half] = total;
      FT_UNROLL
      for (int j = 0; j < Columns / 8; ++j) {
        context.v[0][j][2 * half] *= scale;
        context.v[0][j][2 * half + 1] *= scale;
      }
    }
  }
  /// 1 / the row's sum over all its lanes; 0 for a row without a visible key.
  FT_INLINE float inverse(int half) const {
    float total = sum[half];
    FT_UNROLL
    for (int mask = 1; mask < 4; mask *= 2) total += shuffle_xor(total, mask);
    return total > 0 ? 1.0f / total : 0.0f;
  }
};

/// Scores of 16 query rows by one tile of keys: times scale * log2 e, hidden ones -infinity. `bitmap`: -1,
/// every pair is visible; else which bitmap, of which the rows from `row` on.
FT_INLINE void scale_and_mask(Accumulator<16, kKeys>& scores, float scale, const ft_gpu_mask& mask,
                              int bitmap, int row) {
  const int lane = lane_index();
  FT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const u64 word = bitmap < 0 ? ~u64(0) : mask.bits[i64(bitmap) * 64 + row + lane / 4 + 8 * half];
    FT_UNROLL
    for (int j = 0; j < kKeys / 8; ++j) FT_UNROLL
    for (int e = 0; e < 2; ++e) {
      float& x = scores.v[0][j][2 * half + e];
      x = bitmap < 0 || (word >> (8 * j + lane % 4 * 2 + e) & 1) ? x * scale : -infinity();
    }
  }
}

/// Operators 2 to 5 for the query rows from s on, hand-written: online softmax over the mask's tiles. Empty
/// tiles are skipped, full ones take no test. store(row, column, pair) gets the context.
template <class Head, int S, int W, class Queries, class Keys, class Values, class Store>
FT_INLINE void online_attention(unsigned char* shared, const ft_gpu_mask& mask, int b, int s,
                                const Queries& q, const Keys& k, const Values& v, float scale,
                                const Store& store) {
  static_assert(Head::kWarpColumns == 1, "a warp has its query rows alone");
  using T = typename Head::Element;
  constexpr int tile_elements = kKeys * Head::kLd;
  T* const queries = Head::query(shared);
  const auto key_tile = [&](int i) { return queries + (Head::kQueries + i * 2 * kKeys) * Head::kLd; };
  const auto load = [&](int i, int tile) {
    load_tile<kKeys, Head::kWidth, Head::kLd, Head::kThreads>(key_tile(i), k, tile * kKeys, S, 0, W);
    load_tile<kKeys, Head::kWidth, Head::kLd, Head::kThreads>(key_tile(i) + tile_elements, v, tile * kKeys, S,
                                                              0, W);
  };
  TileList<Head::kQueries, S> tiles(mask, b, s);
  TileList<16, S> mine(mask, b, min_of(s + Head::warp_row(), S - 1));  // of this warp's rows
  Accumulator<16, Head::kValueColumns> context;
  context.clear();
  OnlineRows softmax;

  load_tile<Head::kQueries, Head::kWidth, Head::kLd, Head::kThreads>(queries, q, s, S, 0, W);
  int tile = tiles.take();
  if (tile != tiles.kNone) load(0, tile);
  copy_async_commit();
  for (int i = 0; tile != tiles.kNone; i ^= 1) {
    const int following = tiles.take();
    if (following != tiles.kNone) load(i ^ 1, following);
    copy_async_commit();
    copy_async_wait<1>();
    block_sync();
    if (mine.next[0] < mine.end[0] && mask.column[mine.next[0]] == tile) {
      const int bitmap = mask.bitmap[mine.next[0]++];
      Accumulator<16, kKeys> scores;
      scores.clear();
      multiply<Order::n_by_k, Head::kDepth, Head::kLd, Head::kLd>(
          scores, queries + Head::warp_row() * Head::kLd, key_tile(i));
      scale_and_mask(scores, scale * kLog2e, mask, bitmap, (s + Head::warp_row()) % 64);
      softmax.add(scores, context);
      multiply_registers<Head::kLd>(context, scores, key_tile(i) + tile_elements);
    }
    block_sync();
    tile = following;
  }
  copy_async_wait<0>();  // of the queries, where no key is visible
  const float inverse[2] = {softmax.inverse(0), softmax.inverse(1)};
  context.for_pairs([&](int r, int c, float_pair x) {
    const int row = s + Head::warp_row() + r;
    const float scale_row = inverse[r / 8];
    if (row < S && c < W) store(row, c, float_pair{x.x * scale_row, x.y * scale_row});
  });
}

/// Shared memory of online_attention: the queries and two tiles each of keys and values.
template <class Head>
constexpr int kOnlineBytes = (Head::kQueries + 4 * kKeys) * Head::kLd* int(sizeof(typename Head::Element));

}  // namespace ft

#endif
