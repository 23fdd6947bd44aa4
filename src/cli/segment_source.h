// Recorded kernels of several problems and environments, as the cost model of segments learns from them.
#pragma once

#include <string>
#include <vector>

#include "model/training_set.h"
#include "store/contents.h"

namespace fusetune::cli {

/// What a group of the training set is of: rows that have one of these in common are held out together.
struct SegmentGroup {
  std::string problem;      // block::Problem::key()
  std::string mask;         // of its words, "mask=causal"
  std::string size;         // of its words, "batch=2 seq=48 heads=4 ..."
  std::string environment;  // fingerprint
};

struct SegmentSource {
  model::TrainingSet set{model::Schema::segment};
  std::vector<SegmentGroup> groups;                    // one a group of the set
  std::vector<store::EnvironmentRecord> environments;  // that have rows in it
};

/// The set's group is a problem on an environment, its name "PROBLEM on FINGERPRINT" with the fingerprint's
/// first eight digits. A kernel is of class High where the recorded times of its group put it into the fast
/// class (search/fast_class.h). What is left out, and which environments the rows are from, is said on
/// standard error, `source` first.
SegmentSource segment_source(const store::Contents& contents, const std::string& source);

}  // namespace fusetune::cli
