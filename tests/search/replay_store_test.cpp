// A store's rows replayed as a device: what a search measured once, strategies can be tested on for ever.
#include <gtest/gtest.h>

#include "base/file.h"
#include "search/replay.h"
#include "store/tuning_store.h"

namespace fusetune::search {
namespace {

store::TuningRecord row(int variant, double us) {
  store::TuningRecord record;
  record.key = {.problem = "p",
                .environment = "e",
                .variant = variant,
                .source_hash = "s" + std::to_string(variant),
                .layouts = "",
                .data = "generated",
                .cache_mode = "model",
                .protocol = 1};
  record.schedule = lower::Schedule{}.to_string();
  if (us > 0) {
    record.measurement.outcome = measure::Outcome::ok;
    record.measurement.time = {us, 0, us, 1};
    record.measurement.samples_us = {us};
  } else {
    record.measurement.outcome = measure::Outcome::crashed;
    record.measurement.message = "signal 11";
  }
  return record;
}

TEST(ReplayStore, SearchesWhatWasStored) {
  const base::TemporaryDirectory directory;
  store::TuningStore store(directory.path() / "t.db");
  store.begin_run("p", {"e", {}}, "{}");
  for (int variant = 0; variant < plan::kVariantCount; ++variant) {
    const plan::Segment& segment = plan::all_variants()[static_cast<std::size_t>(variant)].segment;
    // Every kernel costs 10 us and 1 us per operator; the whole block in one crashes.
    store.record(row(variant, segment.size() == block::kOperatorCount ? 0 : 10.0 + segment.size()));
  }
  std::vector<Recording> recordings;
  for (const store::TuningRecord& record : store.records("p", "e", "model")) {
    const measure::Measurement& measurement = record.measurement;
    recordings.push_back({record.key.variant,
                          record.schedule,
                          {measurement.outcome == measure::Outcome::ok, measurement.time.median_us}});
  }
  const Replay replay(recordings);
  const auto strategy = make_strategy("exhaustive", replay.space(), 0);
  const ReplayResult result = replay_search(*strategy, replay);
  EXPECT_EQ(result.trials, plan::kVariantCount);
  EXPECT_EQ(result.best.count(), plan::kVariantCount - 2);
  const auto best = plan::cheapest_plans(result.best.costs(), 1);
  EXPECT_EQ(best.at(0).plan.kernel_count(), 2);
  EXPECT_DOUBLE_EQ(best.at(0).cost, 35);
}

}  // namespace
}  // namespace fusetune::search
