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

// Segment [0-14]* of an encoder block, with the hand-written attention.
// Problem: S=128 H=12 W=64 F=3072 dtype=f16 eps=1e-05 gelu=erf; any batch, any mask.
// Schedule: handoff=norm sync=rows warps=4 tile=64x128x32 stages=3 split=1 query=64 rows=16 ffn=256
//
//   columns  +--------------------+
//            | qkv_gemm           |
//            | qkv_bias           |
//            +--------------------+
//                      | rows, as they are ready
//   heads    +--------------------+
//            | scores             |
//            | mask               |
//            | softmax            |
//            | context            |
//            | merge_heads        |
//            +--------------------+
//                      | rows, as they are ready
//   rows     +--------------------+
//            | out_gemm           |
//            | out_bias_residual  |
//            | layernorm1         |
//            +--------------------+
//                      | rows, as they are ready
//   columns  +--------------------+
//            | ffn1_gemm          |
//            | ffn1_bias_gelu     |
//            +--------------------+
//                      | rows, as they are ready
//   rows     +--------------------+
//            | ffn2_gemm          |
//            | ffn2_bias_residual |
//            | layernorm2         |
//            +--------------------+
//
// Reads hidden; writes output.
FT_KERNEL_ID(0x344b06bf4072a1edull);

FT_KERNEL(ft_segment_0_14_attention_f16_344b06bf4072, 128) {
  using namespace ft;
  [[maybe_unused]] constexpr int S = 128, H = 12, W = 64, D = 768, F = 3072, kThreads = 128;
  [[maybe_unused]] constexpr float eps = 1e-05f;
  using T = f16;
  using Tile = GemmTile<T, 64, 128, 32, 1, 4, 3>;
  using Head = HeadTile<T, S, W, 64, 4>;
  using Row = RowTile<T, 16, 128, 32, 4, 3>;
  FT_SHARED(shared);
  [[maybe_unused]] const int M = args.batch * S;
  const T* const hidden = static_cast<const T*>(args.tensor[0]);
  T* const q = static_cast<T*>(args.tensor[2]);
  T* const k = static_cast<T*>(args.tensor[3]);
  T* const v = static_cast<T*>(args.tensor[4]);
  T* const merged = static_cast<T*>(args.tensor[9]);
  T* const norm1 = static_cast<T*>(args.tensor[12]);
  T* const ffn_act = static_cast<T*>(args.tensor[14]);
  T* const output = static_cast<T*>(args.tensor[17]);
  const T* const w_qkv = static_cast<const T*>(args.weight[0]);
  const T* const w_out = static_cast<const T*>(args.weight[1]);
  const T* const w_ffn1 = static_cast<const T*>(args.weight[2]);
  const T* const w_ffn2 = static_cast<const T*>(args.weight[3]);
  const float* const b_qkv = args.parameter[0];
  const float* const b_out = args.parameter[1];
  const float* const gamma1 = args.parameter[2];
  const float* const beta1 = args.parameter[3];
  const float* const b_ffn1 = args.parameter[4];
  const float* const b_ffn2 = args.parameter[5];
  const float* const gamma2 = args.parameter[6];
  const float* const beta2 = args.parameter[7];
  const int groups = ceil_div(M, kRowGroup);
  u32* const counters = args.sync + 2;
  {  // columns: 0 qkv_gemm to 1 qkv_bias
    const Chain hand = {nullptr, counters, M, 0};
    gemm_stage<Tile, 3 * D, D>(
        shared, M, Matrix<T, D>{hidden}, Matrix<T, 3 * D>{w_qkv},
        StoreBiasHeads<T, S, H, W>{q, k, v, b_qkv}, hand);
  }
  {  // heads: 2 scores to 6 merge_heads
    const Chain hand = {counters, counters + 1 * groups, M, 18};
    for_query_blocks<S, H, Head::kQueries>(args.batch, [&](int b, int h, int s) {
      [[maybe_unused]] const i64 head = i64(b) * H + h;
      [[maybe_unused]] const u8* const used = args.mask.key_used + (args.mask.entries == 1 ? 0 : b) * S;
      const Matrix<T, W> q_rows = {q + head * S * W};
      const KeyRows<T, W, W> k_rows = {k + head * S * W, used};
      const KeyRows<T, W, W> v_rows = {v + head * S * W, used};
      hand.before(b * S, b * S + S);
      online_attention<Head, S, W>(shared, args.mask, b, s, q_rows, k_rows, v_rows, 0.125f,
                                   StoreHead<T, W, D>{merged + i64(b) * S * D + h * W});
      hand.after(b * S + s, b * S + min_of(s + Head::kQueries, S));
    });
  }
  {  // rows: 7 out_gemm to 9 layernorm1
    const Chain hand = {counters + 1 * groups, counters + 2 * groups, M, 12};
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
  {  // columns: 10 ffn1_gemm to 11 ffn1_bias_gelu
    const Chain hand = {counters + 2 * groups, counters + 3 * groups, M, 1};
    gemm_stage<Tile, F, D>(
        shared, M, Matrix<T, D>{norm1}, Matrix<T, F>{w_ffn1},
        StoreBiasActivation<T, F, GeluErf>{ffn_act, b_ffn1}, hand);
  }
  {  // rows: 12 ffn2_gemm to 14 layernorm2
    const Chain hand = {counters + 3 * groups, nullptr, M, 24};
    float* const sums = reinterpret_cast<float*>(shared + 0);
    T* const activations = reinterpret_cast<T*>(shared + 49664);
    T* const stages = reinterpret_cast<T*>(shared + 58112);
    constexpr int kChunk = 256;  // inner columns on chip at a time
    for_row_blocks<Row::kRows>(M, [&](int row, int rows) {
      hand.before(row, row + rows);
      for (int f = 0; f < F; f += kChunk) {
        load_row_block<Row, kChunk>(activations, Matrix<T, F>{ffn_act}, row, M, f, F);
        row_block_gemm<Row, D, kChunk>(activations, stages, WeightPart<Matrix<T, D>>{{w_ffn2}, f, F, 0, D},
                                       ToSums<Row::sum_ld(D)>{sums, f > 0});
      }
      layernorm_rows_out<Row, S, D>(row, rows,
          BiasResidual<float, Row::sum_ld(D), T, D>{sums, b_ffn2, norm1 + i64(row) * D},
          gamma2, beta2, eps, output, args.mask, true);
      hand.after(row, row + rows);
    });
  }
  reset_counters<kThreads>(counters, 4 * groups, args.sync + 1, reinterpret_cast<u32*>(shared));
}
