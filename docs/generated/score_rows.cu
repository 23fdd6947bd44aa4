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

// Segment [3-4] of an encoder block.
// Problem: S=128 H=12 W=64 F=3072 dtype=f16 eps=1e-05 gelu=erf; any batch, any mask.
// Schedule: handoff=fused sync=grid warps=4 tile=64x64x32 stages=3 split=1 query=64 rows=16 ffn=256
//
//   heads    +---------+
//            | mask    |
//            | softmax |
//            +---------+
//
// Reads scores; writes probs.
FT_KERNEL_ID(0x3adaa377de9497e1ull);

FT_KERNEL(ft_segment_3_4_f16_3adaa377de94, 128) {
  using namespace ft;
  [[maybe_unused]] constexpr int S = 128, H = 12, W = 64, D = 768, F = 3072, kThreads = 128;
  [[maybe_unused]] constexpr float eps = 1e-05f;
  using T = f16;
  FT_SHARED(shared);
  [[maybe_unused]] const int M = args.batch * S;
  const float* const scores = static_cast<const float*>(args.tensor[5]);
  float* const probs = static_cast<float*>(args.tensor[7]);
  {  // heads: 3 mask to 4 softmax
    [[maybe_unused]] constexpr Free hand;
    mask_softmax_stage<kThreads, S, H>(args.mask, args.batch, scores, probs);
  }
}
