// MASK… operands and --file, the same in every command that takes masks.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "plan/fusion_mask.h"

namespace fusetune::cli {

class MaskArguments {
 public:
  /// `with_file`: also --file FILE with one mask per line, or JSON (model/json_rows.h).
  void declare(Options& options, bool with_file);
  /// In the order given, operands first. Throws base::UsageError, naming file:line for a bad line.
  std::vector<plan::FusionMask> masks() const;
  /// masks(), but a usage error where there are none.
  std::vector<plan::FusionMask> at_least_one() const;

 private:
  std::vector<std::string> words_;
  std::string file_;
};

}  // namespace fusetune::cli
