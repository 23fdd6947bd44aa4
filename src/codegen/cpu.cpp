// Generates one C++ function for a segment: a stub that instantiates the building blocks under kernels/cpu.
//
// Reading guide: generate_cpu() at the end; CpuKernel holds the text while it grows; one emit_* function a
// phase kind (columns, heads, rows, bridge), each a walk over the operators it may hold.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "base/integer.h"
#include "block/operators.h"
#include "codegen/code_writer.h"
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
using lower::Phase;
using lower::PhaseKind;
using lower::Placement;

constexpr std::string_view kBlocks[] = {"cpu/abi.h",  "cpu/vector.h", "ops/math.h", "cpu/partition.h",
                                        "cpu/gemm.h", "cpu/stores.h", "cpu/rows.h", "cpu/attention.h"};

using base::round_up;

/// An operand in generated code: where row 0 of the current row block is, and the distance of its rows.
struct Operand {
  std::string data;
  std::string ld;
  std::string rows() const { return fmt::format("{{{}, {}, rows}}", data, ld); }
};

class CpuKernel {
 public:
  CpuKernel(const lower::SegmentProgram& program, const lower::Schedule& schedule,
            const block::Problem& problem, int lanes)
      : program_(program), problem_(problem), schedule_(schedule), lanes_(lanes) {}

  KernelSource generate();

 private:
  // --- names and sizes ------------------------------------------------------------------------------
  int panel() const { return schedule_.tile_columns; }
  int head_panel() const { return 2 * lanes_; }
  // Rows of blocks in scratch are padded by a cache line: equally long rows would meet in the same L1 sets.
  std::int64_t hidden_ld() const { return round_up(problem_.hidden(), panel()) + 16; }
  std::int64_t ffn_chunk() const { return schedule_.ffn_chunk ? schedule_.ffn_chunk : problem_.ffn; }
  std::int64_t act_ld() const { return round_up(ffn_chunk(), panel()) + 16; }
  std::int64_t query_ld() const { return round_up(problem_.head_size, lanes_); }
  std::int64_t qkv_head_ld() const { return 3 * round_up(problem_.head_size, panel()) + 16; }
  Operand hidden_block(const std::string& name) const { return {name, fmt::to_string(hidden_ld())}; }
  /// All panels of a weight with `columns` columns, as a Range.
  std::string all_panels(std::string_view columns) const {
    return fmt::format("{{0, round_up({}, {}) / {}}}", columns, panel(), panel());
  }
  std::int64_t block_rows() const { return round_up(schedule_.row_block, schedule_.tile_rows); }
  std::string tile_arguments() const { return fmt::format("{}, {}", schedule_.tile_rows, panel() / lanes_); }
  std::string use(Tensor tensor) {
    tensors_[static_cast<std::size_t>(tensor)] = true;
    return std::string(block::name(tensor));
  }
  std::string use(Weight weight, int group = 0) {
    layouts_[static_cast<std::size_t>(weight)] = PanelLayout{panel(), group};
    return std::string(block::name(weight));
  }
  std::string use(Parameter parameter) {
    parameters_[static_cast<std::size_t>(parameter)] = true;
    return std::string(block::name(parameter));
  }
  /// Scratch of the running phase: a pointer of that name to `floats` floats.
  std::string scratch(const std::string& name, std::int64_t floats);
  bool in_memory(Tensor tensor) const { return program_.in_memory(tensor); }
  std::string gelu() const { return problem_.gelu == block::Gelu::erf ? "GeluErf" : "GeluTanh"; }

  /// Row `row` of a [B,S,columns] tensor.
  Operand token_rows(Tensor tensor, const std::string& columns) {
    return {fmt::format("{} + row * {}", use(tensor), columns), columns};
  }

  // --- phases ---------------------------------------------------------------------------------------
  void emit_phase(const Phase& phase);
  void emit_columns(const Phase& phase);
  void emit_heads(const Phase& phase);
  void emit_rows(const Phase& phase);
  void emit_bridge(const Phase& phase);

  // --- parts of phases ------------------------------------------------------------------------------
  void reserve_heads(const Phase& phase);
  void reserve_rows(const Phase& phase);
  void emit_head_sources(const Phase& phase);
  void emit_head_packing(const Phase& phase);
  void emit_scaled_query();
  void emit_query_block(const Phase& phase, const Operand& merged);
  void emit_generated_attention(const Phase& phase, const Operand& out);
  void emit_row_operators(const Phase& phase, Operand merged);
  Operand emit_attention_output(const Phase& phase, Operand merged);
  void emit_ffn(const Phase& phase, const Operand& norm1);
  void emit_ffn_whole(const Phase& phase, const Operand& norm1);
  void emit_second_norm(const Phase& phase, const Operand& down, const Operand& norm1);
  void emit_layernorm(const Operand& in, const Operand& out, Parameter gamma, Parameter beta);
  std::string store_of(int gemm, bool with_next, const Operand& out);
  Operand gemm_input(int gemm);
  std::string header_comment() const;
  std::string constants() const;
  std::string pointers() const;

  const lower::SegmentProgram& program_;
  const block::Problem& problem_;
  const lower::Schedule& schedule_;
  int lanes_;
  CodeWriter code_{1};
  std::array<bool, block::kTensorCount> tensors_{};
  std::array<bool, block::kParameterCount> parameters_{};
  std::array<std::optional<PanelLayout>, block::kWeightCount> layouts_{};
  std::int64_t scratch_used_ = 0, scratch_floats_ = 0;
};

std::string CpuKernel::scratch(const std::string& name, std::int64_t floats) {
  code_.line("float* const {} = scratch + {};", name, scratch_used_);
  // Whole cache lines, and one more so that equally long buffers do not start at the same L1 set.
  scratch_used_ += round_up(floats, 16) + 16;
  scratch_floats_ = std::max(scratch_floats_, scratch_used_);
  return name;
}

// ------------------------------------------------------------------------------------------- columns

Operand CpuKernel::gemm_input(int gemm) {
  const Product g = product_of(gemm);
  return token_rows(g.input, std::string(g.k));
}

/// The store functor of a GEMM, with the element-wise operator behind it where `with_next`.
std::string CpuKernel::store_of(int gemm, bool with_next, const Operand& out) {
  if (!with_next) return fmt::format("Store{{{}, {}}}", out.data, out.ld);
  switch (gemm) {
    case 0:
      return fmt::format("StoreBiasHeads{{{{{}, {}, {}}}, {}, row, S, H, W}}", use(Tensor::q), use(Tensor::k),
                         use(Tensor::v), use(Parameter::b_qkv));
    case 7:
      return fmt::format("StoreBiasResidual{{{}, {}, {}, {} + row * D, D}}", out.data, out.ld,
                         use(Parameter::b_out), use(Tensor::hidden));
    case 10:
      return fmt::format("StoreBiasActivation<{}>{{{}, {}, {}, 0}}", gelu(), out.data, out.ld,
                         use(Parameter::b_ffn1));
    default:
      return fmt::format("StoreBiasResidual{{{}, {}, {}, {} + row * D, D}}", out.data, out.ld,
                         use(Parameter::b_ffn2), use(Tensor::norm1));
  }
}

void CpuKernel::emit_columns(const Phase& phase) {
  const Product g = product_of(phase.first);
  const bool with_next = phase.last > phase.first;
  const std::string tile = scratch("tile", block_rows() * panel() + lanes_);
  code_.line("const GemmPart part = gemm_part(M, round_up({}, {}) / {}, thread, threads);", g.n, panel(),
             panel());
  code_.open("for_row_blocks(part.rows, {}, {}, [&](long row, long rows)", schedule_.row_block,
             schedule_.tile_rows);
  const Operand in = gemm_input(phase.first);
  const Operand out = phase.first == 0 && with_next
                          ? Operand{}
                          : token_rows(with_next ? g.output_with_next : g.output, fmt::format("({})", g.n));
  code_.line("gemm_to_store<{}>({}, {{{}, {}, 0, {}}}, part.panels, {}, {}, {},", tile_arguments(), in.rows(),
             use(g.weight), g.k, g.k, g.n, schedule_.k_chunk, tile);
  code_.line("    {});", store_of(phase.first, with_next, out));
  code_.close(");");
}

// --------------------------------------------------------------------------------------------- heads

/// Where this head's q, k, v rows come from: computed here (operator 0), qkv with bias (1), or q, k, v.
void CpuKernel::emit_head_sources(const Phase& phase) {
  if (phase.first == 0) {
    const int width = static_cast<int>(round_up(problem_.head_size, panel()));
    code_.line("// 0 qkv_gemm for this head: {} columns of each of q, k, v", width);
    code_.open("for_row_blocks({{0, S}}, {}, {}, [&](long s, long rows)", schedule_.row_block,
               schedule_.tile_rows);
    code_.open("for (long part = 0; part < 3; ++part)");
    code_.line("const long panel = (part * H + h) * {};", width / panel());
    code_.line(
        "gemm_to_block<{}>({{{} + (b * S + s) * D, D, rows}}, {{{}, D, 0, D}}, {{panel, panel + {}}}, {},",
        tile_arguments(), use(Tensor::hidden), use(Weight::w_qkv, static_cast<int>(problem_.head_size)),
        width / panel(), schedule_.k_chunk);
    code_.line("    qkv_head + s * {} + part * {}, {}, false);", qkv_head_ld(), width, qkv_head_ld());
    code_.close();
    code_.close(");");
    const std::string bias = use(Parameter::b_qkv);
    for (int part = 0; part < 3; ++part)
      code_.line("const HeadRows {}_rows = {{qkv_head + {}, {}, {} + {} * D + h * W}};", "qkv"[part],
                 part * width, qkv_head_ld(), bias, part);
  } else if (phase.first == 1) {
    const std::string qkv = use(Tensor::qkv), bias = use(Parameter::b_qkv);
    for (int part = 0; part < 3; ++part)
      code_.line(
          "const HeadRows {}_rows = {{{} + b * S * 3 * D + {} * D + h * W, 3 * D, {} + {} * D + h * W}};",
          "qkv"[part], qkv, part, bias, part);
  } else {
    const bool needs_qk = phase.first == 2, needs_v = phase.last >= 5;
    for (const auto& [tensor, needed] :
         {std::pair{Tensor::q, needs_qk}, {Tensor::k, needs_qk}, {Tensor::v, needs_v}})
      if (needed) code_.line("const HeadRows {0}_rows = {{{0} + head * S * W, W, nullptr}};", use(tensor));
  }
}

void CpuKernel::emit_head_packing(const Phase& phase) {
  const bool runs_bias = phase.first <= 1 && phase.last >= 1;
  if (runs_bias)
    for (const Tensor tensor : {Tensor::q, Tensor::k, Tensor::v})
      if (in_memory(tensor))
        code_.line(
            "copy_head_rows({0}_rows, queries.begin, queries.end - queries.begin, W, 1.0f,\n"
            "                   {0} + (head * S + queries.begin) * W, W);",
            use(tensor));
  if (phase.first <= 2 && phase.last >= 2) code_.line("pack_keys(k_rows, used, S, W, packed_keys);");
  if (phase.first <= 5 && phase.last >= 5) code_.line("pack_values(v_rows, used, S, W, packed_values);");
}

void CpuKernel::emit_scaled_query() {
  code_.line("copy_head_rows(q_rows, s, rows, W, {}, q_block, {});  // scaled by 1/sqrt(W)",
             float_literal(1.0 / std::sqrt(static_cast<double>(problem_.head_size))), query_ld());
}

/// Operators 2..5 with whole score rows in a block; `out` is where operator 5's (or 6's) rows go.
void CpuKernel::emit_generated_attention(const Phase& phase, const Operand& out) {
  const std::int64_t ld = round_up(problem_.seq, head_panel()) + 16;
  const std::string block = fmt::format("score_block, {}", ld);
  const auto memory = [&](Tensor tensor) { return fmt::format("{} + (head * S + s) * S", use(tensor)); };
  const auto load = [&](Tensor tensor) {
    code_.line("load_score_rows({}, rows, S, {});", memory(tensor), block);
  };
  const auto save = [&](Tensor tensor) {
    code_.line("copy_rows({}, rows, S, {}, S);", block, memory(tensor));
  };
  const bool runs_context = phase.last >= 5;
  if (phase.first <= 2) {
    emit_scaled_query();
    code_.line("head_scores({{q_block, {}, rows}}, packed_keys, W, 0, round_up(S, kHeadPanel), {});",
               query_ld(), block);
    if (phase.last == 2) save(Tensor::scores);
  }
  if (phase.first <= 3 && phase.last >= 3) {
    if (phase.first == 3) load(Tensor::scores);
    code_.line("mask_rows(args->mask, b, s, rows, S, {});", block);
    if (phase.last == 3) save(Tensor::masked_scores);
  }
  if (phase.first <= 4 && phase.last >= 4) {
    if (phase.first == 4) load(Tensor::masked_scores);
    code_.line("softmax_rows({}, rows, S, {});", block, runs_context ? "row_sums" : "nullptr");
    if (phase.last == 4) save(Tensor::probs);
  }
  if (!runs_context) return;
  const std::int64_t context_ld = round_up(problem_.head_size, head_panel());
  const std::string probs = phase.first == 5 ? fmt::format("{{{}, S, rows}}", memory(Tensor::probs))
                                             : fmt::format("{{{}, rows}}", block);
  code_.line("head_context({}, packed_values, S, W, 0, S, context_block, {}, false);", probs, context_ld);
  code_.line("normalise_rows(context_block, {}, rows, W, {}, {}, {});", context_ld,
             phase.first == 5 ? "nullptr" : "row_sums", out.data, out.ld);
}

/// Body of the loop over query blocks: queries [s, s + rows) of head `head` = (b, h).
void CpuKernel::emit_query_block(const Phase& phase, const Operand& merged) {
  if (!program_.variant.hand_written) {
    const bool merges = phase.last >= 6;
    const Operand context = merges || phase.last < 5
                                ? merged
                                : Operand{fmt::format("{} + (head * S + s) * W", use(Tensor::context)), "W"};
    emit_generated_attention(phase, context);
    return;
  }
  emit_scaled_query();
  code_.line(
      "online_attention(args->mask, b, s, {{q_block, {}, rows}}, packed_keys, packed_values, S, W, {},",
      query_ld(), schedule_.key_tiles);
  code_.line("                 {{score_block, context_block, row_peaks, row_sums}}, {}, {});", merged.data,
             merged.ld);
}

/// Scratch of a phase that runs operators per head.
void CpuKernel::reserve_heads(const Phase& phase) {
  const std::int64_t w_panels = round_up(problem_.head_size, head_panel());
  const std::int64_t query = schedule_.query_rows;
  if (phase.first == 0) scratch("qkv_head", problem_.seq * qkv_head_ld() + panel());
  if (phase.contains(2)) {
    scratch("packed_keys", round_up(problem_.seq, head_panel()) * problem_.head_size);
    scratch("q_block", query * query_ld());
  }
  if (phase.contains(5)) scratch("packed_values", problem_.seq * w_panels);
  if (phase.last >= 2) {
    const std::int64_t columns = program_.variant.hand_written && phase.contains(2) && phase.contains(5)
                                     ? schedule_.key_tiles * 64
                                     : round_up(problem_.seq, head_panel());
    if (phase.first <= 4) scratch("score_block", query * (columns + 16));
    if (phase.contains(5)) {
      scratch("context_block", query * w_panels);
      if (program_.variant.hand_written) scratch("row_peaks", query);
      if (phase.first <= 4) scratch("row_sums", query);
    }
  }
}

void CpuKernel::emit_heads(const Phase& phase) {
  const int query = schedule_.query_rows;
  reserve_heads(phase);
  // Splitting a head repeats its packing (cheap), but would repeat its whole QKV product.
  code_.line("const HeadTasks tasks = head_tasks(args->batch * H, (S + {}) / {}, {}, thread, threads);",
             query - 1, query, phase.first == 0 ? "false" : "true");
  code_.open("for (long t = tasks.begin; t < tasks.end; ++t)");
  code_.line("const long head = t / tasks.splits;");
  if (phase.first != 4 || phase.last >= 5) code_.line("const long b = head / H;");
  if (phase.first <= 1 || phase.last >= 6) code_.line("const long h = head % H;");
  code_.line("const Range queries = part_of(S, t % tasks.splits, tasks.splits, {});", query);
  if (phase.contains(2) || phase.contains(5))
    code_.line("const unsigned char* used = keys_used(args->mask, b, S);");
  emit_head_sources(phase);
  emit_head_packing(phase);
  if (phase.last >= 2) {
    code_.open("for (long s = queries.begin; s < queries.end; s += {})", query);
    code_.line("const long rows = min({}, queries.end - s);", query);
    const Operand merged =
        phase.last >= 6 ? Operand{fmt::format("{} + (b * S + s) * D + h * W", use(Tensor::merged)), "D"}
                        : Operand{};
    emit_query_block(phase, merged);
    code_.close();
  }
  code_.close();
}

// ---------------------------------------------------------------------------------------------- rows

void CpuKernel::emit_layernorm(const Operand& in, const Operand& out, Parameter gamma, Parameter beta) {
  code_.line("layernorm_rows({}, D, {}, {}, eps, {}, {});", in.rows(), use(gamma), use(beta), out.data,
             out.ld);
}

/// Operators 6..9: returns where norm1's rows are, if operator 9 or a later one runs in this phase.
Operand CpuKernel::emit_attention_output(const Phase& phase, Operand merged) {
  if (phase.contains(6) && phase.kind == PhaseKind::rows) {
    merged = phase.last == 6 ? token_rows(Tensor::merged, "D") : hidden_block("merged_block");
    code_.line("merge_heads_rows({}, S, H, W, row, rows, {}, {});", use(Tensor::context), merged.data,
               merged.ld);
  }
  Operand sum = hidden_block("sum_block");
  if (phase.contains(7)) {
    if (!phase.contains(6)) merged = token_rows(Tensor::merged, "D");
    const std::string call =
        fmt::format("{}, {{{}, D, 0, D}}, {}", merged.rows(), use(Weight::w_out), all_panels("D"));
    if (phase.last >= 9) {
      code_.line("gemm_to_block<{}>({}, {}, {}, {}, false);", tile_arguments(), call, schedule_.k_chunk,
                 sum.data, sum.ld);
      code_.line("bias_residual_rows({}, {}, {}, D, {}, {});", sum.rows(), use(Parameter::b_out),
                 token_rows(Tensor::hidden, "D").rows(), sum.data, sum.ld);
    } else {
      const Operand out = token_rows(phase.last == 7 ? Tensor::attn_proj : Tensor::attn_sum, "D");
      code_.line("gemm_to_store<{}>({}, D, {}, tile,", tile_arguments(), call, schedule_.k_chunk);
      code_.line("    {});", store_of(7, phase.last == 8, out));
    }
  } else if (phase.contains(8)) {
    if (phase.last == 8) sum = token_rows(Tensor::attn_sum, "D");
    code_.line("bias_residual_rows({}, {}, {}, D, {}, {});", token_rows(Tensor::attn_proj, "D").rows(),
               use(Parameter::b_out), token_rows(Tensor::hidden, "D").rows(), sum.data, sum.ld);
  } else if (phase.contains(9)) {
    sum = token_rows(Tensor::attn_sum, "D");
  }
  if (!phase.contains(9)) return phase.last >= 10 ? token_rows(Tensor::norm1, "D") : Operand{};
  // On chip it takes the place of the sum: one block less in L2.
  Operand norm1 = in_memory(Tensor::norm1) ? token_rows(Tensor::norm1, "D")
                  : phase.first == 9       ? hidden_block("norm1_block")
                                           : sum;
  emit_layernorm(sum, norm1, Parameter::gamma1, Parameter::beta1);
  return norm1;
}

/// FFN operators of which at least 10 and 11, or 11 and 12, or 12 and 13 run here; ends before operator 14.
void CpuKernel::emit_ffn_whole(const Phase& phase, const Operand& norm1) {
  const std::string whole = all_panels("D");
  if (phase.last <= 11) {  // activations go to memory
    const Operand out = token_rows(phase.last == 10 ? Tensor::ffn_up : Tensor::ffn_act, "F");
    if (phase.contains(10)) {
      code_.line("gemm_to_store<{}>({}, {{{}, D, 0, D}}, {}, F, {}, tile,", tile_arguments(), norm1.rows(),
                 use(Weight::w_ffn1), all_panels("F"), schedule_.k_chunk);
      code_.line("    {});", store_of(10, phase.last == 11, out));
    } else {
      code_.line("bias_activation_rows<{}>({}, {}, F, {}, {});", gelu(),
                 token_rows(Tensor::ffn_up, "F").rows(), use(Parameter::b_ffn1), out.data, out.ld);
    }
    return;
  }
  if (phase.first == 12) {
    code_.line("gemm_to_block<{}>({}, {{{}, F, 0, F}}, {}, {}, down_block, {}, false);", tile_arguments(),
               token_rows(Tensor::ffn_act, "F").rows(), use(Weight::w_ffn2), whole, schedule_.k_chunk,
               hidden_ld());
    return;
  }
  code_.open("for (long f = 0; f < F; f += {})", ffn_chunk());
  code_.line("const long columns = min({}, F - f);", ffn_chunk());
  if (phase.contains(10)) {
    code_.line("gemm_to_store<{}>({}, {{{}, D, 0, D}}, {{f / {}, (f + columns + {}) / {}}}, F, {}, tile,",
               tile_arguments(), norm1.rows(), use(Weight::w_ffn1), panel(), panel() - 1, panel(),
               schedule_.k_chunk);
    code_.line("    StoreBiasActivation<{}>{{act_block, {}, {}, f}});", gelu(), act_ld(),
               use(Parameter::b_ffn1));
  } else {
    code_.line("bias_activation_rows<{}>({{{} + row * F + f, F, rows}}, {} + f, columns, act_block, {});",
               gelu(), use(Tensor::ffn_up), use(Parameter::b_ffn1), act_ld());
  }
  code_.line(
      "gemm_to_block<{}>({{act_block, {}, rows}}, {{{}, F, f, columns}}, {}, {}, down_block, {}, f > 0);",
      tile_arguments(), act_ld(), use(Weight::w_ffn2), whole, schedule_.k_chunk, hidden_ld());
  code_.close();
}

void CpuKernel::emit_second_norm(const Phase& phase, const Operand& down, const Operand& norm1) {
  Operand sum = down;
  if (phase.contains(13)) {
    if (phase.last == 13)
      sum = token_rows(Tensor::ffn_sum, "D");
    else if (phase.first == 13)
      sum = hidden_block("sum_block");
    code_.line("bias_residual_rows({}, {}, {}, D, {}, {});", down.rows(), use(Parameter::b_ffn2),
               norm1.rows(), sum.data, sum.ld);
  }
  if (!phase.contains(14)) return;
  if (phase.first == 14) sum = token_rows(Tensor::ffn_sum, "D");
  const Operand out = token_rows(Tensor::output, "D");
  emit_layernorm(sum, out, Parameter::gamma2, Parameter::beta2);
  code_.line("zero_padded_rows(args->mask, S, row, rows, D, {}, D);", out.data);
}

void CpuKernel::emit_ffn(const Phase& phase, const Operand& norm1) {
  if (phase.first <= 12) emit_ffn_whole(phase, norm1);
  if (phase.last < 12) return;
  const Operand down = phase.first == 13 || phase.first == 14
                           ? token_rows(phase.first == 13 ? Tensor::ffn_down : Tensor::ffn_sum, "D")
                           : hidden_block("down_block");
  if (phase.last == 12) {
    const Operand out = token_rows(Tensor::ffn_down, "D");
    code_.line("copy_rows({}, {}, rows, D, {}, {});", down.data, down.ld, out.data, out.ld);
    return;
  }
  emit_second_norm(phase, down, norm1);
}

/// Operators 6..14 of one row block: rows [row, row + rows) of all tokens.
void CpuKernel::emit_row_operators(const Phase& phase, Operand merged) {
  Operand norm1;
  if (phase.first <= 9) norm1 = emit_attention_output(phase, std::move(merged));
  if (phase.last >= 10) {
    const bool reads_norm1 =
        phase.first == 10 || (phase.first >= 11 && phase.first <= 13 && phase.last >= 13);
    if (reads_norm1) norm1 = token_rows(Tensor::norm1, "D");
    emit_ffn(phase, norm1);
  }
}

/// Scratch of a phase that runs operators per row block.
void CpuKernel::reserve_rows(const Phase& phase) {
  const std::int64_t rows = block_rows(), d = hidden_ld();
  const bool merges_on_load = phase.contains(6) && (phase.last > 6 || phase.kind == PhaseKind::bridge);
  if (merges_on_load) scratch("merged_block", rows * d);
  if (phase.last >= 9 && phase.first <= 8) scratch("sum_block", rows * d);
  if (phase.first == 13 && phase.last == 14) scratch("sum_block", rows * d);
  if (phase.first == 9 && phase.last >= 10 && !in_memory(Tensor::norm1)) scratch("norm1_block", rows * d);
  if (phase.first <= 12 && phase.last >= 12) {
    scratch("down_block", rows * d);
    if (phase.first <= 11) scratch("act_block", rows * act_ld());
  }
  const bool stores_panels = (phase.contains(7) && phase.last <= 8) || phase.contains(10);
  if (stores_panels) scratch("tile", rows * panel() + lanes_);
}

void CpuKernel::emit_rows(const Phase& phase) {
  reserve_rows(phase);
  code_.open("for_row_blocks(part_of(M, thread, threads, 4), {}, {}, [&](long row, long rows)",
             schedule_.row_block, schedule_.tile_rows);
  emit_row_operators(phase, {});
  code_.close(");");
}

// -------------------------------------------------------------------------------------------- bridge

void CpuKernel::emit_bridge(const Phase& phase) {
  const int query = schedule_.query_rows;
  reserve_heads(phase);
  reserve_rows(phase);
  // Row blocks start at multiples of the query block, so that none crosses a mask tile row.
  const std::int64_t step = round_up(schedule_.row_block, query);
  code_.line("const long blocks = (S + {}) / {};  // row blocks of one batch entry", step - 1, step);
  code_.line("const Range mine = part_of(args->batch * blocks, thread, threads, 1);");
  code_.open("for (long t = mine.begin; t < mine.end; ++t)");
  code_.line("const long b = t / blocks;");
  code_.line("const Range queries = {{t % blocks * {}, min(t % blocks * {} + {}, S)}};", step, step, step);
  code_.line("const unsigned char* used = keys_used(args->mask, b, S);");
  code_.open("for (long h = 0; h < H; ++h)");
  if (phase.first >= 2) code_.line("const long head = b * H + h;");
  emit_head_sources(phase);
  emit_head_packing(phase);
  code_.open("for (long s = queries.begin; s < queries.end; s += {})", query);
  code_.line("const long rows = min({}, queries.end - s);", query);
  emit_query_block(phase, {fmt::format("merged_block + (s - queries.begin) * {} + h * W", hidden_ld()),
                           fmt::to_string(hidden_ld())});
  code_.close();
  code_.close();
  code_.line("const long row = b * S + queries.begin, rows = queries.end - queries.begin;");
  emit_row_operators(phase, hidden_block("merged_block"));
  code_.close();
}

// ------------------------------------------------------------------------------------- whole kernels

void CpuKernel::emit_phase(const Phase& phase) {
  scratch_used_ = 0;
  code_.open_comment("{}: {}", name(phase.kind), operator_list(phase.first, phase.last));
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
      emit_bridge(phase);
      break;
  }
  code_.close();
}

std::string CpuKernel::header_comment() const {
  const auto& v = program_.variant;
  std::string text = fmt::format("// Segment {} of an encoder block: operators {}.\n", v.to_string(),
                                 operator_list(v.segment.first, v.segment.last));
  text += problem_line(problem_);
  text += fmt::format("// Schedule: {}\n//\n", schedule_.to_string());
  for (std::size_t i = 0; i < program_.phases.size(); ++i) {
    const Phase& phase = program_.phases[i];
    std::string chain;
    for (int op = phase.first; op <= phase.last; ++op)
      chain += fmt::format("{}{}", op > phase.first ? " - " : "", block::name(static_cast<Operator>(op)));
    text += fmt::format("//   {} {:<8}{}\n", i == 0 ? "      " : "barrier", name(phase.kind), chain);
  }
  return text;
}

std::string CpuKernel::constants() const {
  return fmt::format(
      "  [[maybe_unused]] constexpr long S = {}, H = {}, W = {}, D = {}, F = {};\n  [[maybe_unused]] "
      "constexpr float eps = {};\n",
      problem_.seq, problem_.heads, problem_.head_size, problem_.hidden(), problem_.ffn,
      float_literal(problem_.eps));
}

std::string CpuKernel::pointers() const {
  std::string text =
      "  [[maybe_unused]] const long M = args->batch * S;\n"
      "  [[maybe_unused]] float* const scratch =\n      reinterpret_cast<float*>(args->scratch + thread * "
      "args->scratch_stride);\n";
  for (int t = 0; t < block::kTensorCount; ++t)
    if (tensors_[t])
      text += fmt::format("  {0}* const {1} = static_cast<{0}*>(args->tensor[{2}]);\n",
                          program_.variant.segment.contains(block::producer(static_cast<Tensor>(t)))
                              ? "float"
                              : "const float",
                          block::name(static_cast<Tensor>(t)), t);
  for (int w = 0; w < block::kWeightCount; ++w)
    if (const auto& layout = layouts_[w])
      text += fmt::format("  const float* const {} = static_cast<const float*>(args->weight[{}]);  // {}\n",
                          block::name(static_cast<Weight>(w)), w, layout->to_string());
  for (int p = 0; p < block::kParameterCount; ++p)
    if (parameters_[p])
      text += fmt::format("  const float* const {} = args->parameter[{}];\n",
                          block::name(static_cast<Parameter>(p)), p);
  return text;
}

KernelSource CpuKernel::generate() {
  for (std::size_t i = 0; i < program_.phases.size(); ++i) {
    if (i > 0) code_.line("ft_barrier_wait(barrier, threads);");
    emit_phase(program_.phases[i]);
  }
  KernelSource kernel;
  kernel.variant = program_.variant;
  kernel.schedule = schedule_;
  kernel.lanes = lanes_;
  kernel.includes.assign(std::begin(kBlocks), std::end(kBlocks));
  const std::string function = "  using namespace ft;\n" + constants() + pointers() + code_.text() + "}\n";
  base::Hasher hasher;
  for (const std::string& path : kernel.includes) hasher.add(building_block(path));
  kernel.hash = hasher.add(function).add(static_cast<std::uint64_t>(lanes_)).hex();
  kernel.symbol =
      fmt::format("ft_segment_{}_{}{}_{}", program_.variant.segment.first, program_.variant.segment.last,
                  program_.variant.hand_written ? "_attention" : "", kernel.hash.substr(0, 12));
  kernel.body = header_comment() +
                fmt::format(
                    "extern \"C\" void {}(const ft_args* args, int thread, int threads,\n"
                    "    [[maybe_unused]] ft_barrier* barrier) {{\n",
                    kernel.symbol) +
                function;
  kernel.layouts = layouts_;
  kernel.reads = program_.live_in;
  for (int t = 0; t < block::kTensorCount; ++t) {
    const auto tensor = static_cast<Tensor>(t);
    if (!program_.variant.segment.contains(block::producer(tensor))) continue;
    const Placement placement = program_.placement(tensor);
    if (placement == Placement::live_out) kernel.writes.push_back(tensor);
    if (placement == Placement::workspace) kernel.workspace.push_back(tensor);
  }
  kernel.scratch_bytes = scratch_floats_ * 4;
  return kernel;
}

}  // namespace

KernelSource generate_cpu(const plan::SegmentVariant& variant, const lower::Schedule& schedule,
                          const block::Problem& problem, const lower::CpuTarget& target) {
  const lower::SegmentProgram program = lower::lower_segment(variant, schedule, problem, target);
  return CpuKernel(program, schedule, problem, lower::vector_lanes(target.isa)).generate();
}

}  // namespace fusetune::codegen
