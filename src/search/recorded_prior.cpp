#include "search/recorded_prior.h"

#include <limits>
#include <utility>

namespace fusetune::search {

RecordedPrior::RecordedPrior(std::string name, std::span<const Recording> recordings,
                             const lower::Target& target)
    : name_(std::move(name)) {
  for (const Recording& one : recordings) {
    const Candidate candidate{one.variant, lower::parse_schedule(one.schedule, target)};
    if (one.trial.ok) times_.insert_or_assign(candidate, one.trial.time_us);
    fastest_.tell(candidate, one.trial);
  }
}

std::vector<double> RecordedPrior::predict_us(std::span<const Candidate> candidates) const {
  std::vector<double> times;
  for (const Candidate& one : candidates) {
    const auto known = times_.find(one);
    const auto& fastest = fastest_[one.variant];
    if (known != times_.end()) {
      times.push_back(known->second);
    } else {
      times.push_back(fastest ? fastest->time_us : std::numeric_limits<double>::quiet_NaN());
    }
  }
  return times;
}

}  // namespace fusetune::search
