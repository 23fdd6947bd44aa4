#include "cli/schedule_option.h"

#include <fmt/core.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/segment_argument.h"
#include "cli/session_options.h"
#include "codegen/any_kernel.h"

namespace fusetune::cli {
namespace {

/// A line is "[7-14] handoff=pipeline tile=6x16 ..."; '#' starts a comment.
void read_line(std::string_view line, ScheduleTable& table) {
  line = base::trim(line.substr(0, line.find('#')));
  if (line.empty()) return;
  const std::size_t gap = line.find_first_of(" \t");
  if (gap == std::string_view::npos) throw base::UsageError("expected a segment variant and its schedule");
  table.set(parse_variant(line.substr(0, gap)), table.parse(base::trim(line.substr(gap))), "file");
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
}

/// "[7-14]: tile=6x16 ...", not "tile=6x16 ...".
bool names_variant(const std::string& text) { return text.starts_with('['); }

}  // namespace

lower::AnySchedule ScheduleTable::operator()(const plan::SegmentVariant& variant) const {
  const auto found = chosen_.find(variant);
  return found != chosen_.end() ? found->second.schedule
                                : lower::default_schedule(variant, problem_, target_);
}

std::string_view ScheduleTable::origin(const plan::SegmentVariant& variant) const {
  const auto found = chosen_.find(variant);
  return found != chosen_.end() ? found->second.origin : "default";
}

std::optional<lower::AnySchedule> recorded_schedule(const store::TuningStore& store,
                                                    const block::Problem& problem,
                                                    const std::string& fingerprint,
                                                    const store::MeasuredLike& like, int variant,
                                                    const lower::Target& target) {
  const plan::SegmentVariant& of = plan::all_variants()[static_cast<std::size_t>(variant)];
  const auto usable = [&](const std::string& text, const std::string& source_hash) {
    const lower::AnySchedule schedule = lower::parse_schedule(text, target);
    if (!lower::refuse(schedule, of, problem, target).empty()) return false;
    // A kernel's schedule outlives changes of its source. Of a library's product the text says nothing: what
    // was timed is what that version did.
    const bool is_library =
        schedule.gpu() != nullptr && schedule.gpu()->product == lower::GpuProduct::library;
    return !is_library || codegen::generate(of, schedule, problem, target).hash() == source_hash;
  };
  const auto schedule = store.best_schedule(problem.key(), fingerprint, like, variant, usable);
  return schedule ? std::optional(lower::parse_schedule(*schedule, target)) : std::nullopt;
}

std::string schedule_text_option(const plan::SegmentVariant& variant, const std::string& schedule) {
  return " --schedule-text " + base::quote_for_shell(variant.to_string() + ": " + schedule);
}

void ScheduleOption::declare(Options& options, bool with_variants) {
  options_ = &options;
  with_variants_ = with_variants;
  options.text("--schedule", schedule_, "best|default|FILE",
               "schedules: the best recorded, the default, or lines of a variant and its schedule");
  options.text("--db", database_, "FILE", "recorded measurements for --schedule best");
  options.repeated("--schedule-text", texts_, with_variants ? "[VARIANT:] SCHEDULE" : "VARIANT: SCHEDULE",
                   with_variants ? "this schedule for VARIANT; without one, for every --variant"
                                 : "this schedule for VARIANT, e.g. '[7-14]: tile=6x16 ...'; once for each");
}

std::string ScheduleOption::text_of_every_variant() const {
  std::string found;
  for (const std::string& text : texts_) {
    if (names_variant(text)) continue;
    if (!with_variants_)
      throw base::UsageError(fmt::format(
          "--schedule-text '{}': expected a segment variant before it, such as '[7-14]: {}'", text, text));
    if (!found.empty())
      throw base::UsageError(
          fmt::format("--schedule-text '{}': every --variant has '{}' already", text, found));
    found = text;
  }
  return found;
}

void ScheduleOption::refuse_named_variants(std::string_view where) const {
  for (const std::string& text : texts_)
    if (names_variant(text))
      throw base::UsageError(fmt::format(
          "--schedule-text '{}': {} takes no variant in it; name it with --variant", text, where));
}

void ScheduleOption::read_texts(ScheduleTable& table) const {
  text_of_every_variant();  // refuses what no variant can take
  for (const std::string& text : texts_) {
    if (!names_variant(text)) continue;
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos)
      throw base::UsageError(fmt::format("--schedule-text '{}': expected a ':' behind the variant", text));
    const std::string_view schedule = base::trim(std::string_view(text).substr(colon + 1));
    table.set(parse_variant(base::trim(std::string_view(text).substr(0, colon))), table.parse(schedule),
              "given");
  }
}

bool ScheduleOption::wants_records() const {
  return schedule_ == "best" && (options_->given("--db") || std::filesystem::exists(database_));
}

ScheduleTable ScheduleOption::table(const measure::Session& session, const measure::SessionOptions& options,
                                    const lower::Target& target) const {
  store::MeasuredLike like{std::string(measure::name(options.cache))};
  if (wants_records()) {
    like.data = data_identity(options);
    like.settings = store::settings_text(options.samples, options.min_sample_seconds);
  }
  return table(session.problem(), target, session.environment().fingerprint, like);
}

ScheduleTable ScheduleOption::table(const measure::Session& session) const {
  return table(session.problem(), session.target(), session.environment().fingerprint);
}

ScheduleTable ScheduleOption::table(const block::Problem& problem, const lower::Target& target,
                                    const std::string& fingerprint) const {
  return table(problem, target, fingerprint,
               store::MeasuredLike{std::string(measure::name(measure::CacheMode::model))});
}

ScheduleTable ScheduleOption::table(const block::Problem& problem, const lower::Target& target,
                                    const std::string& fingerprint, const store::MeasuredLike& like) const {
  ScheduleTable table(problem, target);
  if (schedule_ != "best" && schedule_ != "default") read_file(schedule_, table);
  if (wants_records()) {
    const store::TuningStore store(database_, {.access = store::Access::look});
    for (int i = 0; i < plan::kVariantCount; ++i) {
      const auto schedule = recorded_schedule(store, problem, fingerprint, like, i, target);
      if (schedule) table.set(plan::all_variants()[i], *schedule, "recorded");
    }
  }
  read_texts(table);
  return table;
}

}  // namespace fusetune::cli
