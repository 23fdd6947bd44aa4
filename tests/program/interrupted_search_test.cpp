// Ctrl-C in each phase of a search: it ends soon, says how to continue, leaves a sound database without
// claims, and the search that is started again comes to its end.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <ostream>
#include <string>

#include "small_search.h"

namespace fusetune::cli_test {
namespace {

using testing::HasSubstr;

/// Far less than --compile-timeout and --run-timeout, far more than a busy machine takes.
constexpr auto kSoon = std::chrono::seconds(30);

class InterruptedSearch : public SmallSearch {
 public:
  bool exists(const char* file) const { return std::filesystem::exists(at(file)); }
  using SmallSearch::ask;
  using SmallSearch::in_the_finals;

 protected:
  void interrupt_when(const std::string& options, const std::function<bool()>& condition) {
    start(options);
    wait_until(condition);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_TRUE(send(SIGINT)) << "it ended by itself";
    EXPECT_EQ(end(), 130) << base::read_file(at("err"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, kSoon);
    EXPECT_THAT(base::read_file(at("out")),
                HasSubstr("is in small.db; to continue:\n  fusetune search --batch 1"));
    expect_sound();
    EXPECT_EQ(with_outcome("started"), 0);
    EXPECT_EQ(ask("SELECT count(*) FROM search_run WHERE state = 'interrupted'"), 1);
  }
  void expect_good_end(const std::string& options) const {
    const Outcome resumed = run(kSmallSearch + options);
    EXPECT_EQ(resumed.exit_code, 0) << resumed.out << resumed.err;
    EXPECT_THAT(resumed.out, HasSubstr("best plan"));
    expect_sound();
  }
};

struct Phase {
  std::string name;
  std::string options;  // of the search that is interrupted
  std::function<bool(const InterruptedSearch&)> reached;
  std::string resumed;  // options of the search that goes on
};

void PrintTo(const Phase& phase, std::ostream* out) { *out << phase.name; }

bool plans_are_timed(const InterruptedSearch& search) {
  return search.ask("SELECT count(*) FROM plan_measurement WHERE outcome = 'ok' AND sampled <> 'finalist'") >
         1;
}

/// Of guided, which may be content with two.
bool a_plan_is_begun(const InterruptedSearch& search) {
  return search.ask("SELECT count(*) FROM plan_measurement WHERE sampled <> 'finalist'") > 0;
}

Phase plans_of(const std::string& strategy) {
  return {"plans_of_" + strategy, " --strategy " + strategy, plans_are_timed,
          " --pairs 20 --trials 12 --strategy " + strategy};
}

/// Enough for a plan: all segments of one segmentation.
const std::string kFewSegments = " --strategy exhaustive --trials 30 --pairs 20";

const Phase kPhases[] = {
    {"compiling", " --strategy exhaustive --cxx ./hanging-c++",
     [](const auto& search) { return search.exists("compiling"); }, kFewSegments},
    {"finding_the_reference", " --strategy exhaustive",
     [](const auto& search) {
       return search.ask(
                  "SELECT count(*) FROM segment_measurement WHERE outcome = 'started'"
                  " AND NOT EXISTS (SELECT * FROM reference_time)") > 0;
     },
     kFewSegments},
    {"segments", " --strategy exhaustive",
     [](const auto& search) {
       return search.ask("SELECT count(*) FROM segment_measurement WHERE outcome = 'ok'") > 2;
     },
     kFewSegments},
    plans_of("random"),
    plans_of("mask"),
    plans_of("anneal"),
    {"plans_of_guided", " --strategy guided --early-stop 40", a_plan_is_begun,
     " --strategy guided --pairs 20 --trials 12"},
    {"finals", " --strategy random --trials 12 --pairs 100000",
     [](const auto& search) { return search.in_the_finals(); }, " --strategy random --trials 12 --pairs 20"},
};

class InterruptedPhase : public InterruptedSearch, public testing::WithParamInterface<Phase> {};

TEST_P(InterruptedPhase, SaysHowToContinueAndIsContinued) {
  // The first time it is to compile it never ends.
  base::write_file_atomic(at("hanging-c++"),
                          "#!/bin/sh\ncase \" $* \" in *' -c '*) mkdir compiling 2>/dev/null && sleep 600;; "
                          "esac\nexec c++ \"$@\"\n");
  std::filesystem::permissions(at("hanging-c++"), std::filesystem::perms::owner_all);
  const Phase& phase = GetParam();
  interrupt_when(phase.options, [&] { return phase.reached(*this); });
  expect_good_end(phase.resumed);
}

INSTANTIATE_TEST_SUITE_P(Phases, InterruptedPhase, testing::ValuesIn(kPhases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace fusetune::cli_test
