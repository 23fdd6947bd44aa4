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

// Segment [8-9] of an encoder block.
// Problem: S=128 H=12 W=64 F=3072 dtype=f16 eps=1e-05 gelu=erf; any batch, any mask.
// Schedule: handoff=fused sync=grid warps=4 tile=64x64x32 stages=3 split=1 query=64 rows=16 ffn=256
//
//   rows     +-------------------+
//            | out_bias_residual |
//            | layernorm1        |
//            +-------------------+
//
// Reads hidden, attn_proj; writes norm1.
FT_KERNEL_ID(0x7630bdc5057b86e0ull);

FT_KERNEL(ft_segment_8_9_f16_7630bdc5057b, 128) {
  using namespace ft;
  [[maybe_unused]] constexpr int S = 128, H = 12, W = 64, D = 768, F = 3072, kThreads = 128;
  [[maybe_unused]] constexpr float eps = 1e-05f;
  using T = f16;
  FT_SHARED(shared);
  [[maybe_unused]] const int M = args.batch * S;
  const T* const hidden = static_cast<const T*>(args.tensor[0]);
  const T* const attn_proj = static_cast<const T*>(args.tensor[10]);
  T* const norm1 = static_cast<T*>(args.tensor[12]);
  const float* const b_out = args.parameter[1];
  const float* const gamma1 = args.parameter[2];
  const float* const beta1 = args.parameter[3];
  {  // rows: 8 out_bias_residual to 9 layernorm1
    [[maybe_unused]] constexpr Free hand;
    layernorm_stage<kThreads, S, D>(M, BiasResidual<T, D, T, D>{attn_proj, b_out, hidden},
                                    gamma1, beta1, eps, norm1, args.mask, false, hand);
  }
}
