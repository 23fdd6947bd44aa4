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

// Segment [0-1] of an encoder block.
// Problem: S=128 H=12 W=64 F=3072 dtype=f32 eps=1e-05 gelu=erf; any batch, any mask.
// Schedule: handoff=fused sync=grid warps=4 tile=32x64x32 stages=3 split=1 query=64 rows=16 ffn=256
//
//   columns  +----------+
//            | qkv_gemm |
//            | qkv_bias |
//            +----------+
//
// Reads hidden; writes q, k, v.
FT_KERNEL_ID(0x1cd2db58f3b807aeull);

FT_KERNEL(ft_segment_0_1_f32_1cd2db58f3b8, 128) {
  using namespace ft;
  [[maybe_unused]] constexpr int S = 128, H = 12, W = 64, D = 768, F = 3072, kThreads = 128;
  [[maybe_unused]] constexpr float eps = 1e-05f;
  using T = float;
  using Tile = GemmTile<T, 32, 64, 32, 1, 4, 3>;
  FT_SHARED(shared);
  [[maybe_unused]] const int M = args.batch * S;
  const T* const hidden = static_cast<const T*>(args.tensor[0]);
  T* const q = static_cast<T*>(args.tensor[2]);
  T* const k = static_cast<T*>(args.tensor[3]);
  T* const v = static_cast<T*>(args.tensor[4]);
  const T* const w_qkv = static_cast<const T*>(args.weight[0]);
  const float* const b_qkv = args.parameter[0];
  {  // columns: 0 qkv_gemm to 1 qkv_bias
    [[maybe_unused]] constexpr Free hand;
    gemm_stage<Tile, 3 * D, D>(
        shared, M, Matrix<T, D>{hidden}, Matrix<T, 3 * D>{w_qkv},
        StoreBiasHeads<T, S, H, W>{q, k, v, b_qkv}, hand);
  }
}
