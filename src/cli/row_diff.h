// Rows of two databases side by side: which candidate is in both, and how its time changed.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "store/contents.h"

namespace fusetune::cli {

/// How alike two rows are that are compared, the nearest first.
enum class Alike {
  kernels,    // the same kernels, to the byte
  schedules,  // the same schedules: another program version generated other kernels of them
  plan,       // plans only: the same mask with other schedules
};

/// A segment or a plan as a row of one or both sides.
struct DiffRow {
  std::string what;  // "[7-14]", "mask 20480"
  std::string problem, data, cache_mode, settings;
  int protocol = 0;
  struct Side {
    std::string environment, schedule;
    measure::Measurement measurement;  // without samples
  };
  std::optional<Side> a, b;  // at least one
  Alike alike = Alike::kernels;

  /// Both have a time.
  bool timed() const;
  bool changed_outcome() const;
  /// Time b / time a, in units of the reference beside them where both are of one environment; timed() only.
  double ratio() const;
  /// Standard error of ratio(), from both medians' errors; 0 where the samples are not known.
  double error() const;
  /// -1 faster in b, 1 slower, 0 neither: within 0.5 %, or within three standard errors.
  int verdict() const;
};

/// Where segments and plans were measured: fingerprints.
std::set<std::string> measured_in(const store::Contents& contents);

/// Measurements are of one candidate where problem, data, cache mode, protocol and timing settings are equal
/// and so are the kernels; what is left of both sides is compared by its schedules, then plans by their mask,
/// the newest rows with each other. Environments: where each side has one (measured_in), it is the other's
/// counterpart; else equal fingerprints are. Rows of both sides first: those without a ratio, then by |log
/// ratio|, the largest first; then those of one side.
std::vector<DiffRow> diff_segments(const store::Contents& a, const store::Contents& b);
std::vector<DiffRow> diff_plans(const store::Contents& a, const store::Contents& b);

struct DiffSummary {
  std::size_t both = 0, only_a = 0, only_b = 0, changed_outcome = 0, timed = 0, faster = 0, slower = 0;
  double median_ratio = 1;  // of `timed` rows; 1 where there are none
};
DiffSummary summarize(const std::vector<DiffRow>& rows);

}  // namespace fusetune::cli
