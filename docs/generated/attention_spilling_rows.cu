#include "cuda/abi.h"
#include "cuda/platform_nvidia.h"
#include "cuda/tile.h"
#include "ops/math.h"
#include "cuda/mma.h"
#include "cuda/sync.h"
#include "cuda/gemm.h"
#include "cuda/stores.h"
#include "cuda/rows.h"
#include "cuda/attention.h"
#include "cuda/row_block.h"

// Segment [2-6] of an encoder block.
// Problem: S=4096 H=12 W=64 F=3072 dtype=f16 eps=1e-05 gelu=erf; any batch, any mask.
// Schedule: handoff=fused sync=grid warps=4 tile=64x64x32 stages=3 split=1 query=64 rows=16 ffn=256
//
//   heads    +-------------+
//            | scores      |
//            | mask        |
//            | softmax     |
//            | context     |
//            | merge_heads |
//            +-------------+
//
// Reads q, k, v; writes merged.
FT_KERNEL_ID(0x365643b5fb47b60aull);

FT_KERNEL(ft_segment_2_6_f16_365643b5fb47, 128) {
  using namespace ft;
  [[maybe_unused]] constexpr int S = 4096, H = 12, W = 64, D = 768, F = 3072, kThreads = 128;
  [[maybe_unused]] constexpr float eps = 1e-05f;
  using T = f16;
  using Head = HeadTile<T, S, W, 64, 4>;
  FT_SHARED(shared);
  [[maybe_unused]] const int M = args.batch * S;
  const T* const q = static_cast<const T*>(args.tensor[2]);
  const T* const k = static_cast<const T*>(args.tensor[3]);
  const T* const v = static_cast<const T*>(args.tensor[4]);
  T* const merged = static_cast<T*>(args.tensor[9]);
  {  // heads: 2 scores to 6 merge_heads
    [[maybe_unused]] constexpr Free hand;
    for_query_blocks<S, H, Head::kQueries>(args.batch, [&](int b, int h, int s) {
      [[maybe_unused]] const i64 head = i64(b) * H + h;
      [[maybe_unused]] const u8* const used = args.mask.key_used + (args.mask.entries == 1 ? 0 : b) * S;
      const Matrix<T, W> q_rows = {q + head * S * W};
      const KeyRows<T, W, W> k_rows = {k + head * S * W, used};
      const KeyRows<T, W, W> v_rows = {v + head * S * W, used};
      hand.before(b * S, b * S + S);
      float* const block = args.scratch + i64(block_index()) * 262656;  // too long for shared memory
      score_rows<Head, S, W>(shared, s, q_rows, k_rows, 0.125f, ToScoreBlock{block, Head::kScoreLd});
      mask_score_rows<Head, S>(args.mask, b, s, block);
      softmax_score_rows<Head, S>(s, block);
      context_rows<Head, S, W>(shared, s, block, v_rows, StoreHead<T, W, D>{merged + i64(b) * S * D + h * W});
      hand.after(b * S + s, b * S + min_of(s + Head::kQueries, S));
    });
  }
}
