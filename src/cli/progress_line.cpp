#include "cli/progress_line.h"

#include <fmt/core.h>

#include <algorithm>

namespace fusetune::cli {
namespace {

/// Below this many a second they are counted by the minute.
constexpr double kSlow = 0.1;

std::string duration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 90 * 60) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

std::string rate_text(double per_second) {
  return per_second < kSlow ? fmt::format("{:.1f}/min", 60 * per_second)
                            : fmt::format("{:.1f}/s", per_second);
}

std::optional<std::int64_t> total_of(const StageProgress& progress) {
  std::optional<std::int64_t> total = progress.expected;
  if (progress.trials_left) {
    const std::int64_t most = progress.done + *progress.trials_left;
    total = std::min(total.value_or(most), most);
  }
  // An expectation may turn out too small.
  return total ? std::optional(std::max(*total, progress.done)) : std::nullopt;
}

/// ", about 31 s left"; empty where there is nothing left, or no way to know. `per_second` 0: no rate yet.
std::string time_left(const StageProgress& progress, std::optional<std::int64_t> total, double per_second) {
  const std::optional<double> limit = progress.seconds_left;
  if (total == progress.done || (limit && *limit <= 0)) return {};
  if (!total || per_second == 0) return limit ? fmt::format(", at most {} left", duration(*limit)) : "";
  const double left = static_cast<double>(*total - progress.done) / per_second;
  return fmt::format(", {} {} left", progress.at_most ? "at most" : "about",
                     duration(std::min(left, limit.value_or(left))));
}

}  // namespace

std::string progress_line(const StageProgress& progress) {
  const std::optional<std::int64_t> total = total_of(progress);
  const std::int64_t done_now = progress.done - progress.reused;
  const double per_second =
      done_now > 0 && progress.seconds > 0 ? static_cast<double>(done_now) / progress.seconds : 0;
  std::string line = progress.stage.empty() ? "" : progress.stage + ": ";
  line += total ? fmt::format("{}/{} {}", progress.done, *total, progress.unit)
                : fmt::format("{} {}", progress.done, progress.unit);
  if (per_second > 0) line += ", " + rate_text(per_second);
  line += time_left(progress, total, per_second);
  return progress.doing.empty() ? line : line + ", " + progress.doing;
}

}  // namespace fusetune::cli
