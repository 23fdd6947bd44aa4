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

// Segment [7-14] of an encoder block.
// Problem: S=128 H=12 W=64 F=3072 dtype=f16 eps=1e-05 gelu=erf; any batch, any mask.
// Schedule: handoff=pipeline sync=grid warps=4 tile=64x128x32 stages=3 split=1 query=64 rows=32 ffn=256
//
//   rows     +--------------------+
//            | out_gemm           |
//            | out_bias_residual  |
//            | layernorm1         |
//            | ffn1_gemm          |
//            | ffn1_bias_gelu     |
//            | ffn2_gemm          |
//            | ffn2_bias_residual |
//            | layernorm2         |
//            +--------------------+
//
// Reads hidden, merged; writes output.
FT_KERNEL_ID(0xdd95b54ecff9dfcfull);

FT_KERNEL(ft_segment_7_14_f16_dd95b54ecff9, 128) {
  using namespace ft;
  [[maybe_unused]] constexpr int S = 128, H = 12, W = 64, D = 768, F = 3072, kThreads = 128;
  [[maybe_unused]] constexpr float eps = 1e-05f;
  using T = f16;
  using Row = RowTile<T, 32, 128, 32, 4, 3>;
  FT_SHARED(shared);
  [[maybe_unused]] const int M = args.batch * S;
  const T* const hidden = static_cast<const T*>(args.tensor[0]);
  const T* const merged = static_cast<const T*>(args.tensor[9]);
  T* const output = static_cast<T*>(args.tensor[17]);
  const T* const w_out = static_cast<const T*>(args.weight[1]);
  const T* const w_ffn1 = static_cast<const T*>(args.weight[2]);
  const T* const w_ffn2 = static_cast<const T*>(args.weight[3]);
  const float* const b_out = args.parameter[1];
  const float* const gamma1 = args.parameter[2];
  const float* const beta1 = args.parameter[3];
  const float* const b_ffn1 = args.parameter[4];
  const float* const b_ffn2 = args.parameter[5];
  const float* const gamma2 = args.parameter[6];
  const float* const beta2 = args.parameter[7];
  {  // rows: 7 out_gemm to 14 layernorm2
    [[maybe_unused]] constexpr Free hand;
    T* const block = reinterpret_cast<T*>(shared + 0);
    float* const sums = reinterpret_cast<float*>(shared + 49664);
    T* const activations = reinterpret_cast<T*>(shared + 148992);
    T* const stages = reinterpret_cast<T*>(shared + 165888);
    constexpr int kChunk = 256;  // inner columns on chip at a time
    for_row_blocks<Row::kRows>(M, [&](int row, int rows) {
      hand.before(row, row + rows);
      load_row_block<Row, D>(block, Matrix<T, D>{merged}, row, M, 0, D);
      row_block_gemm<Row, D, D>(block, stages, WeightPart<Matrix<T, D>>{{w_out}, 0, D, 0, D},
                                ToSums<Row::sum_ld(D)>{sums, false});
      layernorm_row_block<Row, D>(rows,
          BiasResidual<float, Row::sum_ld(D), T, D>{sums, b_out, hidden + i64(row) * D},
          gamma1, beta1, eps, block, static_cast<T*>(nullptr));
      for (int f = 0; f < F; f += kChunk) {
        row_block_gemm<Row, kChunk, D>(block, stages, WeightPart<Matrix<T, F>>{{w_ffn1}, 0, D, f, F},
            ToActivations<T, Row::ld(kChunk), GeluErf>{activations, b_ffn1 + f, min_of(kChunk, F - f)});
        row_block_gemm<Row, D, kChunk>(activations, stages, WeightPart<Matrix<T, D>>{{w_ffn2}, f, F, 0, D},
                                       ToSums<Row::sum_ld(D)>{sums, f > 0});
      }
      layernorm_rows_out<Row, S, D>(row, rows,
          BiasResidual<float, Row::sum_ld(D), T, Row::ld(D)>{sums, b_ffn2, block},
          gamma2, beta2, eps, output, args.mask, true);
      hand.after(row, row + rows);
    });
  }
}
