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

// Segment [1] of an encoder block.
// Problem: S=128 H=12 W=64 F=3072 dtype=f16 eps=1e-05 gelu=erf; any batch, any mask.
// Schedule: handoff=barrier sync=grid warps=4 tile=64x64x32 stages=3 split=1 query=64 rows=16 ffn=256
//
//   heads    +----------+
//            | qkv_bias |
//            +----------+
//
// Reads qkv; writes q, k, v.
FT_KERNEL_ID(0xb148940649ab3db8ull);

FT_KERNEL(ft_segment_1_1_f16_b148940649ab, 128) {
  using namespace ft;
  [[maybe_unused]] constexpr int S = 128, H = 12, W = 64, D = 768, F = 3072, kThreads = 128;
  [[maybe_unused]] constexpr float eps = 1e-05f;
  using T = f16;
  FT_SHARED(shared);
  [[maybe_unused]] const int M = args.batch * S;
  const T* const qkv = static_cast<const T*>(args.tensor[1]);
  T* const q = static_cast<T*>(args.tensor[2]);
  T* const k = static_cast<T*>(args.tensor[3]);
  T* const v = static_cast<T*>(args.tensor[4]);
  const float* const b_qkv = args.parameter[0];
  {  // heads: 1 qkv_bias
    [[maybe_unused]] constexpr Free hand;
    bias_heads_stage<kThreads, T, S, H, W, 0>(M, qkv, StoreBiasHeads<T, S, H, W>{q, k, v, b_qkv});
  }
}
