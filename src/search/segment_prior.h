// What is expected of kernels before a search has times of its own, and whether that is trusted.
//
// A prior knows other searches: a model fitted to them, or the times of another device. It is trusted only
// where it ranks what was timed here. The probes are kernels that the search times in any case, so that the
// test costs nothing, and nothing that a refused prior says has any effect.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "search/space.h"

namespace fusetune::search {

/// Fewer probes than this trust no prior.
inline constexpr std::size_t kFewestProbes = 12;
/// Spearman of predicted and measured times of the probes that a prior needs at least.
inline constexpr double kTrustedSpearman = 0.9;

class SegmentPrior {
 public:
  virtual ~SegmentPrior() = default;
  /// What it is made of, one word: "model", "records".
  virtual std::string_view kind() const = 0;
  /// Where it comes from, for the report.
  virtual std::string name() const = 0;
  /// One for each candidate; their ranks count, not their unit. NaN: nothing is known of it.
  virtual std::vector<double> predict_us(std::span<const Candidate> candidates) const = 0;
};

/// The first that is trusted is used.
using Priors = std::vector<std::shared_ptr<const SegmentPrior>>;

/// Kernels with times of this search, one element each.
struct Probes {
  std::vector<Candidate> candidates;
  std::vector<double> measured_us;
  std::vector<double> work;  // model::work_of(); empty: not known
};

/// How a prior did on the probes.
struct PriorTest {
  std::string kind, name;  // the prior's
  bool trusted = false;
  std::size_t probes = 0;                                      // of which it knows something
  double spearman = std::numeric_limits<double>::quiet_NaN();  // NaN: too few probes, or all equal
  double roofline = std::numeric_limits<double>::quiet_NaN();  // of `work` on the same probes; NaN: not known
  double scale = 1;                                            // median of measured / predicted
};

/// A prior is trusted with kFewestProbes or more of a Spearman of at least kTrustedSpearman that is no less
/// than the roofline's.
PriorTest test_prior(const SegmentPrior& prior, const Probes& probes);

}  // namespace fusetune::search
