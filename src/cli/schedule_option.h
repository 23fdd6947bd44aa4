// --schedule best|default|FILE, --db and --schedule-text: which schedule each segment variant of a plan gets.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "lower/any_schedule.h"
#include "measure/session.h"
#include "store/records.h"
#include "store/tuning_store.h"

namespace fusetune::cli {

/// Schedules by variant; those not in the table get the default.
class ScheduleTable {
 public:
  ScheduleTable(const block::Problem& problem, const lower::Target& target)
      : problem_(problem), target_(target) {}
  /// A schedule of the target's kind. Throws base::UsageError.
  lower::AnySchedule parse(std::string_view text) const { return lower::parse_schedule(text, target_); }
  /// `origin`: see origin(); a literal.
  void set(const plan::SegmentVariant& variant, const lower::AnySchedule& schedule, std::string_view origin) {
    chosen_[variant] = {schedule, origin};
  }
  lower::AnySchedule operator()(const plan::SegmentVariant& variant) const;
  /// Where `variant`'s schedule comes from: "default", "recorded", "file", "given" on the command line, or
  /// "search".
  std::string_view origin(const plan::SegmentVariant& variant) const;

 private:
  block::Problem problem_;
  lower::Target target_;
  struct Chosen {
    lower::AnySchedule schedule;
    std::string_view origin;
  };
  std::map<plan::SegmentVariant, Chosen> chosen_;
};

/// The fastest recorded schedule of a variant that `target` does not refuse (a library's product, for one,
/// where the library is gone or of another version); see TuningStore::best_schedule().
std::optional<lower::AnySchedule> recorded_schedule(const store::TuningStore& store,
                                                    const block::Problem& problem,
                                                    const std::string& fingerprint,
                                                    const store::MeasuredLike& like, int variant,
                                                    const lower::Target& target);

/// " --schedule-text '[7-14]: tile=6x16 ...'": gives `variant` exactly this schedule.
std::string schedule_text_option(const plan::SegmentVariant& variant, const std::string& schedule);

class ScheduleOption {
 public:
  /// `with_variants`: the command has --variant, of which each gets a --schedule-text that names no variant.
  void declare(Options& options, bool with_variants = false);
  /// The --schedule-text that names no variant; empty: none. Throws base::UsageError where there are two, or
  /// where no --variant can take it.
  std::string text_of_every_variant() const;
  /// Throws base::UsageError for a --schedule-text that names its variant; `where` takes none.
  void refuse_named_variants(std::string_view where) const;
  /// "best": the fastest recorded schedule of this problem and environment from --db, where there is one, of
  /// measurements like those that `options` would make, if possible; see TuningStore::best_schedule(). A
  /// --schedule-text that names a variant goes before all others. Throws base::UsageError for a bad schedule
  /// file, naming file:line, or text.
  ScheduleTable table(const measure::Session& session, const measure::SessionOptions& options) const {
    return table(session, options, session.target());
  }
  /// The same for another target than the session's: recorded schedules that it refuses are passed over.
  ScheduleTable table(const measure::Session& session, const measure::SessionOptions& options,
                      const lower::Target& target) const;
  /// For what is not timed, with or without a session: the cache mode `model`. `fingerprint` of the
  /// environment is used where wants_records().
  ScheduleTable table(const measure::Session& session) const;
  ScheduleTable table(const block::Problem& problem, const lower::Target& target,
                      const std::string& fingerprint) const;
  /// True when recorded schedules are asked for and there is a database to look in.
  bool wants_records() const;
  const std::string& database() const { return database_; }

 private:
  ScheduleTable table(const block::Problem& problem, const lower::Target& target,
                      const std::string& fingerprint, const store::MeasuredLike& like) const;
  void read_texts(ScheduleTable& table) const;

  const Options* options_ = nullptr;
  std::string schedule_ = "best";
  std::string database_ = "fusetune.db";
  std::vector<std::string> texts_;
  bool with_variants_ = false;
};

}  // namespace fusetune::cli
