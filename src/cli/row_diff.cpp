#include "cli/row_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/tie_band.h"
#include "measure/statistics.h"
#include "plan/fusion_plan.h"
#include "search/certificate.h"

namespace fusetune::cli {
namespace {

/// Of a thousand rows that differ by noise alone about three are further apart than this.
constexpr double kStandardErrors = 3;

/// A row of one side with the words by which it is matched.
struct Entry {
  DiffRow row;  // without sides
  DiffRow::Side side;
  std::vector<std::string> keys;  // of each Alike in turn, what must be equal besides the place
  std::int64_t created = 0;
  bool taken = false;
};

DiffRow::Side side_of(const std::string& environment, std::string schedule,
                      measure::Measurement measurement) {
  measurement.samples_us.clear();
  return {environment, std::move(schedule), std::move(measurement)};
}

std::vector<Entry> segment_entries(const store::Contents& contents) {
  std::vector<Entry> entries;
  for (const store::TuningRecord& record : contents.segments) {
    const store::SegmentKey& key = record.key;
    Entry& entry = entries.emplace_back();
    entry.row.what = plan::all_variants()[static_cast<std::size_t>(key.variant)].to_string();
    entry.row.problem = key.problem;
    entry.row.data = key.data;
    entry.row.cache_mode = key.cache_mode;
    entry.row.settings = key.settings;
    entry.row.protocol = key.protocol;
    entry.side = side_of(key.environment, record.schedule, record.measurement);
    entry.keys = {key.source_hash + " " + key.layouts, record.schedule};
    entry.created = record.created;
  }
  return entries;
}

std::vector<Entry> plan_entries(const store::Contents& contents) {
  std::vector<Entry> entries;
  for (const store::PlanRecord& record : contents.plans) {
    Entry& entry = entries.emplace_back();
    entry.row.what = fmt::format("mask {}", record.mask);
    entry.row.problem = record.problem;
    entry.row.data = record.data;
    entry.row.cache_mode = record.cache_mode;
    entry.row.settings = record.settings;
    entry.row.protocol = record.protocol;
    const std::string schedules = fmt::format("{}", fmt::join(record.schedules, " | "));
    entry.side = side_of(record.environment, schedules, record.measurement);
    entry.keys = {record.sources_hash, schedules, ""};
    entry.created = record.created;
  }
  return entries;
}

bool have_one_environment_each(const store::Contents& a, const store::Contents& b) {
  return measured_in(a).size() == 1 && measured_in(b).size() == 1;
}

/// The newest first, each under the words that its counterpart has too.
std::map<std::string, std::vector<Entry*>> by_key(std::vector<Entry>& entries, std::size_t level,
                                                  bool any_environment) {
  std::map<std::string, std::vector<Entry*>> groups;
  for (Entry& entry : entries) {
    if (entry.taken) continue;
    const DiffRow& row = entry.row;
    groups[fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}", row.what, row.problem, row.data, row.cache_mode,
                       row.settings, row.protocol, any_environment ? "" : entry.side.environment,
                       entry.keys[level])]
        .push_back(&entry);
  }
  for (auto& [key, group] : groups) {
    std::stable_sort(group.begin(), group.end(),
                     [](const Entry* x, const Entry* y) { return x->created > y->created; });
  }
  return groups;
}

DiffRow pair_up(Entry& a, Entry& b, Alike alike) {
  a.taken = b.taken = true;
  DiffRow row = a.row;
  row.a = std::move(a.side);
  row.b = std::move(b.side);
  row.alike = alike;
  return row;
}

void add_pairs(std::vector<Entry>& a, std::vector<Entry>& b, std::size_t level, bool any_environment,
               std::vector<DiffRow>& rows) {
  auto groups_a = by_key(a, level, any_environment);
  for (const auto& [key, group_b] : by_key(b, level, any_environment)) {
    const auto found = groups_a.find(key);
    if (found != groups_a.end())
      rows.push_back(pair_up(*found->second.front(), *group_b.front(), static_cast<Alike>(level)));
  }
}

/// What is to be seen first: changed outcomes, which would be overlooked at the end, then large ratios.
std::pair<bool, double> distance(const DiffRow& row) {
  return {row.changed_outcome(), row.timed() ? std::abs(std::log(row.ratio())) : -1};
}

std::vector<DiffRow> match(std::vector<Entry> a, std::vector<Entry> b, bool any_environment) {
  const std::size_t levels = !a.empty() ? a.front().keys.size() : 0;
  std::vector<DiffRow> rows;
  for (std::size_t level = 0; level < levels; ++level) add_pairs(a, b, level, any_environment, rows);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const DiffRow& x, const DiffRow& y) { return distance(x) > distance(y); });
  for (auto [entries, side] : {std::pair(&a, &DiffRow::a), std::pair(&b, &DiffRow::b)}) {
    for (Entry& entry : *entries) {
      if (entry.taken) continue;
      rows.push_back(entry.row);
      rows.back().*side = std::move(entry.side);
    }
  }
  return rows;
}

/// Of a median relative to it.
double relative_error(const measure::TimingSummary& time) {
  return search::median_error(time.mad_us, time.count) / time.median_us;
}

}  // namespace

bool DiffRow::timed() const {
  const auto has_time = [](const std::optional<Side>& side) {
    return side && side->measurement.outcome == measure::Outcome::ok;
  };
  return has_time(a) && has_time(b);
}

bool DiffRow::changed_outcome() const { return a && b && a->measurement.outcome != b->measurement.outcome; }

double DiffRow::ratio() const {
  const double ratio = b->measurement.time.median_us / a->measurement.time.median_us;
  // In one environment the same reference stood beside both; each file agreed for itself on what that takes.
  const double unit_a = a->measurement.reference_us, unit_b = b->measurement.reference_us;
  const bool same_reference = a->environment == b->environment && unit_a > 0 && unit_b > 0;
  return same_reference ? ratio * unit_a / unit_b : ratio;
}

double DiffRow::error() const {
  return ratio() * std::hypot(relative_error(a->measurement.time), relative_error(b->measurement.time));
}

int DiffRow::verdict() const {
  const double difference = ratio() - 1;
  if (std::abs(difference) <= std::max(base::kTieBand, kStandardErrors * error())) return 0;
  return difference < 0 ? -1 : 1;
}

std::set<std::string> measured_in(const store::Contents& contents) {
  std::set<std::string> fingerprints;
  for (const store::TuningRecord& segment : contents.segments) fingerprints.insert(segment.key.environment);
  for (const store::PlanRecord& plan : contents.plans) fingerprints.insert(plan.environment);
  return fingerprints;
}

std::vector<DiffRow> diff_segments(const store::Contents& a, const store::Contents& b) {
  return match(segment_entries(a), segment_entries(b), have_one_environment_each(a, b));
}

std::vector<DiffRow> diff_plans(const store::Contents& a, const store::Contents& b) {
  return match(plan_entries(a), plan_entries(b), have_one_environment_each(a, b));
}

DiffSummary summarize(const std::vector<DiffRow>& rows) {
  DiffSummary summary;
  std::vector<double> ratios;
  for (const DiffRow& row : rows) {
    summary.both += row.a && row.b;
    summary.only_a += !row.b;
    summary.only_b += !row.a;
    summary.changed_outcome += row.changed_outcome();
    if (!row.timed()) continue;
    ratios.push_back(row.ratio());
    summary.faster += row.verdict() < 0;
    summary.slower += row.verdict() > 0;
  }
  summary.timed = ratios.size();
  if (!ratios.empty()) summary.median_ratio = measure::median(ratios);
  return summary;
}

}  // namespace fusetune::cli
