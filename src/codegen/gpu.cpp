// Generates one GPU function for a segment: a stub that instantiates the building blocks under kernels/cuda.
//
// Reading guide: generate_gpu() at the end; GpuWriter holds the text while it grows; one emit_* function a
// phase kind (columns, heads, rows), each a walk over the operators it may hold.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "base/integer.h"
#include "block/operators.h"
#include "block/rounding.h"
#include "codegen/code_writer.h"
#include "codegen/gpu_kernel.h"
#include "codegen/kernel_source.h"
#include "codegen/kernel_text.h"
#include "codegen/product.h"
#include "lower/program.h"

namespace fusetune::codegen {
namespace {

using block::Operator;
using block::Parameter;
using block::Tensor;
using block::Weight;
using lower::GpuSync;
using lower::Phase;
using lower::PhaseKind;
using lower::Placement;

constexpr std::string_view kBlocks[] = {"cuda/abi.h",       "cuda/tile.h",     "ops/math.h",    "cuda/mma.h",
                                        "cuda/sync.h",      "cuda/gemm.h",     "cuda/stores.h", "cuda/rows.h",
                                        "cuda/attention.h", "cuda/row_block.h"};

using base::ceil_div;

std::string_view type_name(block::Dtype dtype) {
  return dtype == block::Dtype::f32 ? "float" : dtype == block::Dtype::f16 ? "f16" : "bf16";
}

class GpuWriter {
 public:
  GpuWriter(const lower::SegmentProgram& program, const lower::GpuSchedule& schedule,
            const block::Problem& problem, const lower::GpuTarget& target)
      : program_(program), schedule_(schedule), problem_(problem), target_(target) {}

  GpuKernel generate();

 private:
  std::string use(Tensor tensor) {
    tensors_[static_cast<std::size_t>(tensor)] = true;
    return std::string(block::name(tensor));
  }
  std::string use(Weight weight) {
    weights_[static_cast<std::size_t>(weight)] = true;
    return std::string(block::name(weight));
  }
  std::string use(Parameter parameter) {
    parameters_[static_cast<std::size_t>(parameter)] = true;
    return std::string(block::name(parameter));
  }
  bool in_memory(Tensor tensor) const { return program_.in_memory(tensor); }
  std::string gelu() const { return problem_.gelu == block::Gelu::erf ? "GeluErf" : "GeluTanh"; }
  bool chained() const { return schedule_.sync == GpuSync::rows; }
  int threads() const { return 32 * schedule_.warps; }
  void add_tasks(std::int64_t rows, std::int64_t times, bool by_entry = false) {
    tasks_.push_back({rows, times, by_entry});
  }

  // --- phases ---------------------------------------------------------------------------------------
  void emit_phase(std::size_t index);
  void emit_hand_over(std::size_t index);
  void emit_columns(const Phase& phase);
  void emit_heads(const Phase& phase);
  void emit_rows(const Phase& phase);

  // --- parts of phases ------------------------------------------------------------------------------
  std::string product_input(const Phase& phase, int product);
  std::string product_store(int product, bool with_next);
  void emit_score_stage(const Phase& phase);
  void emit_head_sources(const Phase& phase);
  void emit_whole_rows(const Phase& phase, const lower::GpuHeadMemory& memory);
  void emit_online(const Phase& phase);
  std::string head_output(const Phase& phase);
  void emit_row_stage(const Phase& phase);
  void emit_row_pipeline(const Phase& phase);
  void emit_attention_output(const Phase& phase);
  void emit_ffn(const Phase& phase);
  void emit_ffn_chunks(const Phase& phase);

  // --- whole kernels --------------------------------------------------------------------------------
  std::string header_comment() const;
  std::string drawing() const;
  std::string constants() const;
  std::string pointers() const;
  std::int64_t parts_of(const Phase& phase) const;

  const lower::SegmentProgram& program_;
  const lower::GpuSchedule& schedule_;
  const block::Problem& problem_;
  const lower::GpuTarget& target_;
  CodeWriter code_{1};
  std::array<bool, block::kTensorCount> tensors_{};
  std::array<bool, block::kWeightCount> weights_{};
  std::array<bool, block::kParameterCount> parameters_{};
  std::vector<GpuKernel::Tasks> tasks_;
  std::vector<std::int64_t> split_tiles_;
  std::int64_t spilled_floats_ = 0;
  bool uses_tile_ = false, uses_head_ = false, uses_row_ = false;
};

// ------------------------------------------------------------------------------------------- columns

/// The product of a columns phase: it may begin with the element-wise operator before it.
int product_in(const Phase& phase) {
  return phase.first == 6 || phase.first == 11 ? phase.first + 1 : phase.first;
}

/// Where a product's rows come from.
std::string GpuWriter::product_input(const Phase& phase, int product) {
  if (phase.first == 6) return fmt::format("MergedHeads<T, S, H, W>{{{}}}", use(Tensor::context));
  if (phase.first == 11)
    return fmt::format("ActivatedRows<T, F, {}>{{{}, {}}}", gelu(), use(Tensor::ffn_up),
                       use(Parameter::b_ffn1));
  const Product p = product_of(product);
  return fmt::format("Matrix<T, {}>{{{}}}", p.k, use(p.input));
}

/// Where its results go, with the element-wise operator behind it where `with_next`.
std::string GpuWriter::product_store(int product, bool with_next) {
  const Product p = product_of(product);
  if (!with_next) return fmt::format("Store<T, {}>{{{}}}", p.n, use(p.output));
  switch (product) {
    case 0:
      return fmt::format("StoreBiasHeads<T, S, H, W>{{{}, {}, {}, {}}}", use(Tensor::q), use(Tensor::k),
                         use(Tensor::v), use(Parameter::b_qkv));
    case 7:
      return fmt::format("StoreBiasResidual<T, D>{{{}, {}, {}}}", use(Tensor::attn_sum),
                         use(Parameter::b_out), use(Tensor::hidden));
    case 10:
      return fmt::format("StoreBiasActivation<T, F, {}>{{{}, {}}}", gelu(), use(Tensor::ffn_act),
                         use(Parameter::b_ffn1));
    default:
      return fmt::format("StoreBiasResidual<T, D>{{{}, {}, {}}}", use(Tensor::ffn_sum),
                         use(Parameter::b_ffn2), use(Tensor::norm1));
  }
}

void GpuWriter::emit_columns(const Phase& phase) {
  uses_tile_ = true;
  const int product = product_in(phase);
  const Product p = product_of(product);
  const std::int64_t across = ceil_div(product_columns(product, problem_), schedule_.tile_columns);
  const bool splits = schedule_.split_k > 1;
  if (splits) {
    code_.line("u32* const arrived = split_counters;");
    code_.line("float* const partial = split_scratch;");
    code_.line("split_counters += ceil_div(M, Tile::kRows) * {};", across);
    code_.line("split_scratch += i64(ceil_div(M, Tile::kRows)) * {} * Tile::kRows * Tile::kColumns;",
               across * schedule_.split_k);
    split_tiles_.push_back(across);
  }
  code_.line("{}<Tile, {}, {}{}>(", splits ? "split_gemm_stage" : "gemm_stage", p.n, p.k,
             splits ? fmt::format(", {}", schedule_.split_k) : "");
  code_.line("    shared, M, {}, Matrix<T, {}>{{{}}},", product_input(phase, product), p.n, use(p.weight));
  code_.line("    {}, hand{});", product_store(product, phase.last > product),
             splits ? ", partial, arrived" : "");
  add_tasks(schedule_.tile_rows, across * schedule_.split_k);
}

// --------------------------------------------------------------------------------------------- heads

/// Operators 3 and 4 alone or together: a warp per row, nothing held.
void GpuWriter::emit_score_stage(const Phase& phase) {
  if (phase.first == 4)
    code_.line("softmax_stage<kThreads, S, H>(args.batch, {}, {});", use(Tensor::masked_scores),
               use(Tensor::probs));
  else if (phase.last == 3)
    code_.line("mask_stage<kThreads, S, H>(args.mask, args.batch, {}, {});", use(Tensor::scores),
               use(Tensor::masked_scores));
  else
    code_.line("mask_softmax_stage<kThreads, S, H>(args.mask, args.batch, {}, {});", use(Tensor::scores),
               use(Tensor::probs));
  add_tasks(schedule_.warps, problem_.heads);
}

/// This head's rows of q, k and v: from qkv with the bias added (operator 1), else from memory.
void GpuWriter::emit_head_sources(const Phase& phase) {
  const bool needs_qk = phase.first <= 2, needs_v = phase.last >= 5;
  if (phase.first == 1) {
    const std::string qkv = use(Tensor::qkv), bias = use(Parameter::b_qkv);
    for (int part = 0; part < (needs_v ? 3 : 2); ++part) {
      code_.line("const BiasedRows<T, W, 3 * D> {}_rows = {{{} + (i64(b) * S * 3 + {}) * D + h * W,",
                 "qkv"[part], qkv, part);
      code_.line("                                       {} + {} * D + h * W, {}}};", bias, part,
                 part == 0 ? "nullptr" : "used");
    }
    return;
  }
  if (needs_qk) {
    code_.line("const Matrix<T, W> q_rows = {{{} + head * S * W}};", use(Tensor::q));
    code_.line("const KeyRows<T, W, W> k_rows = {{{} + head * S * W, used}};", use(Tensor::k));
  }
  if (needs_v) code_.line("const KeyRows<T, W, W> v_rows = {{{} + head * S * W, used}};", use(Tensor::v));
}

std::string GpuWriter::head_output(const Phase& phase) {
  if (phase.last >= 6)
    return fmt::format("StoreHead<T, W, D>{{{} + i64(b) * S * D + h * W}}", use(Tensor::merged));
  return fmt::format("StoreHead<T, W, W>{{{} + head * S * W}}", use(Tensor::context));
}

std::string scale_literal(const block::Problem& problem) {
  return float_literal(1.0 / std::sqrt(static_cast<double>(problem.head_size)));
}

/// Operators 2..5 with the block of whole score rows between them.
void GpuWriter::emit_whole_rows(const Phase& phase, const lower::GpuHeadMemory& memory) {
  const auto in_memory = [&](Tensor tensor) { return fmt::format("{} + head * S * S", use(tensor)); };
  const auto load = [&](Tensor tensor, std::string_view pad) {
    code_.line("load_score_rows<Head, S>({}, s, block, {});", in_memory(tensor), pad);
  };
  const auto save = [&](Tensor tensor) {
    code_.line("save_score_rows<Head, S>(block, s, {});", in_memory(tensor));
  };
  if (memory.scores > 0 && memory.scores_on_chip)
    code_.line("float* const block = reinterpret_cast<float*>(shared + Head::kTileBytes);");
  if (memory.scores > 0 && !memory.scores_on_chip) {
    code_.line("float* const block = args.scratch + i64(block_index()) * {};  // too long for shared memory",
               memory.scores / 4);
    spilled_floats_ = memory.scores / 4;
  }
  if (phase.first <= 2)
    code_.line("score_rows<Head, S, W>(shared, s, q_rows, k_rows, {}, {});", scale_literal(problem_),
               phase.last == 2 ? fmt::format("ToScores<S>{{{}, s}}", in_memory(Tensor::scores))
                               : "ToScoreBlock{block, Head::kScoreLd}");
  if (phase.first <= 3 && phase.last >= 3) {
    if (phase.first == 3) load(Tensor::scores, "0");
    code_.line("mask_score_rows<Head, S>(args.mask, b, s, block);");
    if (phase.last == 3) save(Tensor::masked_scores);
  }
  if (phase.first <= 4 && phase.last >= 4) {
    if (phase.first == 4) load(Tensor::masked_scores, "-infinity()");
    code_.line("softmax_score_rows<Head, S>(s, block);");
    if (phase.last == 4) save(Tensor::probs);
  }
  if (phase.last < 5) return;
  if (phase.first == 5) load(Tensor::probs, "0");
  code_.line("context_rows<Head, S, W>(shared, s, block, v_rows, {});", head_output(phase));
}

void GpuWriter::emit_online(const Phase& phase) {
  code_.line("online_attention<Head, S, W>(shared, args.mask, b, s, q_rows, k_rows, v_rows, {},",
             scale_literal(problem_));
  code_.line("                             {});", head_output(phase));
}

void GpuWriter::emit_heads(const Phase& phase) {
  if (phase.first == 1 && phase.last < 5) {
    const bool alone = phase.last == 1;
    code_.line(
        "bias_heads_stage<kThreads, T, S, H, W, {}>(M, {}, StoreBiasHeads<T, S, H, W>{{{}, {}, {}, {}}});",
        alone ? 0 : 2, use(Tensor::qkv), alone ? use(Tensor::q) : "nullptr",
        alone ? use(Tensor::k) : "nullptr", use(Tensor::v), use(Parameter::b_qkv));
    add_tasks(1, ceil_div(3 * problem_.hidden(), 2 * threads()));
    if (alone) return;
  }
  if (!phase.contains(2) && !phase.contains(5)) return emit_score_stage(phase);
  uses_head_ = true;
  const lower::GpuHeadMemory memory =
      lower::head_memory(phase, program_.variant.hand_written, schedule_, problem_, target_);
  code_.open("for_query_blocks<S, H, Head::kQueries>(args.batch, [&](int b, int h, int s)");
  code_.line("[[maybe_unused]] const i64 head = i64(b) * H + h;");
  code_.line(
      "[[maybe_unused]] const u8* const used = args.mask.key_used + (args.mask.entries == 1 ? 0 : b) * S;");
  emit_head_sources(phase);
  code_.line("hand.before(b * S, b * S + S);");
  if (program_.variant.hand_written)
    emit_online(phase);
  else
    emit_whole_rows(phase, memory);
  code_.line("hand.after(b * S + s, b * S + min_of(s + Head::kQueries, S));");
  code_.close(");");
  add_tasks(schedule_.query_rows, problem_.heads, true);
}

// ---------------------------------------------------------------------------------------------- rows

/// Operators that take row by row from memory: element-wise ones alone, LayerNorm with what is before it.
void GpuWriter::emit_row_stage(const Phase& phase) {
  const bool second = phase.first >= 13;
  if (phase.first == 6) {
    code_.line("merge_heads_stage<kThreads, T, S, H, W>(M, {}, {});", use(Tensor::context),
               use(Tensor::merged));
  } else if (phase.first == 11) {
    code_.line("bias_activation_stage<kThreads>(M, {}, {});", use(Tensor::ffn_up), product_store(10, true));
  } else if (phase.last == 8 || phase.last == 13) {
    code_.line("bias_residual_stage<kThreads>(M, {}, {});",
               use(second ? Tensor::ffn_down : Tensor::attn_proj), product_store(second ? 12 : 7, true));
  } else {
    const bool sums = phase.first == 8 || phase.first == 13;
    const std::string value =
        sums ? fmt::format("BiasResidual<T, D, T, D>{{{}, {}, {}}}",
                           use(second ? Tensor::ffn_down : Tensor::attn_proj),
                           use(second ? Parameter::b_ffn2 : Parameter::b_out),
                           use(second ? Tensor::norm1 : Tensor::hidden))
             : fmt::format("Values<T, D>{{{}}}", use(second ? Tensor::ffn_sum : Tensor::attn_sum));
    code_.line("layernorm_stage<kThreads, S, D>(M, {},", value);
    code_.line("                                {}, {}, eps, {}, args.mask, {}, hand);",
               use(second ? Parameter::gamma2 : Parameter::gamma1),
               use(second ? Parameter::beta2 : Parameter::beta1),
               use(second ? Tensor::output : Tensor::norm1), second);
    add_tasks(schedule_.warps, 1);
    return;
  }
  const std::int64_t columns = phase.first == 11 ? problem_.ffn : problem_.hidden();
  add_tasks(1, ceil_div(columns, 2 * threads()));
}

/// Operators 6..9 of a row block: norm1 ends in `block` where more operators follow.
void GpuWriter::emit_attention_output(const Phase& phase) {
  std::string value;
  if (phase.contains(7)) {
    const std::string merged =
        phase.first == 6 ? product_input(phase, 7) : fmt::format("Matrix<T, D>{{{}}}", use(Tensor::merged));
    code_.line("load_row_block<Row, D>(block, {}, row, M, 0, D);", merged);
    code_.line("row_block_gemm<Row, D, D>(block, stages, WeightPart<Matrix<T, D>>{{{{{}}}, 0, D, 0, D}},",
               use(Weight::w_out));
    code_.line("                          ToSums<Row::sum_ld(D)>{{sums, false}});");
    value = fmt::format("BiasResidual<float, Row::sum_ld(D), T, D>{{sums, {}, {} + i64(row) * D}}",
                        use(Parameter::b_out), use(Tensor::hidden));
  } else if (phase.first == 8) {
    value = fmt::format("BiasResidual<T, D, T, D>{{{} + i64(row) * D, {}, {} + i64(row) * D}}",
                        use(Tensor::attn_proj), use(Parameter::b_out), use(Tensor::hidden));
  } else {
    value = fmt::format("Values<T, D>{{{} + i64(row) * D}}", use(Tensor::attn_sum));
  }
  if (phase.last == 9) {
    code_.line("layernorm_rows_out<Row, S, D>(row, rows,");
    code_.line("    {},", value);
    code_.line("    {}, {}, eps, {}, args.mask, false);", use(Parameter::gamma1), use(Parameter::beta1),
               use(Tensor::norm1));
    return;
  }
  const std::string memory = in_memory(Tensor::norm1) ? fmt::format("{} + i64(row) * D", use(Tensor::norm1))
                                                      : "static_cast<T*>(nullptr)";
  code_.line("layernorm_row_block<Row, D>(rows,");
  code_.line("    {},", value);
  code_.line("    {}, {}, eps, block, {});", use(Parameter::gamma1), use(Parameter::beta1), memory);
}

/// Operators 10 (or 11, 12) to 12, `chunk` inner columns at a time: sums hold operator 12's result.
void GpuWriter::emit_ffn_chunks(const Phase& phase) {
  code_.open("for (int f = 0; f < F; f += kChunk)");
  if (phase.first <= 10) {
    code_.line(
        "row_block_gemm<Row, kChunk, D>(block, stages, WeightPart<Matrix<T, F>>{{{{{}}}, 0, D, f, F}},",
        use(Weight::w_ffn1));
    code_.line("    ToActivations<T, Row::ld(kChunk), {}>{{activations, {} + f, min_of(kChunk, F - f)}});",
               gelu(), use(Parameter::b_ffn1));
  } else {
    code_.line("load_row_block<Row, kChunk>(activations, {}, row, M, f, F);", product_input(phase, 12));
  }
  code_.line(
      "row_block_gemm<Row, D, kChunk>(activations, stages, WeightPart<Matrix<T, D>>{{{{{}}}, f, F, 0, D}},",
      use(Weight::w_ffn2));
  code_.line("                               ToSums<Row::sum_ld(D)>{{sums, f > 0}});");
  code_.close();
}

void GpuWriter::emit_ffn(const Phase& phase) {
  if (phase.last <= 11) {
    const std::string store = product_store(10, phase.last == 11);
    code_.line("row_block_gemm<Row, F, D>(block, stages, WeightPart<Matrix<T, F>>{{{{{}}}, 0, D, 0, F}},",
               use(Weight::w_ffn1));
    code_.line("                          ToMemory<F, {}>{{{}, row, rows}});",
               store.substr(0, store.find('{')), store.substr(store.find('{')));
    return;
  }
  emit_ffn_chunks(phase);
  if (phase.last == 12) {
    code_.line("save_row_block<Row, D>(rows, Values<float, Row::sum_ld(D)>{{sums}}, {} + i64(row) * D);",
               use(Tensor::ffn_down));
    return;
  }
  const std::string residual =
      phase.first <= 10
          ? fmt::format("T, Row::ld(D)>{{sums, {}, block}}", use(Parameter::b_ffn2))
          : fmt::format("T, D>{{sums, {}, {} + i64(row) * D}}", use(Parameter::b_ffn2), use(Tensor::norm1));
  const std::string value = "BiasResidual<float, Row::sum_ld(D), " + residual;
  if (phase.last == 13) {
    code_.line("save_row_block<Row, D>(rows, {}, {} + i64(row) * D);", value, use(Tensor::ffn_sum));
    return;
  }
  code_.line("layernorm_rows_out<Row, S, D>(row, rows,");
  code_.line("    {},", value);
  code_.line("    {}, {}, eps, {}, args.mask, true);", use(Parameter::gamma2), use(Parameter::beta2),
             use(Tensor::output));
}

void GpuWriter::emit_row_pipeline(const Phase& phase) {
  uses_row_ = true;
  const lower::GpuRowMemory memory = lower::row_memory(phase, schedule_, problem_);
  std::int64_t offset = 0;
  const auto place = [&](std::string_view type, std::string_view name, std::int64_t bytes) {
    if (bytes > 0) code_.line("{0}* const {1} = reinterpret_cast<{0}*>(shared + {2});", type, name, offset);
    offset += bytes;
  };
  place("T", "block", memory.block);
  place("float", "sums", memory.sums);
  place("T", "activations", memory.activations);
  place("T", "stages", memory.stages);
  if (phase.contains(12))
    code_.line("constexpr int kChunk = {};  // inner columns on chip at a time",
               std::min<std::int64_t>(schedule_.ffn_chunk, problem_.ffn));
  code_.open("for_row_blocks<Row::kRows>(M, [&](int row, int rows)");
  code_.line("hand.before(row, row + rows);");
  if (phase.first <= 9) emit_attention_output(phase);
  if (phase.first == 10)
    code_.line("load_row_block<Row, D>(block, Matrix<T, D>{{{}}}, row, M, 0, D);", use(Tensor::norm1));
  if (phase.last >= 10) emit_ffn(phase);
  code_.line("hand.after(row, row + rows);");
  code_.close(");");
  add_tasks(schedule_.row_block, 1);
}

void GpuWriter::emit_rows(const Phase& phase) {
  if (lower::is_row_pipeline(phase))
    emit_row_pipeline(phase);
  else
    emit_row_stage(phase);
}

// ------------------------------------------------------------------------------------- whole kernels

/// How many times each row of a phase's output is written by different tasks.
std::int64_t GpuWriter::parts_of(const Phase& phase) const {
  if (phase.kind == PhaseKind::columns)
    return ceil_div(product_columns(product_in(phase), problem_), schedule_.tile_columns);
  return phase.kind == PhaseKind::heads ? problem_.heads : 1;
}

/// The hand-over between a phase's tasks and its neighbours', as a constant `hand`.
void GpuWriter::emit_hand_over(std::size_t index) {
  if (!chained()) {
    code_.line("[[maybe_unused]] constexpr Free hand;");
    return;
  }
  const bool first = index == 0, last = index + 1 == program_.phases.size();
  const auto counters = [](std::size_t i) {
    return i == 0 ? std::string("counters") : fmt::format("counters + {} * groups", i);
  };
  code_.line("const Chain hand = {{{}, {}, M, {}}};", first ? "nullptr" : counters(index - 1),
             last ? "nullptr" : counters(index), first ? 0 : parts_of(program_.phases[index - 1]));
}

void GpuWriter::emit_phase(std::size_t index) {
  const Phase& phase = program_.phases[index];
  const auto label = [](int op) { return fmt::format("{} {}", op, block::name(static_cast<Operator>(op))); };
  code_.open_comment("{}: {}{}", name(phase.kind), label(phase.first),
                     phase.last > phase.first ? " to " + label(phase.last) : "");
  emit_hand_over(index);
  switch (phase.kind) {
    case PhaseKind::columns:
      emit_columns(phase);
      break;
    case PhaseKind::heads:
      emit_heads(phase);
      break;
    case PhaseKind::rows:
      emit_rows(phase);
      break;
    case PhaseKind::bridge:
      throw base::InternalError("a GPU program has no bridge");
  }
  code_.close();
}

/// What runs in one stage, boxed, with what separates the stages:
///
///   columns  +-------------------+
///            | out_gemm          |
///            | out_bias_residual |
///            +-------------------+
///                      | grid barrier
std::string GpuWriter::drawing() const {
  std::size_t width = 0;
  for (int op = program_.variant.segment.first; op <= program_.variant.segment.last; ++op)
    width = std::max(width, block::name(static_cast<Operator>(op)).size());
  const std::string edge = "+" + std::string(width + 2, '-') + "+";
  std::string text;
  for (std::size_t i = 0; i < program_.phases.size(); ++i) {
    const Phase& phase = program_.phases[i];
    if (i > 0)
      text += fmt::format("//   {:8} {:>{}} {}\n", "", "|", width / 2 + 2,
                          chained() ? "rows, as they are ready" : "grid barrier");
    text += fmt::format("//   {:<8} {}\n", name(phase.kind), edge);
    for (int op = phase.first; op <= phase.last; ++op)
      text += fmt::format("//   {:8} | {:<{}} |\n", "", block::name(static_cast<Operator>(op)), width);
    text += fmt::format("//   {:8} {}\n", "", edge);
  }
  return text;
}

std::string tensor_list(const std::vector<Tensor>& tensors) {
  std::string text;
  for (const Tensor tensor : tensors)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", block::name(tensor));
  return text.empty() ? "nothing" : text;
}

std::string GpuWriter::header_comment() const {
  const auto& v = program_.variant;
  std::string text = fmt::format("// Segment {} of an encoder block{}.\n", v.to_string(),
                                 v.hand_written ? ", with the hand-written attention" : "");
  text += problem_line(problem_);
  text += fmt::format("// Schedule: {}\n//\n", schedule_.to_string()) + drawing() + "//\n";
  return text;
}

std::string GpuWriter::constants() const {
  std::string text = fmt::format(
      "  [[maybe_unused]] constexpr int S = {}, H = {}, W = {}, D = {}, F = {}, kThreads = {};\n"
      "  [[maybe_unused]] constexpr float eps = {};\n  using T = {};\n",
      problem_.seq, problem_.heads, problem_.head_size, problem_.hidden(), problem_.ffn, threads(),
      float_literal(problem_.eps), type_name(problem_.dtype));
  if (uses_tile_) {
    const int down = lower::gemm_warp_rows(schedule_.tile_rows, schedule_.tile_columns, schedule_.warps);
    text += fmt::format("  using Tile = GemmTile<T, {}, {}, {}, {}, {}, {}>;\n", schedule_.tile_rows,
                        schedule_.tile_columns, schedule_.tile_depth, down, schedule_.warps / down,
                        schedule_.stages);
  }
  if (uses_head_)
    text += fmt::format("  using Head = HeadTile<T, S, W, {}, {}>;\n", schedule_.query_rows, schedule_.warps);
  if (uses_row_)
    text += fmt::format("  using Row = RowTile<T, {}, {}, {}, {}, {}>;\n", schedule_.row_block,
                        schedule_.tile_columns, schedule_.tile_depth, schedule_.warps, schedule_.stages);
  return text;
}

std::string GpuWriter::pointers() const {
  std::string text = "  FT_SHARED(shared);\n  [[maybe_unused]] const int M = args.batch * S;\n";
  for (int t = 0; t < block::kTensorCount; ++t) {
    if (!tensors_[t]) continue;
    const auto tensor = static_cast<Tensor>(t);
    const bool scores = block::stored_as(tensor, block::Dtype::f16) == block::Dtype::f32;
    const bool written = program_.variant.segment.contains(block::producer(tensor));
    text += fmt::format("  {0}* const {1} = static_cast<{0}*>(args.tensor[{2}]);\n",
                        fmt::format("{}{}", written ? "" : "const ", scores ? "float" : "T"),
                        block::name(tensor), t);
  }
  for (int w = 0; w < block::kWeightCount; ++w)
    if (weights_[w])
      text += fmt::format("  const T* const {} = static_cast<const T*>(args.weight[{}]);\n",
                          block::name(static_cast<Weight>(w)), w);
  for (int p = 0; p < block::kParameterCount; ++p)
    if (parameters_[p])
      text += fmt::format("  const float* const {} = args.parameter[{}];\n",
                          block::name(static_cast<Parameter>(p)), p);
  const std::size_t hand_overs = chained() ? program_.phases.size() - 1 : 0;
  if (chained())
    text +=
        fmt::format("  const int groups = ceil_div(M, kRowGroup);\n  u32* const counters = args.sync + 2;\n");
  if (!split_tiles_.empty()) {
    text += fmt::format("  u32* split_counters = args.sync + 2{};\n",
                        chained() ? fmt::format(" + {} * groups", hand_overs) : "");
    text +=
        fmt::format("  float* split_scratch = args.scratch{};\n",
                    spilled_floats_ > 0 ? fmt::format(" + i64(grid_blocks()) * {}", spilled_floats_) : "");
  }
  return text;
}

GpuKernel GpuWriter::generate() {
  const auto& phases = program_.phases;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    if (i > 0 && !chained()) code_.line("grid_barrier(args.sync);");
    emit_phase(i);
  }
  if (chained())
    code_.line(
        "reset_counters<kThreads>(counters, {} * groups, args.sync + 1, reinterpret_cast<u32*>(shared));",
        phases.size() - 1);

  GpuKernel kernel;
  kernel.variant = program_.variant;
  kernel.schedule = schedule_;
  kernel.dtype = problem_.dtype;
  kernel.includes.assign(std::begin(kBlocks), std::end(kBlocks));
  const std::string function = "  using namespace ft;\n" + constants() + pointers() + code_.text() + "}\n";
  base::Hasher hasher;
  for (const std::string& path : kernel.includes) hasher.add(building_block(path));
  kernel.hash = hasher.add(function).hex().substr(0, 16);
  kernel.symbol = fmt::format(
      "ft_segment_{}_{}{}_{}_{}", program_.variant.segment.first, program_.variant.segment.last,
      program_.variant.hand_written ? "_attention" : "", name(problem_.dtype), kernel.hash.substr(0, 12));
  kernel.reads = program_.live_in;
  for (int t = 0; t < block::kTensorCount; ++t) {
    const auto tensor = static_cast<Tensor>(t);
    if (!program_.variant.segment.contains(block::producer(tensor))) continue;
    const Placement placement = program_.placement(tensor);
    if (placement == Placement::live_out) kernel.writes.push_back(tensor);
    if (placement == Placement::workspace) kernel.workspace.push_back(tensor);
  }
  for (int w = 0; w < block::kWeightCount; ++w)
    if (weights_[w]) kernel.weights.push_back(static_cast<Weight>(w));
  kernel.body =
      header_comment() +
      fmt::format("// Reads {}; writes {}.\n", tensor_list(kernel.reads), tensor_list(kernel.writes)) +
      fmt::format("FT_KERNEL_ID(0x{}ull);\n\nFT_KERNEL({}, {}) {{\n", kernel.hash, kernel.symbol, threads()) +
      function;
  kernel.seq = problem_.seq;
  kernel.heads = problem_.heads;
  kernel.stages = static_cast<int>(phases.size());
  kernel.tasks = tasks_;
  kernel.shared_bytes = lower::shared_memory(program_, schedule_, problem_, target_);
  kernel.block_scratch_floats = spilled_floats_;
  kernel.split_tiles = split_tiles_;
  return kernel;
}

}  // namespace

GpuKernel generate_gpu(const plan::SegmentVariant& variant, const lower::GpuSchedule& schedule,
                       const block::Problem& problem, const lower::GpuTarget& target) {
  const lower::SegmentProgram program = lower::lower_segment(variant, schedule, problem, target);
  return GpuWriter(program, schedule, problem, target).generate();
}

}  // namespace fusetune::codegen
