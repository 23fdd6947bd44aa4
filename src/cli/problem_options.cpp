#include "cli/problem_options.h"

#include <fmt/core.h>

#include <array>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "block/data.h"

namespace fusetune::cli {
namespace {

/// The research code's numbering of patterns.
constexpr std::array<std::string_view, 3> kMaskIds = {"causal", "strided", "fixed"};

constexpr std::array<std::string_view, 17> kNames = {
    "--preset", "--hf-model", "--batch", "--seq",     "--heads", "--head-size",
    "--ffn",    "--layers",   "--mask",  "--mask-id", "--dtype", "--eps",
    "--gelu",   "--data",     "--seed",  "--weights", "--layer"};

std::string preset_names() {
  std::string names;
  for (const block::Preset& preset : block::presets())
    names += (names.empty() ? "" : "|") + std::string(preset.name);
  return names;
}

std::string pattern_names() {
  std::string names;
  for (const block::MaskPatternInfo& pattern : block::mask_patterns())
    names += (names.empty() ? "" : "|") + std::string(pattern.name);
  return names;
}

std::string pattern_table() {
  std::string text = "Mask patterns, query i, key j, sequence S; query i sees key j when:\n";
  for (const block::MaskPatternInfo& pattern : block::mask_patterns()) {
    text += fmt::format("  {}{}{}\n      {}\n", pattern.name, pattern.parameters.empty() ? "" : ":",
                        pattern.parameters, pattern.visible_when);
  }
  return text +
         "Any of them also takes causal (or causal=1), padding_avg=N, padding_lengths=a/b/..., seed=N. "
         "Of a file, file:FILE.npy will do.";
}

}  // namespace

void ProblemOptions::declare(Options& options) {
  options_ = &options;
  options.group("Problem");
  options.text("--preset", preset_, "NAME", "sizes by name: " + preset_names());
  options.text("--hf-model", hf_model_, "DIR",
               "sizes, eps and activation from config.json, weights beside it");
  options.integer("--batch", batch_, "N", "sequences", 1);
  options.integer("--seq", seq_, "N", "tokens of a sequence", 1);
  options.integer("--heads", heads_, "N", "attention heads; default: the preset's", 1);
  options.integer("--head-size", head_size_, "N", "size of a head; default: the preset's", 1);
  options.integer("--ffn", ffn_, "N",
                  "inner feed-forward size; default: the preset's, 4 x hidden for own sizes", 1);
  options.integer("--layers", layers_, "N", "layers of the model around the block; default: the preset's", 1);
  options.text("--mask", mask_, "PATTERN[:key=value,...]",
               "attention mask: " + pattern_names() + "; see below");
  options.footnote(pattern_table());
  options.integer("--mask-id", mask_id_, "ID", "instead of --mask: 0 causal, 1 strided, 2 fixed", 0, 2);
  options.choice("--dtype", dtype_, {"f32", "f16", "bf16"}, "of tensors and weights");
  options.number("--eps", eps_, "X", "LayerNorm's epsilon; default: the preset's");
  options.choice("--gelu", gelu_, {"erf", "tanh"}, "form of GELU");
  options.choice("--data", data_, {"uniform", "scaled"}, "distribution of generated data");
  options.unsigned_integer("--seed", seed_, "N", "of generated data");
  options.text("--weights", weights_, "FILE",
               "weights from a .safetensors file with Hugging Face BERT names");
  options.integer("--layer", layer_, "N", "layer of --weights or --hf-model");
  options.group("");
}

block::Problem ProblemOptions::problem() const {
  if (options_->given("--mask") && options_->given("--mask-id"))
    throw base::UsageError("--mask and --mask-id both choose the attention mask: give one of them");
  std::error_code unreadable;  // whatever else is wrong with it, reading it will say
  if (!weights_.empty() && !std::filesystem::exists(weights_, unreadable) && !unreadable)
    throw base::EnvironmentError(
        fmt::format("cannot read the weights '{}': there is no such file", weights_));
  if (options_->given("--preset") && options_->given("--hf-model"))
    throw base::UsageError("--preset and --hf-model both choose the sizes: give one of them");
  if (options_->given("--layer") && weights_.empty() && hf_model_.empty())
    throw base::UsageError("--layer goes with --weights or --hf-model");
  const block::Preset& preset = block::find_preset(preset_);
  block::Problem problem;
  problem.heads = preset.heads;
  problem.head_size = preset.head_size;
  problem.ffn = preset.ffn;
  problem.layers = preset.layers;
  problem.eps = preset.eps;
  problem.gelu = block::parse_gelu(gelu_);
  if (!hf_model_.empty()) block::apply_hf_config(hf_model_, problem);

  const bool own_sizes = heads_ > 0 || head_size_ > 0;
  if (heads_ > 0) problem.heads = heads_;
  if (head_size_ > 0) problem.head_size = head_size_;
  if (ffn_ > 0) {
    problem.ffn = ffn_;
  } else if (own_sizes) {
    if (__builtin_mul_overflow(problem.heads, problem.head_size, &problem.ffn) ||
        __builtin_mul_overflow(problem.ffn, 4, &problem.ffn))
      throw base::UsageError("--heads x --head-size is too large");
  }
  if (layers_ > 0) problem.layers = layers_;
  if (eps_ >= 0) problem.eps = eps_;
  if (options_->given("--gelu")) problem.gelu = block::parse_gelu(gelu_);

  problem.batch = batch_;
  problem.seq = seq_;
  problem.mask =
      block::MaskSpec::parse(options_->given("--mask-id") ? kMaskIds.at(mask_id_) : std::string_view(mask_));
  problem.dtype = block::parse_dtype(dtype_);
  problem.data = block::parse_data_mode(data_);
  problem.seed = seed_;
  problem.check();
  return problem;
}

std::filesystem::path ProblemOptions::weights() const {
  if (!weights_.empty()) return weights_;
  if (!hf_model_.empty()) {
    std::filesystem::path beside = std::filesystem::path(hf_model_) / "model.safetensors";
    if (std::filesystem::exists(beside)) return beside;
    base::note(fmt::format("note: there is no {}: weights are generated", beside.string()));
  }
  return {};
}

std::string ProblemOptions::command_line() const { return options_->command_line(kNames); }

std::string describe(const block::Problem& problem) {
  return fmt::format("batch {}  seq {}  heads {} x {}  ffn {}  mask {}  {}", problem.batch, problem.seq,
                     problem.heads, problem.head_size, problem.ffn, problem.mask.to_string(),
                     block::name(problem.dtype));
}

}  // namespace fusetune::cli
