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

// Segment [6] of an encoder block.
// Problem: S=128 H=12 W=64 F=3072 dtype=f16 eps=1e-05 gelu=erf; any batch, any mask.
// Schedule: handoff=barrier sync=grid warps=4 tile=64x64x32 stages=3 split=1 query=64 rows=16 ffn=256
//
//   rows     +-------------+
//            | merge_heads |
//            +-------------+
//
// Reads context; writes merged.
FT_KERNEL_ID(0x3976fd2c87d0d9f4ull);

FT_KERNEL(ft_segment_6_6_f16_3976fd2c87d0, 128) {
  using namespace ft;
  [[maybe_unused]] constexpr int S = 128, H = 12, W = 64, D = 768, F = 3072, kThreads = 128;
  [[maybe_unused]] constexpr float eps = 1e-05f;
  using T = f16;
  FT_SHARED(shared);
  [[maybe_unused]] const int M = args.batch * S;
  const T* const context = static_cast<const T*>(args.tensor[8]);
  T* const merged = static_cast<T*>(args.tensor[9]);
  {  // rows: 6 merge_heads
    [[maybe_unused]] constexpr Free hand;
    merge_heads_stage<kThreads, T, S, H, W>(M, context, merged);
  }
}
