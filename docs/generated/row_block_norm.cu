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

// Segment [7-9] of an encoder block.
// Problem: S=128 H=12 W=64 F=3072 dtype=f16 eps=1e-05 gelu=erf; any batch, any mask.
// Schedule: handoff=norm sync=grid warps=4 tile=64x128x32 stages=3 split=1 query=64 rows=16 ffn=256
//
//   rows     +-------------------+
//            | out_gemm          |
//            | out_bias_residual |
//            | layernorm1        |
//            +-------------------+
//
// Reads hidden, merged; writes norm1.
FT_KERNEL_ID(0xa5cfc47a86ac5668ull);

FT_KERNEL(ft_segment_7_9_f16_a5cfc47a86ac, 128) {
  using namespace ft;
  [[maybe_unused]] constexpr int S = 128, H = 12, W = 64, D = 768, F = 3072, kThreads = 128;
  [[maybe_unused]] constexpr float eps = 1e-05f;
  using T = f16;
  using Row = RowTile<T, 16, 128, 32, 4, 3>;
  FT_SHARED(shared);
  [[maybe_unused]] const int M = args.batch * S;
  const T* const hidden = static_cast<const T*>(args.tensor[0]);
  const T* const merged = static_cast<const T*>(args.tensor[9]);
  T* const norm1 = static_cast<T*>(args.tensor[12]);
  const T* const w_out = static_cast<const T*>(args.weight[1]);
  const float* const b_out = args.parameter[1];
  const float* const gamma1 = args.parameter[2];
  const float* const beta1 = args.parameter[3];
  {  // rows: 7 out_gemm to 9 layernorm1
    [[maybe_unused]] constexpr Free hand;
    T* const block = reinterpret_cast<T*>(shared + 0);
    float* const sums = reinterpret_cast<float*>(shared + 24832);
    T* const stages = reinterpret_cast<T*>(shared + 74496);
    for_row_blocks<Row::kRows>(M, [&](int row, int rows) {
      hand.before(row, row + rows);
      load_row_block<Row, D>(block, Matrix<T, D>{merged}, row, M, 0, D);
      row_block_gemm<Row, D, D>(block, stages, WeightPart<Matrix<T, D>>{{w_out}, 0, D, 0, D},
                                ToSums<Row::sum_ld(D)>{sums, false});
      layernorm_rows_out<Row, S, D>(row, rows,
          BiasResidual<float, Row::sum_ld(D), T, D>{sums, b_out, hidden + i64(row) * D},
          gamma1, beta1, eps, norm1, args.mask, false);
      hand.after(row, row + rows);
    });
  }
}
