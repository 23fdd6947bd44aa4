// Exported rows, as `db import` reads them: what is accepted is written as the same rows again and fits a
// store.
#include "base/file.h"
#include "store/json_lines.h"
#include "store/tuning_store.h"
#include "target.h"

namespace fusetune::fuzz {
namespace {

template <typename Record>
Record timed(Record record, double us) {
  record.run = 1;
  record.created = 1'700'000'001;
  record.repeat_command = "fusetune verify 0";
  record.limits = {120, 60};
  record.measurement.outcome = measure::Outcome::ok;
  record.measurement.time = {us, 0.25, us - 0.5, 2};
  record.measurement.samples_us = {us - 0.5, us + 0.5};
  record.measurement.norm_error = 1e-7;
  record.measurement.reference_us = 60;
  record.measurement.slowdown = 1.25;
  record.measurement.device_uuid = "GPU-1";
  return record;
}

/// A search of one segment and two plans, one of which failed.
store::Contents rows() {
  store::Contents contents;
  contents.environments = {{"aa11", {{"isa", "avx2"}, {"compiler", "gcc \"12\""}}}};
  contents.runs = {{.id = 1,
                    .problem = "p",
                    .environment = "aa11",
                    .state = store::RunState::finished,
                    .started = 1'700'000'000,
                    .finished = 1'700'000'009,
                    .options = "{}",
                    .finalists_hash = "inputs",
                    .result = "{\"best\": 1}"}};
  store::TuningRecord segment;
  segment.key = {.problem = "p",
                 .environment = "aa11",
                 .variant = 3,
                 .source_hash = "s",
                 .layouts = "w=panel16",
                 .cache_mode = "model"};
  segment.schedule = "tile=6x16";
  contents.segments = {timed(segment, 12.5)};
  store::PlanRecord plan;
  plan.problem = "p", plan.environment = "aa11", plan.sources_hash = "s", plan.cache_mode = "model";
  plan.typed_mask = 65535;
  plan.schedules = {"tile=6x16"};
  plan.sum_us = 101;
  store::PlanRecord failed = plan;
  failed.mask = 1;
  failed.created = 1'700'000'002;
  failed.measurement.outcome = measure::Outcome::timeout;
  failed.measurement.message = "60 s";
  contents.plans = {timed(plan, 100), failed};
  store::ComparisonRecord baseline, other;
  baseline.plan = contents.plans[0];
  baseline.ratio = baseline.low = baseline.high = 1;
  baseline.whole_over_sum = {0.98, 0.97, 0.99};
  other.plan = failed;
  contents.finalists[1] = {baseline, other};
  return contents;
}

/// Of rows that were accepted, which anything but room on the disk may keep from being stored.
void store_them(const store::Contents& contents) {
  static const base::TemporaryDirectory directory;
  const std::filesystem::path file = directory.path() / "rows.db";
  {
    store::TuningStore store(file);
    store.absorb(contents);
    require(store.check().empty(), "the store is sound");
  }
  for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(file.string() + end);
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  store::Contents one_plan = rows();
  one_plan.segments.clear(), one_plan.finalists.clear(), one_plan.runs.clear();
  return {store::to_json_lines(rows()), store::to_json_lines(one_plan), store::to_json_lines({})};
}

}  // namespace fusetune::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fusetune;
  int duplicates = 0;
  const auto read =
      fuzz::accepted([&] { return store::parse_json_lines(fuzz::text_of(data, size), "input", duplicates); });
  if (!read) return 0;
  const std::string written = store::to_json_lines(*read);
  duplicates = 0;
  const auto again = fuzz::accepted([&] { return store::parse_json_lines(written, "again", duplicates); });
  fuzz::require(again && duplicates == 0, "rows read back: " + written);
  fuzz::require(store::to_json_lines(*again) == written, "rows are written as they were read: " + written);
  fuzz::store_them(*read);
  return 0;
}
