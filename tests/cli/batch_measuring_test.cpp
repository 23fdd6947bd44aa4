// Whose turn it is: the jobs of a batch, with a stand-in for the devices and for the database.
#include "cli/batch_measuring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <vector>

namespace fusetune::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Jobs = std::vector<std::size_t>;

/// So many devices, of which the one that began first is done first.
MeasureBatch devices(std::size_t count) {
  return [count](const measure::NextCandidate& next, const measure::MeasuredCandidate& done) {
    std::deque<std::size_t> running;
    for (;;) {
      while (running.size() < count) {
        const std::optional<measure::BatchCandidate> candidate = next(running.empty());
        if (!candidate) break;
        running.push_back(candidate->id);
      }
      if (running.empty()) return;
      const std::size_t first = running.front();
      running.pop_front();
      measure::Measurement measurement;
      measurement.outcome = measure::Outcome::ok;
      done(first, measurement);
    }
  };
}

/// A search that writes down what it is asked to do.
struct Search {
  std::map<std::size_t, Turn> turns;  // of jobs that are not granted; a held one is answered if waited for
  std::size_t may_measure = 100;
  Jobs finished, released, waited_for;
  int progressed = 0;

  BatchSteps steps() {
    return {.may_begin = [this](std::size_t measuring) { return finished.size() + measuring < may_measure; },
            .claim =
                [this](std::size_t job, bool wait) {
                  const auto turn = turns.find(job);
                  if (turn == turns.end()) return Turn::granted;
                  if (turn->second != Turn::held || !wait) return turn->second;
                  waited_for.push_back(job);
                  return Turn::answered;
                },
            .kernels = [](std::size_t /*job*/) { return measure::PlanKernels{}; },
            .release = [this](std::size_t job) { released.push_back(job); },
            .finish = [this](std::size_t job,
                             const measure::Measurement& /*measurement*/) { finished.push_back(job); },
            .progressed = [this] { ++progressed; }};
  }
};

TEST(BatchMeasuring, OneDeviceWaitsForAJobThatAnotherSearchHasAndKeepsTheOrder) {
  Search search;
  search.turns = {{1, Turn::held}, {3, Turn::answered}};
  EXPECT_THAT(measure_jobs(devices(1), 5, false, search.steps()), IsEmpty());
  EXPECT_THAT(search.finished, ElementsAre(0, 2, 4));
  EXPECT_THAT(search.waited_for, ElementsAre(1));
  EXPECT_THAT(search.released, IsEmpty());
  EXPECT_EQ(search.progressed, 5) << "measured or answered";
}

TEST(BatchMeasuring, SeveralDevicesPassItOverWhileTheyMeasureAndWaitAtTheEnd) {
  Search search;
  search.turns = {{1, Turn::held}};
  bool is_measuring = false;
  BatchSteps steps = search.steps();
  steps.claim = [&, claim = steps.claim](std::size_t job, bool wait) {
    if (job == 1 && wait) is_measuring = search.finished.size() < 3;
    return claim(job, wait);
  };
  EXPECT_THAT(measure_jobs(devices(2), 4, false, steps), IsEmpty());
  EXPECT_THAT(search.finished, ElementsAre(0, 2, 3));
  EXPECT_THAT(search.waited_for, ElementsAre(1));
  EXPECT_FALSE(is_measuring) << "a result of ours would have waited to be stored";
}

TEST(BatchMeasuring, WhatMayNotBeginIsLeft) {
  Search search;
  search.may_measure = 3;
  EXPECT_THAT(measure_jobs(devices(2), 5, true, search.steps()), ElementsAre(3, 4));
  EXPECT_THAT(search.finished, ElementsAre(0, 1, 2)) << "what is measured counts before it is done";
}

TEST(BatchMeasuring, WhatIsThrownGivesTheClaimsBack) {
  struct Enough {};
  Search search;
  BatchSteps steps = search.steps();
  steps.kernels = [&](std::size_t job) {
    if (job == 2) throw Enough{};
    return measure::PlanKernels{};
  };
  EXPECT_THROW(measure_jobs(devices(3), 5, false, steps), Enough);
  EXPECT_THAT(search.released, ElementsAre(0, 1, 2));
  EXPECT_THAT(search.finished, IsEmpty());
}

TEST(BatchMeasuring, CandidatesSayWhetherTheyAreWholePlans) {
  for (const bool whole : {false, true}) {
    Search search;
    std::vector<bool> seen;
    measure_jobs(
        [&](const measure::NextCandidate& next, const measure::MeasuredCandidate& /*done*/) {
          while (const auto candidate = next(true)) seen.push_back(candidate->whole);
        },
        2, whole, search.steps());
    EXPECT_THAT(seen, ElementsAre(whole, whole));
  }
}

}  // namespace
}  // namespace fusetune::cli
