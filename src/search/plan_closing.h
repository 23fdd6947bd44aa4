// When a search among whole plans may end: the certificate over the kernels that were timed, under what the
// plans timed so far say of whole / sum. What a search claims in the end it says of its final comparison;
// this only ends the stage before.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "search/certificate.h"
#include "search/space.h"

namespace fusetune::search {

class PlanClosing {
 public:
  /// `edges`: every kernel timed. `epsilon`: as of Certificate::closed().
  PlanClosing(std::span<const TimedEdge> edges, double epsilon);
  /// A plan that ran right, `sum_us` (> 0) the sum of its segments' times.
  void tell(double sum_us, const Trial& trial);
  /// With the smallest lower limit of whole / sum and the smallest upper limit of a whole time that were
  /// told, each at 95 %; nullopt: nothing was told, or no plan has times for all its segments.
  std::optional<Certificate> certificate() const;
  bool closed() const;

 private:
  std::vector<BoundedEdge> limits_;
  double epsilon_;
  double alpha_ = std::numeric_limits<double>::infinity(), high_us_ = alpha_;
};

}  // namespace fusetune::search
