#include "store/json_lines.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "measure/outcome.h"
#include "plan/fusion_plan.h"

namespace fusetune::store {
namespace {

using Json = nlohmann::ordered_json;
using measure::Outcome;

constexpr int kVersion = 1;

// ---- writing

std::string line(const Json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Json number_or_null(double value, bool present = true) {
  return present && std::isfinite(value) ? Json(value) : Json();
}

void put_time(Json& json, const measure::Measurement& measurement) {
  json["outcome"] = std::string(measure::name(measurement.outcome));
  json["message"] = measurement.message;
  if (measurement.outcome != Outcome::ok) return;
  json["median_us"] = measurement.time.median_us;
  json["mad_us"] = measurement.time.mad_us;
  json["min_us"] = measurement.time.min_us;
  json["sample_count"] = measurement.time.count;
}

void put_device(Json& json, const measure::Measurement& measurement) {
  if (!measurement.device_uuid.empty()) json["device_uuid"] = measurement.device_uuid;
}

void put_trial(Json& json, const Trial& trial, const std::map<std::int64_t, std::int64_t>& numbers) {
  put_time(json, trial.measurement);
  if (trial.measurement.outcome == Outcome::ok) json["samples_us"] = trial.measurement.samples_us;
  json["dropped"] = trial.measurement.dropped;
  json["norm_error"] = number_or_null(trial.measurement.norm_error);
  json["worst_error"] = number_or_null(trial.measurement.worst_error);
  if (trial.measurement.reference_us > 0) {
    json["reference_us"] = trial.measurement.reference_us;
    json["slowdown"] = number_or_null(trial.measurement.slowdown);
  }
  put_device(json, trial.measurement);
  json["attempts"] = trial.attempts;
  json["abandoned"] = trial.abandoned;
  json["repeat_command"] = trial.repeat_command;
  json["compile_limit_s"] = number_or_null(trial.limits.compile_s, trial.limits.compile_s > 0);
  json["run_limit_s"] = number_or_null(trial.limits.run_s, trial.limits.run_s > 0);
  const auto run = numbers.find(trial.run);
  json["run"] = run == numbers.end() ? Json() : Json(run->second);
  json["created"] = trial.created;
}

Json plan_key(const PlanKey& key) {
  return {{"problem", key.problem},   {"environment", key.environment},
          {"mask", key.mask},         {"sources_hash", key.sources_hash},
          {"data", key.data},         {"cache_mode", key.cache_mode},
          {"protocol", key.protocol}, {"settings", key.settings}};
}

Json run_json(const RunRecord& run, std::int64_t number) {
  // To whoever reads this later, a search that runs now was interrupted.
  const RunState state = run.state == RunState::running ? RunState::interrupted : run.state;
  return {{"kind", "run"},
          {"run", number},
          {"problem", run.problem},
          {"environment", run.environment},
          {"state", std::string(name(state))},
          {"started", run.started},
          {"finished", run.finished ? Json(*run.finished) : Json()},
          {"options", run.options},
          {"finalists_hash", run.finalists_hash},
          {"result", run.result}};
}

Json segment_json(const TuningRecord& segment) {
  return {{"kind", "segment"},
          {"problem", segment.key.problem},
          {"environment", segment.key.environment},
          {"variant", segment.key.variant},
          {"source_hash", segment.key.source_hash},
          {"layouts", segment.key.layouts},
          {"data", segment.key.data},
          {"cache_mode", segment.key.cache_mode},
          {"protocol", segment.key.protocol},
          {"settings", segment.key.settings},
          {"schedule", segment.schedule}};
}

Json plan_json(const PlanRecord& plan) {
  Json json = {{"kind", "plan"}};
  json.update(plan_key(plan));
  json["typed_mask"] = plan.typed_mask ? Json(*plan.typed_mask) : Json();
  json["schedules"] = plan.schedules;
  json["sum_us"] = number_or_null(plan.sum_us, plan.sum_us > 0);
  json["sampled"] = std::string(name(plan.sampled));
  return json;
}

Json comparison_json(const ComparisonRecord& comparison, std::int64_t run) {
  Json json = {{"kind", "comparison"}, {"run", run}, {"plan", plan_key(comparison.plan)}};
  const bool ok = comparison.plan.measurement.outcome == Outcome::ok;
  put_time(json, comparison.plan.measurement);
  put_device(json, comparison.plan.measurement);
  json["ratio"] = number_or_null(comparison.ratio, ok);
  json["low"] = number_or_null(comparison.low, ok);
  json["high"] = number_or_null(comparison.high, ok);
  json["pairs"] = comparison.pairs;
  const bool parts = comparison.whole_over_sum.has_value();
  const ComparisonRecord::WholeOverSum whole =
      comparison.whole_over_sum.value_or(ComparisonRecord::WholeOverSum{});
  json["whole_over_sum"] = number_or_null(whole.ratio, parts);
  json["whole_over_sum_low"] = number_or_null(whole.low, parts);
  json["whole_over_sum_high"] = number_or_null(whole.high, parts);
  return json;
}

// ---- reading

/// One line, its values taken by name and checked.
class Line {
 public:
  explicit Line(const Json& json) : json_(json) {}

  std::string text(const char* name, bool may_be_empty = true) const {
    const Json& value = at(name);
    if (!value.is_string()) throw bad(name, "a text");
    auto text = value.get<std::string>();
    if (text.empty() && !may_be_empty) throw bad(name, "a text that is not empty");
    return text;
  }
  std::int64_t integer(const char* name, std::int64_t least,
                       std::int64_t most = std::numeric_limits<std::int64_t>::max()) const {
    const Json& value = at(name);
    const bool fits =
        value.is_number_integer() && !(value.is_number_unsigned() &&
                                       value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max());
    if (!fits || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most)
      throw bad(name, "a whole number from " + std::to_string(least) +
                          (most < std::numeric_limits<std::int64_t>::max() ? " to " + std::to_string(most)
                                                                           : " up"));
    return value.get<std::int64_t>();
  }
  int small(const char* name, int least, int most = std::numeric_limits<int>::max()) const {
    return static_cast<int>(integer(name, least, most));
  }
  bool has(const char* name) const { return !at(name).is_null(); }
  bool names(const char* name) const { return json_.is_object() && json_.contains(name); }
  /// A finite number of at least 0, or above it.
  double number(const char* name, bool zero_too = false) const {
    const Json& value = at(name);
    if (!value.is_number() || !(value.get<double>() >= 0) || (!zero_too && value.get<double>() == 0))
      throw bad(name, zero_too ? "a number of at least 0" : "a number above 0");
    return value.get<double>();
  }
  double number_or(const char* name, double otherwise, bool zero_too = false) const {
    return has(name) ? number(name, zero_too) : otherwise;
  }
  const Json& at(const char* name) const {
    if (!json_.is_object() || !json_.contains(name))
      throw base::UsageError("`" + std::string(name) + "` is missing");
    return json_.at(name);
  }
  base::UsageError bad(const char* name, const std::string& expected) const {
    // An array or an object only by that word: printing one recurses as deep as it nests.
    const Json& value = at(name);
    const std::string found = value.is_structured() ? "an " + std::string(value.type_name()) : line(value);
    return base::UsageError("`" + std::string(name) + "`: expected " + expected + ", not " + found);
  }

 private:
  const Json& json_;
};

std::string json_text(const Line& from, const char* name, bool may_be_empty) {
  std::string text = from.text(name);
  if (!(text.empty() && may_be_empty) && !Json::accept(text)) throw from.bad(name, "JSON in a text");
  return text;
}

void read_time(const Line& from, measure::Measurement& measurement) {
  measurement.outcome = measure::parse_outcome(from.text("outcome"));
  measurement.message = from.text("message");
  if (measurement.outcome != Outcome::ok) return;
  measurement.time = {from.number("median_us"), from.number("mad_us", true), from.number("min_us"),
                      from.small("sample_count", 1)};
}

void read_device(const Line& from, measure::Measurement& measurement) {
  if (from.names("device_uuid")) measurement.device_uuid = from.text("device_uuid", false);
}

std::string cache_mode(const Line& from) {
  std::string mode = from.text("cache_mode");
  if (mode != "model" && mode != "warm" && mode != "cold")
    throw from.bad("cache_mode", "model, warm or cold");
  return mode;
}

PlanKey read_plan_key(const Line& from) {
  PlanKey key;
  key.problem = from.text("problem", false);
  key.environment = from.text("environment", false);
  key.mask = static_cast<std::uint16_t>(from.integer("mask", 0, 65535));
  const plan::FusionMask mask{key.mask};
  if (plan::FusionPlan::from_mask(mask).canonical_mask() != mask) throw from.bad("mask", "a canonical mask");
  key.sources_hash = from.text("sources_hash", false);
  key.data = from.text("data");
  key.cache_mode = cache_mode(from);
  key.protocol = from.small("protocol", 1);
  key.settings = from.text("settings", false);
  return key;
}

/// Builds contents from line after line.
class Reader {
 public:
  void read(const Json& json);
  Contents take() { return std::move(contents_); }
  int duplicates() const { return duplicates_; }

 private:
  void read_header(const Line& from);
  void read_environment(const Line& from);
  void read_run(const Line& from);
  void read_segment(const Line& from);
  void read_plan(const Line& from);
  void read_comparison(const Line& from);
  void read_trial(const Line& from, Trial& trial) const;
  void require_environment(const Line& from, const std::string& fingerprint) const;
  std::int64_t read_run_number(const Line& from) const;
  /// Adds a record, or puts it in the place of a slower one with this key.
  template <typename Record>
  void add(std::vector<Record>& records, std::map<std::string, std::size_t>& places, const std::string& key,
           Record record);

  bool header_ = false;
  Contents contents_;
  std::set<std::string> environments_;
  std::set<std::int64_t> runs_;
  std::map<std::string, std::size_t> segments_, plans_;  // places by key
  int duplicates_ = 0;
};

void Reader::read(const Json& json) {
  const Line from(json);
  const std::string kind = from.text("kind");
  if (!header_) return read_header(from);
  if (kind == "environment") return read_environment(from);
  if (kind == "run") return read_run(from);
  if (kind == "segment") return read_segment(from);
  if (kind == "plan") return read_plan(from);
  if (kind == "comparison") return read_comparison(from);
  throw from.bad("kind", "environment, run, segment, plan or comparison");
}

void Reader::read_header(const Line& from) {
  if (from.text("kind") != "fusetune records")
    throw from.bad("kind", "`fusetune records`, as in the first line of every export");
  if (from.integer("version", 1) > kVersion)
    throw base::UsageError("version " + std::to_string(from.integer("version", 1)) +
                           ": this fusetune reads up to version " + std::to_string(kVersion) +
                           "; use the newer fusetune that wrote it");
  header_ = true;
}

void Reader::read_environment(const Line& from) {
  EnvironmentRecord environment{from.text("fingerprint", false), {}};
  const Json& fields = from.at("fields");
  if (!fields.is_object()) throw from.bad("fields", "an object of texts");
  for (const auto& [name, value] : fields.items()) {
    if (!value.is_string()) throw from.bad("fields", "an object of texts");
    environment.fields[name] = value.get<std::string>();
  }
  if (!environments_.insert(environment.fingerprint).second)
    throw base::UsageError("the environment " + environment.fingerprint + " is there twice");
  contents_.environments.push_back(std::move(environment));
}

void Reader::require_environment(const Line& from, const std::string& fingerprint) const {
  if (!environments_.contains(fingerprint))
    throw from.bad("environment", "one that an earlier line describes");
}

std::int64_t Reader::read_run_number(const Line& from) const {
  const std::int64_t run = from.integer("run", 1);
  if (!runs_.contains(run)) throw from.bad("run", "one that an earlier line describes");
  return run;
}

void Reader::read_run(const Line& from) {
  RunRecord run;
  run.id = from.integer("run", 1);
  run.problem = from.text("problem", false);
  run.environment = from.text("environment", false);
  require_environment(from, run.environment);
  const std::string state = from.text("state");
  run.state = RunState::running;
  for (const RunState known : {RunState::finished, RunState::interrupted, RunState::failed})
    if (state == name(known)) run.state = known;
  if (run.state == RunState::running) throw from.bad("state", "finished, interrupted or failed");
  run.started = from.integer("started", 0);
  if (from.has("finished")) run.finished = from.integer("finished", run.started);
  run.options = json_text(from, "options", false);
  run.finalists_hash = from.text("finalists_hash");
  run.result = json_text(from, "result", true);
  if (!runs_.insert(run.id).second)
    throw base::UsageError("the run " + std::to_string(run.id) + " is there twice");
  contents_.runs.push_back(std::move(run));
}

void Reader::read_trial(const Line& from, Trial& trial) const {
  measure::Measurement& measurement = trial.measurement;
  read_time(from, measurement);
  if (measurement.outcome == Outcome::ok) {
    const Json& samples = from.at("samples_us");
    if (!samples.is_array()) throw from.bad("samples_us", "an array of numbers");
    for (const Json& sample : samples) {
      if (!sample.is_number() || !(sample.get<double>() > 0)) throw from.bad("samples_us", "numbers above 0");
      measurement.samples_us.push_back(sample.get<double>());
    }
    if (!samples.empty() && static_cast<int>(samples.size()) != measurement.time.count)
      throw from.bad("samples_us", "as many as sample_count says, or none");
  }
  measurement.dropped = from.small("dropped", 0);
  measurement.norm_error = from.number_or("norm_error", 0, true);
  measurement.worst_error = from.number_or("worst_error", 0, true);
  if (from.names("reference_us")) {
    measurement.reference_us = from.number("reference_us");
    measurement.slowdown = from.number("slowdown");
  }
  read_device(from, measurement);
  trial.attempts = from.small("attempts", 1);
  trial.abandoned = from.small("abandoned", 0);
  trial.repeat_command = from.text("repeat_command");
  trial.limits = {from.number_or("compile_limit_s", 0), from.number_or("run_limit_s", 0)};
  if (from.has("run")) trial.run = read_run_number(from);
  trial.created = from.integer("created", 1);
}

template <typename Record>
void Reader::add(std::vector<Record>& records, std::map<std::string, std::size_t>& places,
                 const std::string& key, Record record) {
  const auto [place, is_new] = places.emplace(key, records.size());
  if (is_new) {
    records.push_back(std::move(record));
    return;
  }
  ++duplicates_;
  Record& known = records[place->second];
  const bool timed = record.measurement.outcome == Outcome::ok;
  const bool known_timed = known.measurement.outcome == Outcome::ok;
  const bool faster = record.measurement.time.median_us < known.measurement.time.median_us;
  if (timed && (!known_timed || faster)) known = std::move(record);
}

void Reader::read_segment(const Line& from) {
  TuningRecord segment;
  SegmentKey& key = segment.key;
  key.problem = from.text("problem", false);
  key.environment = from.text("environment", false);
  require_environment(from, key.environment);
  key.variant = from.small("variant", 0, plan::kVariantCount - 1);
  key.source_hash = from.text("source_hash", false);
  key.layouts = from.text("layouts");
  key.data = from.text("data");
  key.cache_mode = cache_mode(from);
  key.protocol = from.small("protocol", 1);
  key.settings = from.text("settings", false);
  segment.schedule = from.text("schedule");
  read_trial(from, segment);
  const std::string place = Json({key.problem, key.environment, key.variant, key.source_hash, key.layouts,
                                  key.data, key.cache_mode, key.protocol, key.settings})
                                .dump();
  add(contents_.segments, segments_, place, std::move(segment));
}

void Reader::read_plan(const Line& from) {
  PlanRecord plan;
  static_cast<PlanKey&>(plan) = read_plan_key(from);
  require_environment(from, plan.environment);
  if (from.has("typed_mask"))
    plan.typed_mask = static_cast<std::uint16_t>(from.integer("typed_mask", 0, 65535));
  const Json& schedules = from.at("schedules");
  if (!schedules.is_array()) throw from.bad("schedules", "an array of texts");
  for (const Json& schedule : schedules) {
    if (!schedule.is_string()) throw from.bad("schedules", "an array of texts");
    plan.schedules.push_back(schedule.get<std::string>());
  }
  plan.sum_us = from.number_or("sum_us", 0);
  plan.sampled = parse_sampled(from.text("sampled"));
  read_trial(from, plan);
  const std::string place = plan_key(plan).dump();
  add(contents_.plans, plans_, place, std::move(plan));
}

void Reader::read_comparison(const Line& from) {
  ComparisonRecord comparison;
  const std::int64_t run = read_run_number(from);
  const Line key(from.at("plan"));
  static_cast<PlanKey&>(comparison.plan) = read_plan_key(key);
  if (!plans_.contains(plan_key(comparison.plan).dump()))
    throw from.bad("plan", "one that an earlier line describes");
  read_time(from, comparison.plan.measurement);
  read_device(from, comparison.plan.measurement);
  comparison.pairs = from.small("pairs", 0);
  if (comparison.plan.measurement.outcome == Outcome::ok) {
    comparison.ratio = from.number("ratio");
    comparison.low = from.number_or("low", 0, true);
    comparison.high = from.number_or("high", std::numeric_limits<double>::infinity());
    if (comparison.low > comparison.ratio) throw from.bad("low", "a number of at most the ratio");
    if (comparison.high < comparison.ratio) throw from.bad("high", "a number of at least the ratio");
  }
  if (from.has("whole_over_sum")) {
    comparison.whole_over_sum = {
        from.number("whole_over_sum"), from.number_or("whole_over_sum_low", 0, true),
        from.number_or("whole_over_sum_high", std::numeric_limits<double>::infinity())};
    const ComparisonRecord::WholeOverSum& whole = *comparison.whole_over_sum;
    if (whole.low > whole.ratio || whole.high < whole.ratio)
      throw from.bad("whole_over_sum", "a number within its own interval");
  }
  contents_.finalists[run].push_back(std::move(comparison));
}

}  // namespace

std::string to_json_lines(const Contents& contents) {
  std::string text = line({{"kind", "fusetune records"}, {"version", kVersion}});
  for (const EnvironmentRecord& environment : contents.environments) {
    text += line(
        {{"kind", "environment"}, {"fingerprint", environment.fingerprint}, {"fields", environment.fields}});
  }
  std::map<std::int64_t, std::int64_t> numbers;
  for (const RunRecord& run : contents.runs) {
    const auto number = static_cast<std::int64_t>(numbers.size()) + 1;
    numbers[run.id] = number;
    text += line(run_json(run, number));
  }
  for (const TuningRecord& segment : contents.segments) {
    Json json = segment_json(segment);
    put_trial(json, segment, numbers);
    text += line(json);
  }
  for (const PlanRecord& plan : contents.plans) {
    Json json = plan_json(plan);
    put_trial(json, plan, numbers);
    text += line(json);
  }
  for (const RunRecord& run : contents.runs) {
    const auto finalists = contents.finalists.find(run.id);
    if (finalists == contents.finalists.end()) continue;
    for (const ComparisonRecord& comparison : finalists->second)
      text += line(comparison_json(comparison, numbers[run.id]));
  }
  return text;
}

Contents parse_json_lines(std::string_view text, const std::string& name, int& duplicates) {
  Reader reader;
  int number = 0;
  for (const std::string& content : base::split(text, '\n')) {
    ++number;
    if (base::trim(content).empty()) continue;
    try {
      const Json json = Json::parse(content);
      reader.read(json);
    } catch (const base::UsageError& error) {
      throw base::UsageError(name + ":" + std::to_string(number) + ": " +
                             std::string(base::trim(error.what())));
    } catch (const nlohmann::json::exception&) {
      throw base::UsageError(name + ":" + std::to_string(number) +
                             ": not a line of JSON (NaN and infinity are no numbers)");
    }
  }
  duplicates += reader.duplicates();
  return reader.take();
}

}  // namespace fusetune::store
