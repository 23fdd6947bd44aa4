// Stages that take rows, or pairs of elements, one by one: element-wise operators, softmax, LayerNorm. Each
// warp has its own row; nothing but registers is shared within it.
#ifndef FUSETUNE_KERNELS_CUDA_ROWS_H
#define FUSETUNE_KERNELS_CUDA_ROWS_H

namespace ft {

FT_INLINE float warp_sum(float x) {
  FT_UNROLL
  for (int mask = 16; mask > 0; mask /= 2) x += shuffle_xor(x, mask);
  return x;
}
FT_INLINE float warp_max(float x) {
  FT_UNROLL
  for (int mask = 16; mask > 0; mask /= 2) {
    const float y = shuffle_xor(x, mask);
    x = y > x ? y : x;
  }
  return x;
}

/// f(row, column, second) for every pair of columns of `rows` rows of Columns; `second` is false where a last
/// pair has one element only.
template <int Threads, int Columns, class F>
FT_INLINE void for_all_pairs(int rows, const F& f) {
  constexpr int pairs = ceil_div(Columns, 2);
  for (i64 i = i64(block_index()) * Threads + thread_index(); i < i64(rows) * pairs;
       i += i64(grid_blocks()) * Threads) {
    const int column = int(i % pairs) * 2;
    f(int(i / pairs), column, column + 1 < Columns);
  }
}

/// f(row) for every row, a warp each.
template <int Threads, class F>
FT_INLINE void for_all_rows(int rows, const F& f) {
  constexpr int warps = Threads / 32;
  for (int row = block_index() * warps + warp_index(); row < rows; row += grid_blocks() * warps) f(row);
}

// ------------------------------------------------------------------------------------ element-wise stages

/// Operator 1: q, k, v [B,H,S,W] = qkv [B,S,3D] + bias, of which only the parts [First, 3) are written.
template <int Threads, class T, int S, int H, int W, int First>
FT_INLINE void bias_heads_stage(int M, const T* qkv, const StoreBiasHeads<T, S, H, W>& store) {
  constexpr int hidden = H * W, skipped = First * hidden;
  for_all_pairs<Threads, 3 * hidden - skipped>(M, [&](int row, int column, bool second) {
    const int c = column + skipped;
    constexpr bool even = 3 * hidden % 2 == 0 && skipped % 2 == 0;
    const float_pair x = load_pair<even>(qkv + i64(row) * 3 * hidden + c, second);
    if (even || second)
      store(row, c, x);
    else
      *store.at(row, c) = from_float<T>(x.x + store.bias[c]);
  });
}

/// Operator 6: merged [B,S,D] from context [B,H,S,W].
template <int Threads, class T, int S, int H, int W>
FT_INLINE void merge_heads_stage(int M, const T* context, T* merged) {
  for_all_pairs<Threads, W>(M * H, [&](int i, int column, bool second) {
    const int row = i / H, head = i % H;
    const T* x = context + ((i64(row / S) * H + head) * S + row % S) * W + column;
    T* y = merged + i64(row) * H * W + head * W + column;
    y[0] = x[0];
    if (second) y[1] = x[1];
  });
}

/// Operators 8 and 13 alone: out = x + bias + residual.
template <int Threads, class T, int N>
FT_INLINE void bias_residual_stage(int M, const T* x, const StoreBiasResidual<T, N>& store) {
  for_all_pairs<Threads, N>(M, [&](int row, int column, bool second) {
    store(row, column, load_pair<N % 2 == 0>(x + i64(row) * N + column, second));
  });
}

/// Operator 11 alone: out = activation(x + bias).
template <int Threads, class T, int N, class Activation>
FT_INLINE void bias_activation_stage(int M, const T* x, const StoreBiasActivation<T, N, Activation>& store) {
  for_all_pairs<Threads, N>(M, [&](int row, int column, bool second) {
    store(row, column, load_pair<N % 2 == 0>(x + i64(row) * N + column, second));
  });
}

// ---------------------------------------------------------------------------------------------- LayerNorm

/// f(i, column) for this lane's columns of a row: its i-th is lane + 32 i.
template <int Columns, bool Unroll, class F>
FT_INLINE void for_lane_columns(const F& f) {
  constexpr int count = ceil_div(Columns, 32);
  const int lane = lane_index();
  if constexpr (Unroll) {
    FT_UNROLL
    for (int i = 0; i < count; ++i)
      if (lane + 32 * i < Columns) f(i, lane + 32 * i);
  } else {
    for (int i = 0; i < count; ++i)
      if (lane + 32 * i < Columns) f(i, lane + 32 * i);
  }
}

/// LayerNorm of a row of D elements by one warp: write(column, y) of the values read(column). Subtracts the
/// row's first element, then takes two passes: a row such as 1000 + 0.001 i keeps its digits, which neither
/// one pass nor a plain two-pass mean does in float32. Rows of up to 2048 are read once, longer ones thrice.
template <int D, class Read, class Write>
FT_INLINE void layernorm_row(const Read& read, const float* gamma, const float* beta, float eps,
                             const Write& write) {
  constexpr int count = ceil_div(D, 32), held = count <= 64 ? count : 1;
  const int lane = lane_index();
  float values[held];
  if constexpr (held == count) {
    FT_UNROLL
    for (int i = 0; i < count; ++i) values[i] = lane + 32 * i < D ? read(lane + 32 * i) : 0.0f;
  }
  const auto value = [&](int i) {
    if constexpr (held == count)
      return values[i];
    else
      return read(lane + 32 * i);
  };
  const float first = shuffle(lane == 0 ? value(0) : 0.0f, 0);
  float sum = 0;
  for_lane_columns<D, held == count>([&](int i, int) { sum += value(i) - first; });
  const float mean = warp_sum(sum) / float(D);
  float squares = 0;
  for_lane_columns<D, held == count>([&](int i, int) {
    const float d = (value(i) - first) - mean;
    squares += d * d;
  });
  const float scale = 1.0f / square_root(warp_sum(squares) / float(D) + eps);
  for_lane_columns<D, held == count>([&](int i, int column) {
    write(column, ((value(i) - first) - mean) * scale * gamma[column] + beta[column]);
  });
}

/// True where token `row` is padding: its row of `output` is exactly zero.
template <int S>
FT_INLINE bool is_padding(const ft_gpu_mask& mask, int row) {
  return mask.length != nullptr && row % S >= mask.length[row / S];
}

// ---------------------------------------------------------------------------------------- rows of scores

/// The visible pairs of one query row, 64 keys at a time; ask for tile columns in ascending order.
struct MaskRow {
  const ft_gpu_mask& mask;
  int next, end, row;

  FT_INLINE MaskRow(const ft_gpu_mask& m, int b, int query, int S) : mask(m), row(query % 64) {
    const int tile_rows = ceil_div(S, 64);
    const int tile_row = (m.entries == 1 ? 0 : b) * tile_rows + query / 64;
    next = m.row_begin[tile_row];
    end = m.row_begin[tile_row + 1];
  }
  /// Bit j: key 64 * column + j is visible.
  FT_INLINE u64 word(int column) {
    if (next >= end || mask.column[next] != column) return 0;
    const int bitmap = mask.bitmap[next++];
    return bitmap < 0 ? ~u64(0) : mask.bits[i64(bitmap) * 64 + row];
  }
};

constexpr float kLog2e = 1.4426950408889634f;

/// Softmax of one row of S scores by one warp: write(column, weight) of the scores read(column). A row whose
/// scores are all -infinity gets zero weights.
template <int S, class Read, class Write>
FT_INLINE void softmax_row(const Read& read, const Write& write) {
  float peak = -infinity();
  for (int j = lane_index(); j < S; j += 32) {
    const float x = read(j);
    peak = x > peak ? x : peak;
  }
  peak = warp_max(peak);
  const bool hidden = peak == -infinity();
  float sum = 0;
  if (!hidden)
    for (int j = lane_index(); j < S; j += 32) sum += exp2_fast((read(j) - peak) * kLog2e);
  sum = warp_sum(sum);
  const float inverse = hidden ? 0.0f : 1.0f / sum;
  for (int j = lane_index(); j < S; j += 32)
    write(j, hidden ? 0.0f : exp2_fast((read(j) - peak) * kLog2e) * inverse);
}

/// Writes write(column, visible ? read(column) : -infinity) for one query row: operator 3.
template <int S, class Read, class Write>
FT_INLINE void mask_row(MaskRow visible, const Read& read, const Write& write) {
  for (int column = 0; column < S; column += 64) {
    const u64 word = visible.word(column / 64);
    for (int j = column + lane_index(); j < min_of(column + 64, S); j += 32)
      write(j, word >> (j % 64) & 1 ? read(j) : -infinity());
  }
}

/// Operators 3, 4, or both, on rows of scores in memory [B,H,S,S].
template <int Threads, int S, int H>
FT_INLINE void mask_stage(const ft_gpu_mask& mask, int batch, const float* scores, float* masked) {
  for_all_rows<Threads>(batch * H * S, [&](int row) {
    const float* x = scores + i64(row) * S;
    float* y = masked + i64(row) * S;
    mask_row<S>(
        MaskRow(mask, row / (H * S), row % S, S), [&](int j) { return x[j]; },
        [&](int j, float v) { y[j] = v; });
  });
}
template <int Threads, int S, int H>
FT_INLINE void softmax_stage(int batch, const float* masked, float* probs) {
  for_all_rows<Threads>(batch * H * S, [&](int row) {
    const float* x = masked + i64(row) * S;
    float* y = probs + i64(row) * S;
    softmax_row<S>([&](int j) { return x[j]; }, [&](int j, float v) { y[j] = v; });
  });
}
/// Both at once: each lane keeps to its own columns, so that it may read back what it wrote.
template <int Threads, int S, int H>
FT_INLINE void mask_softmax_stage(const ft_gpu_mask& mask, int batch, const float* scores, float* probs) {
  for_all_rows<Threads>(batch * H * S, [&](int row) {
    const float* x = scores + i64(row) * S;
    float* y = probs + i64(row) * S;
    mask_row<S>(
        MaskRow(mask, row / (H * S), row % S, S), [&](int j) { return x[j]; },
        [&](int j, float v) { y[j] = v; });
    softmax_row<S>([&](int j) { return y[j]; }, [&](int j, float v) { y[j] = v; });
  });
}

}  // namespace ft

#endif
