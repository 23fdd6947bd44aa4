#include "cli/schedule_option.h"

#include <fmt/core.h>

#include <array>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/segment_argument.h"
#include "cli/session_options.h"
#include "store/tuning_store.h"

namespace fusetune::cli {
namespace {

/// A line is "[7-14] handoff=pipeline tile=6x16 ..."; '#' starts a comment.
void read_line(std::string_view line, ScheduleTable& table) {
  line = base::trim(line.substr(0, line.find('#')));
  if (line.empty()) return;
  const std::size_t gap = line.find_first_of(" \t");
  if (gap == std::string_view::npos) throw base::UsageError("expected a segment variant and its schedule");
  table.set(parse_variant(line.substr(0, gap)), lower::Schedule::parse(base::trim(line.substr(gap))));
}

void read_file(const std::string& file, ScheduleTable& table) {
  const std::string content = base::read_file(file);
  int number = 0;
  for (const std::string& line : base::split(content, '\n')) {
    ++number;
    try {
      read_line(line, table);
    } catch (const base::UsageError& error) {
      throw base::UsageError(fmt::format("{}:{}: {}", file, number, error.what()));
    }
  }
  table.set_origin("file");
}

}  // namespace

lower::Schedule ScheduleTable::operator()(const plan::SegmentVariant& variant) const {
  const auto found = chosen_.find(variant);
  return found != chosen_.end() ? found->second : lower::default_schedule(variant, problem_, target_);
}

std::string_view ScheduleTable::origin(const plan::SegmentVariant& variant) const {
  return chosen_.contains(variant) ? origin_ : "default";
}

void ScheduleOption::declare(Options& options) {
  options_ = &options;
  options.text("--schedule", schedule_, "best|default|FILE",
               "schedules: the best recorded, the default, or lines of a variant and its schedule");
  options.text("--db", database_, "FILE", "recorded measurements for --schedule best");
}

bool ScheduleOption::wants_records() const {
  return schedule_ == "best" && (options_->given("--db") || std::filesystem::exists(database_));
}

ScheduleTable ScheduleOption::table(const measure::Session& session,
                                    const measure::SessionOptions& options) const {
  store::MeasuredLike like{std::string(measure::name(options.cache))};
  if (wants_records()) {
    like.data = data_identity(options);
    like.settings = store::settings_text(options.samples, options.min_sample_seconds);
  }
  return table(session.problem(), session.target(), session.environment().fingerprint, like);
}

ScheduleTable ScheduleOption::table(const measure::Session& session) const {
  return table(session.problem(), session.target(), session.environment().fingerprint);
}

ScheduleTable ScheduleOption::table(const block::Problem& problem, const lower::CpuTarget& target,
                                    const std::string& fingerprint) const {
  return table(problem, target, fingerprint,
               store::MeasuredLike{std::string(measure::name(measure::CacheMode::model))});
}

ScheduleTable ScheduleOption::table(const block::Problem& problem, const lower::CpuTarget& target,
                                    const std::string& fingerprint, const store::MeasuredLike& like) const {
  ScheduleTable table(problem, target);
  if (schedule_ != "best" && schedule_ != "default") read_file(schedule_, table);
  if (!wants_records()) return table;
  const store::TuningStore store(database_, {.access = store::Access::look});
  for (int i = 0; i < plan::kVariantCount; ++i) {
    const auto schedule = store.best_schedule(problem.key(), fingerprint, like, i);
    if (schedule) table.set(plan::all_variants()[i], lower::Schedule::parse(*schedule));
  }
  return table;
}

std::string ScheduleOption::command_line() const {
  static constexpr std::array<std::string_view, 2> names = {"--schedule", "--db"};
  return options_->command_line(names);
}

}  // namespace fusetune::cli
