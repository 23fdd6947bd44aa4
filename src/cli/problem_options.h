// The options that say what is computed: the same in every command.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "block/problem.h"
#include "cli/options.h"

namespace fusetune::cli {

class ProblemOptions {
 public:
  void declare(Options& options);
  /// Preset (default bert-base), overridden by --hf-model's config.json, overridden by explicit options;
  /// checked against limits and memory. Throws base::UsageError. Call after options.parse().
  block::Problem problem() const;
  /// File given by --weights or found beside --hf-model's config.json; empty: generated data.
  std::filesystem::path weights() const;
  int layer() const { return layer_; }
  /// The options given, as a command line that repeats the problem: " --preset bert-base --seq 64".
  std::string command_line() const;

 private:
  const Options* options_ = nullptr;
  std::string preset_ = "bert-base";
  std::int64_t batch_ = 1, seq_ = 128, heads_ = 0, head_size_ = 0, ffn_ = 0;
  int layers_ = 0, mask_id_ = -1, layer_ = 0;
  std::string mask_ = "full", dtype_ = "f32", gelu_ = "erf", data_ = "uniform", hf_model_, weights_;
  double eps_ = -1;
  std::uint64_t seed_ = 0;
};

/// "batch 1  seq 128  heads 12 x 64  ffn 3072  mask full  f32": a problem in one line for people.
std::string describe(const block::Problem& problem);

}  // namespace fusetune::cli
