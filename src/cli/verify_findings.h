// What verify found: one line per kernel or plan as it comes, and rows for --json and --csv.
#pragma once

#include <string>

#include "cli/output.h"
#include "measure/session.h"
#include "plan/fusion_plan.h"
#include "report/table.h"

namespace fusetune::cli {

class Findings {
 public:
  /// `quiet`: no lines, as rows go to standard output.
  explicit Findings(bool quiet) : quiet_(quiet) {}

  /// `repeat`: the command that checks the same again, shown for failures.
  void add(const std::string& what, const std::string& schedule, const measure::CheckResult& check,
           const std::string& repeat);
  /// One that was not run.
  void add_failure(const std::string& what, const std::string& schedule, measure::Outcome outcome,
                   const std::string& message, const std::string& repeat);

  /// A schedule that cannot run, with the reason.
  void add_refusal(const plan::SegmentVariant& variant, const std::string& schedule,
                   const std::string& reason);

  /// Sums up and writes the rows; returns the exit code.
  int finish(const RowsOutput& output) const;

 private:
  bool quiet_;
  int count_ = 0, failed_ = 0, refused_ = 0;
  report::Table rows_{{{"kernel", "kernel"},
                       {"schedule", "schedule"},
                       {"outcome", "outcome"},
                       {"norm_error", "norm error"},
                       {"worst_error", "worst error"},
                       {"message", "message"},
                       {"repeat", "repeat"}}};
};

}  // namespace fusetune::cli
