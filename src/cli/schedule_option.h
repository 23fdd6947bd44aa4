// --schedule best|default|FILE and --db: which schedule each segment variant of a plan gets.
#pragma once

#include <map>
#include <string>

#include "cli/options.h"
#include "lower/schedule.h"
#include "measure/session.h"
#include "store/records.h"

namespace fusetune::cli {

/// Schedules by variant; those not in the table get the default.
class ScheduleTable {
 public:
  ScheduleTable(const block::Problem& problem, const lower::CpuTarget& target)
      : problem_(problem), target_(target) {}
  void set(const plan::SegmentVariant& variant, const lower::Schedule& schedule) {
    chosen_[variant] = schedule;
  }
  lower::Schedule operator()(const plan::SegmentVariant& variant) const;
  /// Where `variant`'s schedule comes from: "default", "recorded" or "file".
  std::string_view origin(const plan::SegmentVariant& variant) const;
  void set_origin(std::string_view origin) { origin_ = origin; }

 private:
  block::Problem problem_;
  lower::CpuTarget target_;
  std::map<plan::SegmentVariant, lower::Schedule> chosen_;
  std::string_view origin_ = "recorded";
};

class ScheduleOption {
 public:
  void declare(Options& options);
  /// "best": the fastest recorded schedule of this problem and environment from --db, where there is one, of
  /// measurements like those that `options` would make, if possible; see TuningStore::best_schedule(). Throws
  /// base::UsageError for a bad schedule file, naming file:line.
  ScheduleTable table(const measure::Session& session, const measure::SessionOptions& options) const;
  /// For what is not timed, with or without a session: the cache mode `model`. `fingerprint` of the
  /// environment is used where wants_records().
  ScheduleTable table(const measure::Session& session) const;
  ScheduleTable table(const block::Problem& problem, const lower::CpuTarget& target,
                      const std::string& fingerprint) const;
  /// True when recorded schedules are asked for and there is a database to look in.
  bool wants_records() const;
  const std::string& database() const { return database_; }
  std::string command_line() const;

 private:
  ScheduleTable table(const block::Problem& problem, const lower::CpuTarget& target,
                      const std::string& fingerprint, const store::MeasuredLike& like) const;

  const Options* options_ = nullptr;
  std::string schedule_ = "best";
  std::string database_ = "fusetune.db";
};

}  // namespace fusetune::cli
