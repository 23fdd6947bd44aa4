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

// Segment [11] of an encoder block.
// Problem: S=128 H=12 W=64 F=3072 dtype=f16 eps=1e-05 gelu=erf; any batch, any mask.
// Schedule: handoff=barrier sync=grid warps=4 tile=64x64x32 stages=3 split=1 query=64 rows=16 ffn=256
//
//   rows     +----------------+
//            | ffn1_bias_gelu |
//            +----------------+
//
// Reads ffn_up; writes ffn_act.
FT_KERNEL_ID(0xdfc6735b4e9c392cull);

FT_KERNEL(ft_segment_11_11_f16_dfc6735b4e9c, 128) {
  using namespace ft;
  [[maybe_unused]] constexpr int S = 128, H = 12, W = 64, D = 768, F = 3072, kThreads = 128;
  [[maybe_unused]] constexpr float eps = 1e-05f;
  using T = f16;
  FT_SHARED(shared);
  [[maybe_unused]] const int M = args.batch * S;
  const T* const ffn_up = static_cast<const T*>(args.tensor[13]);
  T* const ffn_act = static_cast<T*>(args.tensor[14]);
  const float* const b_ffn1 = args.parameter[4];
  {  // rows: 11 ffn1_bias_gelu
    [[maybe_unused]] constexpr Free hand;
    bias_activation_stage<kThreads>(M, ffn_up, StoreBiasActivation<T, F, GeluErf>{ffn_act, b_ffn1});
  }
}
