// Attention for one head: packing K and V, scores, mask, softmax, context; and the hand-written online form.
//
// Score blocks hold some query rows by all keys (or by a step of keys), padded to whole panels. Keys and
// values are packed once per head into panels of kHeadPanel columns:
//   keys    [S_padded / panel][W][panel]   the transpose, so that q * K^T is an ordinary GEMM
//   values  [W_padded / panel][S][panel]
// Keys that no query sees are zeroed on the way, so that NaN in a padded row has no effect.
#ifndef FUSETUNE_KERNELS_CPU_ATTENTION_H
#define FUSETUNE_KERNELS_CPU_ATTENTION_H

namespace ft {

/// Register tile of the head GEMMs: its width divides the mask's 64-wide tiles on every instruction set.
constexpr int kHeadVectors = 2;
constexpr int kHeadRows = kLanes == 16 ? 12 : kLanes == 8 ? 6 : 4;
constexpr long kHeadPanel = kHeadVectors * kLanes;
constexpr long kMaskTile = 64;

/// Where one head's q, k or v rows come from: row s at data + s * ld, plus `bias` where not null.
struct HeadRows {
  const float* data;
  long ld;
  const float* bias;
};

FT_INLINE long mask_entry(const ft_mask& mask, long b) { return mask.entries == 1 ? 0 : b; }
FT_INLINE const unsigned char* keys_used(const ft_mask& mask, long b, long S) {
  return mask.key_used + mask_entry(mask, b) * S;
}

/// Rows [s0, s0 + rows) of a head, (x + bias) * scale, to y with stride ldy.
FT_INLINE void copy_head_rows(HeadRows x, long s0, long rows, long W, float scale, float* y, long ldy) {
  for (long r = 0; r < rows; ++r) {
    const float* a = x.data + (s0 + r) * x.ld;
    for_vectors(W, [&](long j, long lanes) {
      vec v = load_partial(a + j, lanes);
      if (x.bias) v += load_partial(x.bias + j, lanes);
      store_partial(y + r * ldy + j, v * scale, lanes);
    });
  }
}

/// K^T in panels; columns past S are zero.
FT_INLINE void pack_keys(HeadRows k, const unsigned char* used, long S, long W, float* packed) {
  const long padded = round_up(S, kHeadPanel);
  for (long j = 0; j < padded; ++j) {
    float* y = packed + j / kHeadPanel * W * kHeadPanel + j % kHeadPanel;
    if (j >= S || !used[j]) {
      for (long w = 0; w < W; ++w) y[w * kHeadPanel] = 0;
      continue;
    }
    const float* x = k.data + j * k.ld;
    if (k.bias)
      for (long w = 0; w < W; ++w) y[w * kHeadPanel] = x[w] + k.bias[w];
    else
      for (long w = 0; w < W; ++w) y[w * kHeadPanel] = x[w];
  }
}

/// V in panels; columns past W are zero.
FT_INLINE void pack_values(HeadRows v, const unsigned char* used, long S, long W, float* packed) {
  for (long w0 = 0; w0 < W; w0 += kHeadPanel) {
    float* panel = packed + w0 * S;
    for (long s = 0; s < S; ++s)
      for (long j = 0; j < kHeadPanel; j += kLanes) {
        const long lanes = used[s] ? min(kLanes, W - w0 - j) : 0;
        vec x{};
        if (lanes > 0) {
          x = load_partial(v.data + s * v.ld + w0 + j, lanes);
          if (v.bias) x += load_partial(v.bias + w0 + j, lanes);
        }
        store(panel + s * kHeadPanel + j, x);
      }
  }
}

/// scores[rows x keys] = q * K^T for `keys` keys from the panel-aligned key `key0` on. q is already scaled.
FT_INLINE void head_scores(Rows q, const float* packed_keys, long W, long key0, long keys, float* scores,
                           long ld) {
  for (long j = 0; j < keys; j += kHeadPanel)
    multiply_rows<kHeadRows, kHeadVectors>(q.data, q.ld, q.count, packed_keys + (key0 + j) * W, W, scores + j,
                                           ld, false, nullptr, {});
}

/// context[rows x W] (+)= probs[rows x keys] * V[key0 .. key0 + keys).
FT_INLINE void head_context(Rows probs, const float* packed_values, long S, long W, long key0, long keys,
                            float* context, long ld, bool accumulate) {
  for (long w = 0; w < W; w += kHeadPanel)
    multiply_rows<kHeadRows, kHeadVectors>(probs.data, probs.ld, probs.count,
                                           packed_values + w * S + key0 * kHeadPanel, keys, context + w, ld,
                                           accumulate, nullptr, {});
}

/// Sets scores to -infinity where bit j of `word` is 0, for 64 columns (or a multiple of kLanes fewer).
FT_INLINE void mask_word(unsigned long long word, long columns, float* scores) {
  const ivec bit = (ivec{} + 1) << lane_numbers();
  for (long j = 0; j < columns; j += kLanes) {
    const ivec bits = (ivec{} + int(word >> j)) & bit;
    store(scores + j, select(bits != 0, load(scores + j), splat<vec>(-kInfinity)));
  }
}

FT_INLINE void fill(float* x, long n, float value) {
  for_vectors(n, [&](long j, long lanes) { store_partial(x + j, splat<vec>(value), lanes); });
}

/// Operator 3 on a block of whole score rows of queries s0 ..: masked keys become -infinity. Columns up to
/// round_up(S, kLanes) are written; ld has room for them.
FT_NOINLINE void mask_rows(const ft_mask& mask, long b, long s0, long rows, long S, float* scores, long ld) {
  const long padded = round_up(S, kLanes);
  for (long r = 0; r < rows; ++r) {
    float* x = scores + r * ld;
    const long tile_row = mask_entry(mask, b) * mask.tile_rows + (s0 + r) / kMaskTile;
    long column = 0;
    for (int t = mask.row_begin[tile_row]; t < mask.row_begin[tile_row + 1]; ++t) {
      const long begin = mask.column[t] * kMaskTile, end = min(begin + kMaskTile, padded);
      fill(x + column, begin - column, -kInfinity);
      if (mask.bitmap[t] >= 0)
        mask_word(mask.bits[mask.bitmap[t] * kMaskTile + (s0 + r) % kMaskTile], end - begin, x + begin);
      column = end;
    }
    fill(x + column, padded - column, -kInfinity);
  }
}

/// Copies rows of n columns, exactly: nothing past column n is read or written.
FT_INLINE void copy_rows(const float* x, long ldx, long rows, long n, float* y, long ldy) {
  for (long r = 0; r < rows; ++r)
    for_vectors(n, [&](long j, long lanes) {
      store_partial(y + r * ldy + j, load_partial(x + r * ldx + j, lanes), lanes);
    });
}

/// Whole score rows from memory (stride S) to a block, columns from S to round_up(S, kLanes) -infinity.
FT_INLINE void load_score_rows(const float* x, long rows, long S, float* block, long ld) {
  copy_rows(x, S, rows, S, block, ld);
  for (long r = 0; r < rows; ++r)
    for (long j = S; j < round_up(S, kLanes); ++j) block[r * ld + j] = -kInfinity;
}

/// The largest of `columns` scores, a multiple of kLanes; -infinity where all are.
FT_INLINE float largest(const float* x, long columns) {
  vec top = splat<vec>(-kInfinity);
  for (long j = 0; j < columns; j += kLanes) {
    const vec v = load(x + j);
    top = select(v > top, v, top);
  }
  return max_of_lanes(top);
}

/// x = e^(x - peak) for `columns` scores, a multiple of kLanes; returns their sum.
FT_INLINE float exponentiate(float* x, long columns, float peak) {
  vec total{};
  for (long j = 0; j < columns; j += kLanes) {
    const vec e = exp(load(x + j) - peak);
    total += e;
    store(x + j, e);
  }
  return sum_of_lanes(total);
}

/// Operator 4 on whole rows of S scores, in place. Columns up to round_up(S, kLanes) are used: those past S
/// must be -infinity. With `sums` the rows are left unnormalised and their sums stored there (the context
/// is divided instead); a row that is all -infinity becomes zero, its sum 0.
FT_NOINLINE void softmax_rows(float* scores, long ld, long rows, long S, float* sums) {
  const long padded = round_up(S, kLanes);
  for (long r = 0; r < rows; ++r) {
    float* x = scores + r * ld;
    const float peak = largest(x, padded);
    if (peak == -kInfinity) {  // every key masked: weights are zero, not NaN
      fill(x, padded, 0);
      if (sums) sums[r] = 0;
      continue;
    }
    const float sum = exponentiate(x, padded, peak);
    if (sums) {
      sums[r] = sum;
      continue;
    }
    const float inverse = 1.0f / sum;
    for (long j = 0; j < padded; j += kLanes) store(x + j, load(x + j) * inverse);
  }
}

/// y[r] = x[r] / sums[r], or x[r] where `sums` is null; a zero sum (a fully masked row) gives a zero row.
FT_INLINE void normalise_rows(const float* x, long ldx, long rows, long n, const float* sums, float* y,
                              long ldy) {
  for (long r = 0; r < rows; ++r) {
    const float inverse = sums ? (sums[r] > 0 ? 1.0f / sums[r] : 0.0f) : 1.0f;
    for_vectors(n, [&](long j, long lanes) {
      store_partial(y + r * ldy + j, load(x + r * ldx + j) * inverse, lanes);
    });
  }
}

/// Scratch of the online softmax for `rows` query rows.
struct OnlineScratch {
  float* scores;   // [rows][key_tiles * 64 + 16]
  float* context;  // [rows][round_up(W, kHeadPanel)]
  float* peaks;    // [rows]
  float* sums;     // [rows]
};

/// One step of the online softmax: `columns` new scores per row. Rescales sums and context by
/// e^(old peak - new peak). While a row has seen no visible key its peak stays -infinity and its weights
/// are zero: -infinity - -infinity is never formed.
FT_NOINLINE void online_softmax_step(OnlineScratch s, long ld, long rows, long columns, long W, bool first) {
  const long context_ld = round_up(W, kHeadPanel);
  for (long r = 0; r < rows; ++r) {
    float* x = s.scores + r * ld;
    const float old = first ? -kInfinity : s.peaks[r], here = largest(x, columns),
                peak = here > old ? here : old;
    if (first) s.sums[r] = 0;
    s.peaks[r] = peak;
    if (peak == -kInfinity) {
      fill(x, columns, 0);
      continue;
    }
    const float sum = exponentiate(x, columns, peak);
    const float rescale = old == -kInfinity ? 0.0f : exp(splat<vec>(old - peak))[0];
    s.sums[r] = s.sums[r] * rescale + sum;
    if (!first && rescale != 1.0f)
      for (long w = 0; w < context_ld; w += kLanes)
        store(s.context + r * context_ld + w, load(s.context + r * context_ld + w) * rescale);
  }
}

/// Hand-written attention for query rows [s0, s0 + rows) of one head, all inside one mask tile row: online
/// softmax over the stored tiles, `key_tiles` of them at a time; empty tiles are never touched, full ones
/// never tested. q is scaled. The context rows go to y, divided by their sums.
FT_NOINLINE void online_attention(const ft_mask& mask, long b, long s0, Rows q, const float* packed_keys,
                                  const float* packed_values, long S, long W, long key_tiles, OnlineScratch s,
                                  float* y, long ldy) {
  const long ld = key_tiles * kMaskTile + 16, context_ld = round_up(W, kHeadPanel);
  const long tile_row = mask_entry(mask, b) * mask.tile_rows + s0 / kMaskTile;
  const int begin = mask.row_begin[tile_row], end = mask.row_begin[tile_row + 1];
  for (int t = begin; t < end; t += key_tiles) {
    const int step_end = int(min(t + key_tiles, end));
    long columns = 0;
    for (int u = t; u < step_end; ++u) {
      const long key0 = mask.column[u] * kMaskTile;
      const long keys = min(kMaskTile, round_up(S - key0, kHeadPanel));
      head_scores(q, packed_keys, W, key0, keys, s.scores + columns, ld);
      if (mask.bitmap[u] >= 0)
        for (long r = 0; r < q.count; ++r)
          mask_word(mask.bits[mask.bitmap[u] * kMaskTile + (s0 + r) % kMaskTile], keys,
                    s.scores + r * ld + columns);
      columns += keys;
    }
    online_softmax_step(s, ld, q.count, columns, W, t == begin);
    columns = 0;
    for (int u = t; u < step_end;) {  // neighbouring tiles in one product
      const long key0 = mask.column[u] * kMaskTile;
      int v = u + 1;
      while (v < step_end && mask.column[v] == mask.column[v - 1] + 1) ++v;
      const long keys = min((v - u) * kMaskTile, S - key0);
      head_context({s.scores + columns, ld, q.count}, packed_values, S, W, key0, keys, s.context, context_ld,
                   u > begin);
      columns += (v - u) * kMaskTile;
      u = v;
    }
  }
  if (begin == end) {
    for (long r = 0; r < q.count; ++r) fill(y + r * ldy, W, 0);
    return;
  }
  normalise_rows(s.context, context_ld, q.count, W, s.sums, y, ldy);
}

}  // namespace ft

#endif
