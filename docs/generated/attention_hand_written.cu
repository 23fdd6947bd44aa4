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

// Segment [1-6]* of an encoder block, with the hand-written attention.
// Problem: S=128 H=12 W=64 F=3072 dtype=f16 eps=1e-05 gelu=erf; any batch, any mask.
// Schedule: handoff=fused sync=grid warps=4 tile=64x64x32 stages=3 split=1 query=64 rows=16 ffn=256
//
//   heads    +-------------+
//            | qkv_bias    |
//            | scores      |
//            | mask        |
//            | softmax     |
//            | context     |
//            | merge_heads |
//            +-------------+
//
// Reads qkv; writes merged.
FT_KERNEL_ID(0x7c47ff8db66e2c5aull);

FT_KERNEL(ft_segment_1_6_attention_f16_7c47ff8db66e, 128) {
  using namespace ft;
  [[maybe_unused]] constexpr int S = 128, H = 12, W = 64, D = 768, F = 3072, kThreads = 128;
  [[maybe_unused]] constexpr float eps = 1e-05f;
  using T = f16;
  using Head = HeadTile<T, S, W, 64, 4>;
  FT_SHARED(shared);
  [[maybe_unused]] const int M = args.batch * S;
  const T* const qkv = static_cast<const T*>(args.tensor[1]);
  T* const merged = static_cast<T*>(args.tensor[9]);
  const float* const b_qkv = args.parameter[0];
  {  // heads: 1 qkv_bias to 6 merge_heads
    [[maybe_unused]] constexpr Free hand;
    for_query_blocks<S, H, Head::kQueries>(args.batch, [&](int b, int h, int s) {
      [[maybe_unused]] const i64 head = i64(b) * H + h;
      [[maybe_unused]] const u8* const used = args.mask.key_used + (args.mask.entries == 1 ? 0 : b) * S;
      const BiasedRows<T, W, 3 * D> q_rows = {qkv + (i64(b) * S * 3 + 0) * D + h * W,
                                             b_qkv + 0 * D + h * W, nullptr};
      const BiasedRows<T, W, 3 * D> k_rows = {qkv + (i64(b) * S * 3 + 1) * D + h * W,
                                             b_qkv + 1 * D + h * W, used};
      const BiasedRows<T, W, 3 * D> v_rows = {qkv + (i64(b) * S * 3 + 2) * D + h * W,
                                             b_qkv + 2 * D + h * W, used};
      hand.before(b * S, b * S + S);
      online_attention<Head, S, W>(shared, args.mask, b, s, q_rows, k_rows, v_rows, 0.125f,
                                   StoreHead<T, W, D>{merged + i64(b) * S * D + h * W});
      hand.after(b * S + s, b * S + min_of(s + Head::kQueries, S));
    });
  }
}
