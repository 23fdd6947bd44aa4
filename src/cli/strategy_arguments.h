// evaluate --strategies: strategies against each other on recorded plans, from the options to the answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/model_options.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/strategy_comparison.h"
#include "cli/training_source.h"

namespace fusetune::cli {

class StrategyArguments {
 public:
  /// --strategies, --replay, --trials, --repeats, --cost-model, --table, --chart
  void declare(Options& options);
  /// After options.parse(); --replay becomes the source. Throws base::UsageError.
  void check(const Options& options, const RowsOutput& output, TrainingArguments& source);
  bool wanted() const { return !names_.empty(); }
  int repeats() const { return repeats_; }
  /// Compares, prints and writes what was asked for; the exit code. Throws base::UsageError where the source
  /// has several problems, or not what a strategy needs that was asked for by name.
  int run(const TrainingSource& source, std::uint64_t seed, const RowsOutput& output) const;

 private:
  std::optional<RecordedKernels> kernels_for(const TrainingSource& source,
                                             std::vector<std::string>& strategies) const;
  int show(const StrategyComparison& comparison, const RecordedKernels* kernels, const TrainingSource& source,
           const RowsOutput& output) const;

  std::string names_, replay_, trials_ = "16,32,64,128", cost_model_ = kNoModel, table_ = "budgets", chart_;
  int repeats_ = 5;
  ComparisonOptions options_;
};

}  // namespace fusetune::cli
