// The times that the same problem's kernels had on another device, as a prior.
#pragma once

#include <map>
#include <span>
#include <string>

#include "search/replay.h"
#include "search/segment_prior.h"

namespace fusetune::search {

/// A kernel takes what it took there; one that was not timed there, perhaps as that device's schedules are
/// others, what its variant's fastest took.
class RecordedPrior : public SegmentPrior {
 public:
  /// Schedules are of the target's kind.
  RecordedPrior(std::string name, std::span<const Recording> recordings, const lower::Target& target);
  std::string_view kind() const override { return "records"; }
  std::string name() const override { return name_; }
  std::vector<double> predict_us(std::span<const Candidate> candidates) const override;

 private:
  std::string name_;
  std::map<Candidate, double> times_;
  Incumbents fastest_;
};

}  // namespace fusetune::search
