// Where train and evaluate learn from: a file of masks and values, or recorded measurements.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/segment_source.h"
#include "model/training_set.h"

namespace fusetune::cli {

struct TrainingSource {
  model::TrainingSet set;
  std::string unit;                          // of the times; empty: whatever the file has
  std::string environment;                   // where they were measured; empty: nobody said
  std::string name;                          // of the file
  std::vector<plan::FusionPlan> plans = {};  // of the set's rows, in order
  // Which rows of a database they are; empty: it was a file of masks and values.
  std::string fingerprint = {}, cache_mode = {};
  std::vector<SegmentGroup> segments = {};  // of kernels: one a group of the set
};

/// Recorded rows of one environment and cache mode.
struct RecordedRows {
  store::Contents contents;
  std::string name;  // of the file
};

class TrainingArguments {
 public:
  /// --data, --db, --segments, --environment, --problem, --cache
  void declare(Options& options);
  /// Instead of --db.
  void set_database(const std::string& file) { database_ = file; }
  /// Neither --data nor --db was given.
  bool empty() const { return data_.empty() && database_.empty(); }
  /// Kernels are asked for, not plans.
  bool of_segments() const { return segments_; }
  /// Reads what was asked for and says on standard error what was left out. Throws base::UsageError: neither
  /// or both given, bad lines, of plans several environments and none chosen. Kernels of several are learned
  /// together.
  TrainingSource read() const;
  /// Kernels and plans that --db has, of one environment. Throws base::UsageError as read() does.
  RecordedRows rows() const;

 private:
  std::string data_, database_, environment_, problem_, cache_ = "model";
  bool segments_ = false;
};

/// The answer "too little to learn from", on standard error whether or not notes are wanted. Returns
/// kBadAnswer.
int say_too_little(const std::string& what);

}  // namespace fusetune::cli
