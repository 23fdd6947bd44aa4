// Batches on two devices, both of them this CPU: with real workers, whose start a test can make fail from
// some moment on, as that of a device which is lost.
//
// The machine may be busy, so that a timed candidate is one that ran right: `ok` or `noisy`.
#include "measure/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "block/data.h"
#include "block/mask.h"
#include "handmade_kernels.h"
#include "measure/shared_image.h"

namespace fusetune::measure {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

block::Problem small_problem() {
  block::Problem problem;
  problem.batch = 2;
  problem.seq = 8;
  problem.heads = 2;
  problem.head_size = 8;
  problem.ffn = 32;
  problem.layers = 2;
  return problem;
}

class BatchTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    cache_ = std::make_unique<base::TemporaryDirectory>();
    setenv("FUSETUNE_CACHE_DIR", cache_->path().c_str(), 1);
  }
  static void TearDownTestSuite() { cache_.reset(); }
  void TearDown() override {
    for (const char* name : {"a", "b"}) std::filesystem::remove("/tmp/fusetune-" + lock_name(name) + ".lock");
  }

  static std::string lock_name(const std::string& name) { return "batch-" + std::to_string(getpid()) + name; }
  std::filesystem::path lost_marker(const std::string& name) const {
    return directory_.path() / ("lost-" + name);
  }

  /// Workers of device `name` do not start any more once its marker is there.
  std::unique_ptr<MeasuringUnit> unit(const std::string& name) const {
    const std::filesystem::path program = directory_.path() / ("worker-" + name);
    base::write_file_atomic(program, "#!/bin/sh\n[ -e '" + lost_marker(name).string() +
                                         "' ] && exit 1\nexec '" + MEASURE_WORKER + "' \"$@\"\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    WorkerSetup setup;
    setup.problem = problem_;
    setup.executor.threads = 1;
    setup.samples = 2;
    setup.min_sample_seconds = 1e-4;
    setup.image = image_.path();
    return std::make_unique<MeasuringUnit>(
        DeviceInstance{.name = name, .uuid = "uuid-" + name, .lock = lock_name(name), .executor = {}},
        program,
        [this, setup] {
          ++setups_;
          return setup;
        },
        [] {});
  }
  MeasuringUnits units(const std::vector<std::string>& names) const {
    std::vector<std::unique_ptr<MeasuringUnit>> made;
    for (const std::string& name : names) made.push_back(unit(name));
    return MeasuringUnits(std::move(made));
  }

  /// Candidates that do this on thread 0 before their work, numbered in order.
  std::vector<BatchCandidate> candidates(const std::vector<std::string>& before) const {
    std::vector<codegen::AnyKernel> sources;
    for (std::size_t i = 0; i < before.size(); ++i)
      sources.emplace_back(merge_heads_kernel(problem_, "kernel_" + std::to_string(i), before[i]));
    SessionOptions options;
    options.threads = 1;
    options.runs = false;
    std::vector<BatchCandidate> made;
    for (auto& result : Session(problem_, options).compile(sources)) {
      EXPECT_EQ(result.status, backend::CompileResult::Status::ok) << result.log;
      made.push_back({made.size(), {std::move(result.kernel)}, false});
    }
    return made;
  }
  /// What ends the worker, and with it device `name`, the first time or every time.
  std::string loses(const std::string& name, bool every_time) const {
    const std::string path = "\"" + lost_marker(name).string() + "\"";
    return "extern int make(const char*, unsigned) __asm__(\"creat\"); "
           "extern int miss(const char*, int) __asm__(\"access\"); "
           "if (" +
           std::string(every_time ? "1" : "miss(" + path + ", 0)") + ") { make(" + path +
           ", 0600); __builtin_trap(); }";
  }

  struct Done {
    std::vector<std::size_t> order;
    std::map<std::size_t, Measurement> results;
  };
  /// Runs a batch of these to its end.
  Done run(const MeasuringUnits& units, std::vector<BatchCandidate> todo, double limit_s = 60) {
    Done done;
    auto next = todo.begin();
    batch(units, limit_s)
        ->run(
            [&](bool /*idle*/) {
              return next == todo.end() ? std::nullopt : std::optional(std::move(*next++));
            },
            [&](const BatchCandidate& candidate, Measurement measurement) {
              done.order.push_back(candidate.id);
              EXPECT_TRUE(done.results.emplace(candidate.id, std::move(measurement)).second);
            });
    return done;
  }
  std::unique_ptr<Batch> batch(const MeasuringUnits& units, double limit_s = 60) {
    const auto request = [](const BatchCandidate& candidate) {
      Request request;
      request.task = Task::measure;
      request.plans = {candidate.kernels};
      request.retry_seconds = 0.2;
      return request;
    };
    return std::make_unique<Batch>(
        units, Batch::Asking{request, {limit_s, false}}, [] {}, spent_);
  }

  base::TemporaryDirectory directory_;
  block::Problem problem_ = small_problem();
  SharedImage image_ = SharedImage::create(problem_, block::Mask(problem_.mask, problem_.batch, problem_.seq),
                                           block::generate_data(problem_));
  Spent spent_;
  mutable int setups_ = 0;  // workers that were told what they work on

 private:
  static std::unique_ptr<base::TemporaryDirectory> cache_;
};
std::unique_ptr<base::TemporaryDirectory> BatchTest::cache_;

TEST_F(BatchTest, EachIsMeasuredOnceAndBothDevicesTakeSome) {
  const MeasuringUnits both = units({"a", "b"});
  const Done done = run(both, candidates({"", "", "", "", ""}));
  EXPECT_THAT(done.order, UnorderedElementsAre(0, 1, 2, 3, 4));
  std::map<std::string, int> measured;
  for (const auto& [id, measurement] : done.results) {
    EXPECT_TRUE(ran_right(measurement.outcome)) << measurement.message;
    ++measured[measurement.device_uuid];
  }
  EXPECT_GT(measured["uuid-a"], 0);
  EXPECT_GT(measured["uuid-b"], 0);
  EXPECT_EQ(both.uses()[0].measured, measured["uuid-a"]);
  EXPECT_EQ(both.uses()[1].measured, measured["uuid-b"]);
  EXPECT_EQ(spent_.measured, 5);
  EXPECT_GT(spent_.measure_s, 0);
}

// Data and oracle may not exist before.
TEST_F(BatchTest, AWorkerIsToldWhatItWorksOnWhenItStarts) {
  const auto some = candidates({"", "__builtin_trap();", ""});
  const MeasuringUnits one = units({"a"});
  EXPECT_EQ(setups_, 0) << "no worker runs yet";
  run(one, {some[0]});
  EXPECT_EQ(setups_, 1);
  run(one, {some[0]});
  EXPECT_EQ(setups_, 1) << "the same worker";
  run(one, {some[1], some[2]});
  EXPECT_GT(setups_, 1) << "another one after it crashed";
}

TEST_F(BatchTest, OnOneDeviceTheyAreMeasuredInTheirOrder) {
  const Done done = run(units({"a"}), candidates({"", "__builtin_trap();", ""}));
  EXPECT_THAT(done.order, ElementsAre(0, 1, 2));
  EXPECT_EQ(done.results.at(1).outcome, Outcome::crashed);
  EXPECT_TRUE(ran_right(done.results.at(2).outcome)) << done.results.at(2).message;
}

TEST_F(BatchTest, ACandidateThatHangsOrCrashesCostsItselfOnly) {
  const MeasuringUnits both = units({"a", "b"});
  const Done done =
      run(both, candidates({"for (volatile int go = 1; go;) {}", "__builtin_trap();", "", ""}), 1);
  EXPECT_EQ(done.results.at(0).outcome, Outcome::timeout);
  EXPECT_EQ(done.results.at(1).outcome, Outcome::crashed);
  for (const std::size_t right : {2, 3})
    EXPECT_TRUE(ran_right(done.results.at(right).outcome)) << done.results.at(right).message;
  for (const DeviceUse& use : both.uses()) EXPECT_FALSE(use.lost) << use.name;
}

TEST_F(BatchTest, WhatADeviceWasLostWithIsMeasuredOnAnother) {
  const MeasuringUnits both = units({"a", "b"});
  testing::internal::CaptureStderr();
  const Done done = run(both, candidates({loses("a", false), "", ""}));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("a is lost, the others go on without it: "));
  ASSERT_EQ(done.results.size(), 3U);
  for (const auto& [id, measurement] : done.results) {
    EXPECT_TRUE(ran_right(measurement.outcome)) << id << ": " << measurement.message;
    EXPECT_EQ(measurement.device_uuid, "uuid-b");
  }
  EXPECT_TRUE(both.uses()[0].lost);
  EXPECT_EQ(both.uses()[0].measured, 0);
  EXPECT_FALSE(both.uses()[1].lost);
  // It stays out.
  EXPECT_EQ(run(both, candidates({""})).results.at(0).device_uuid, "uuid-b");
}

TEST_F(BatchTest, WhatEndsTheSecondWorkerTooIsToBlame) {
  const MeasuringUnits both = units({"a", "b"});
  testing::internal::CaptureStderr();
  const Done done = run(both, candidates({loses("a", true), "", ""}));
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(done.results.at(0).outcome, Outcome::crashed);
  EXPECT_EQ(done.results.at(0).device_uuid, "uuid-b");
  for (const std::size_t right : {1, 2}) EXPECT_TRUE(ran_right(done.results.at(right).outcome));
  EXPECT_FALSE(both.uses()[1].lost);
}

TEST_F(BatchTest, TheLastDevicesLossIsAnErrorAfterTheCandidateThatMadeIt) {
  const MeasuringUnits one = units({"a"});
  std::vector<BatchCandidate> todo = candidates({loses("a", true), ""});
  const Done done = run(one, {todo[0]});
  EXPECT_EQ(done.results.at(0).outcome, Outcome::crashed);
  EXPECT_THROW(run(one, {todo[1]}), base::EnvironmentError);
  EXPECT_FALSE(one.uses()[0].lost) << "there is no other to go on with";
}

TEST_F(BatchTest, ADeviceThatAnotherSearchTimesOnIsLeftAlone) {
  const MeasuringUnits both = units({"a", "b"});
  DeviceLock other(lock_name("a"));
  const DeviceLock::Hold hold = other.for_timing();
  const Done done = run(both, candidates({"", "", ""}));
  EXPECT_EQ(both.uses()[0].measured, 0);
  EXPECT_EQ(both.uses()[1].measured, 3);
}

TEST_F(BatchTest, WhatIsThrownEndsTheOtherDevicesWork) {
  struct Enough {};
  const MeasuringUnits both = units({"a", "b"});
  std::vector<BatchCandidate> todo = candidates({"", "for (volatile int go = 1; go;) {}", "", ""});
  auto next = todo.begin();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(batch(both)->run([&](bool /*idle*/) { return std::optional(*next++); },
                                [](const BatchCandidate& /*candidate*/, const Measurement& /*measurement*/) {
                                  throw Enough{};
                                }),
               Enough);
  const Done done = run(both, {todo[2], todo[3]});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(40))
      << "the hanging one was waited for";
  for (const std::size_t right : {2, 3}) EXPECT_TRUE(ran_right(done.results.at(right).outcome));
}

// A search with one candidate left waits for another's while nothing of its own runs, and else does not.
TEST_F(BatchTest, IdleIsWhenNothingIsMeasured) {
  const MeasuringUnits both = units({"a", "b"});
  std::vector<BatchCandidate> todo = candidates({"", ""});
  std::vector<bool> idle;
  std::size_t given = 0;
  batch(both)->run(
      [&](bool is_idle) -> std::optional<BatchCandidate> {
        idle.push_back(is_idle);
        if (given == todo.size() || (given == 1 && !is_idle)) return std::nullopt;
        return todo[given++];
      },
      [](const BatchCandidate& /*candidate*/, const Measurement& /*measurement*/) {});
  EXPECT_EQ(given, 2U);
  EXPECT_TRUE(idle.front());
  EXPECT_FALSE(idle[1]) << "the first is being measured";
  EXPECT_TRUE(idle.back());
}

}  // namespace
}  // namespace fusetune::measure
