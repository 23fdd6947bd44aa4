// Sessions with real compilers, workers and kernels, most of them bad ones.
//
// The machine that runs tests may be busy, so that any timing may come out `noisy`: a timed candidate is one
// that passed its check and is `ok` or `noisy`.
#include "measure/session.h"

#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "block/data.h"
#include "block/npy.h"
#include "block/reference.h"
#include "handmade_kernels.h"

namespace fusetune::measure {
namespace {

using backend::CompiledKernel;

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

SessionOptions quick_options() {
  SessionOptions options;
  options.program = MEASURE_WORKER;
  options.threads = 2;
  options.samples = 3;
  options.min_sample_seconds = 2e-4;
  options.run_timeout = 20;
  return options;
}

SessionOptions on_one_thread() {
  SessionOptions options = quick_options();
  options.threads = 1;
  return options;
}

/// One compiler cache for all tests of this program, away from the user's.
class SessionTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    cache_ = std::make_unique<base::TemporaryDirectory>();
    setenv("FUSETUNE_CACHE_DIR", cache_->path().c_str(), 1);
  }
  static void TearDownTestSuite() { cache_.reset(); }

  static std::vector<CompiledKernel> compile(Session& session,
                                             const std::vector<codegen::AnyKernel>& sources) {
    std::vector<CompiledKernel> kernels;
    for (const auto& result : session.compile(sources)) {
      EXPECT_EQ(result.status, backend::CompileResult::Status::ok) << result.log;
      kernels.push_back(result.kernel);
    }
    return kernels;
  }

  static void expect_timed(const Measurement& measurement, int samples) {
    EXPECT_TRUE(measurement.outcome == Outcome::ok || measurement.outcome == Outcome::noisy)
        << name(measurement.outcome) << ": " << measurement.message;
    if (measurement.outcome != Outcome::ok) {
      EXPECT_TRUE(measurement.samples_us.empty());
      EXPECT_EQ(measurement.time.count, 0);
      EXPECT_FALSE(measurement.message.empty());
      return;
    }
    EXPECT_EQ(static_cast<int>(measurement.samples_us.size()), samples);
    for (const double sample : measurement.samples_us) {
      EXPECT_TRUE(std::isfinite(sample));
      EXPECT_GT(sample, 0);
    }
    EXPECT_EQ(measurement.time.count, samples);
    EXPECT_GE(measurement.time.median_us, measurement.time.min_us);
    EXPECT_LE(measurement.norm_error, 1e-5);
  }

 private:
  static std::unique_ptr<base::TemporaryDirectory> cache_;
};
std::unique_ptr<base::TemporaryDirectory> SessionTest::cache_;

TEST_F(SessionTest, BadCandidatesCostThemselvesOnly) {
  const block::Problem problem = small_problem();
  SessionOptions options = quick_options();
  options.run_timeout = 4;
  Session session(problem, options);
  struct Case {
    const char* before;
    const char* after;
    Outcome outcome;
    const char* says;
  };
  const std::vector<Case> cases = {
      {"", "", Outcome::ok, ""},
      {"*(volatile int*)0 = 1;", "", Outcome::crashed, "SIGSEGV"},
      {"", "", Outcome::ok, ""},
      {"__builtin_trap();", "", Outcome::crashed, "SIGILL"},
      {"extern void stop() __asm__(\"abort\"); stop();", "", Outcome::crashed, "SIGABRT"},
      {"extern void stop(int) __asm__(\"_exit\"); stop(3);", "", Outcome::crashed, "exit code 3"},
      {"for (;;) __asm__ volatile(\"\");", "", Outcome::timeout, "within 4 s"},
      {"", "merged[5] += 0.5f;", Outcome::wrong_result, "merged at [0,0,5]"},
      {"", "merged[17] = __builtin_nanf(\"\");", Outcome::wrong_result, "merged at [0,1,1]: got nan"},
      {"", "merged[elements] = 1;", Outcome::wrong_result, "guard bytes"},
      {"", "merged[-1] = 1;", Outcome::wrong_result, "guard bytes"},
      {"", "context[0] += 1;", Outcome::wrong_result, "second time"},
      {"", "", Outcome::ok, ""},
  };
  std::vector<codegen::AnyKernel> sources;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    sources.push_back(
        merge_heads_kernel(problem, "case_" + std::to_string(i), cases[i].before, cases[i].after));
  }
  const auto kernels = compile(session, sources);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(std::string(cases[i].before) + cases[i].after);
    const Measurement measurement = session.measure_segment(kernels[i]);
    if (cases[i].outcome == Outcome::ok) {
      expect_timed(measurement, options.samples);
    } else {
      EXPECT_EQ(measurement.outcome, cases[i].outcome) << measurement.message;
      EXPECT_NE(measurement.message.find(cases[i].says), std::string::npos) << measurement.message;
      EXPECT_TRUE(measurement.samples_us.empty());
      EXPECT_EQ(measurement.time.count, 0);
    }
  }
}

TEST_F(SessionTest, UnwrittenRowsAreFound) {
  const block::Problem problem = small_problem();
  Session session(problem, quick_options());
  auto source = merge_heads_kernel(problem, "unwritten");
  const std::string loop = "long s = thread;";
  source.body.replace(source.body.find(loop), loop.size(), "long s = thread + 1;");
  const CheckResult check = session.check_segment(compile(session, {source})[0]);
  EXPECT_EQ(check.outcome, Outcome::wrong_result);
  ASSERT_EQ(check.tensors.size(), 1U);
  EXPECT_EQ(check.tensors[0].not_finite, 2 * 16);  // row 0 of both batch entries
  EXPECT_NE(check.message.find("not written"), std::string::npos) << check.message;
}

TEST_F(SessionTest, DamagedLibraryFailsToLaunch) {
  const block::Problem problem = small_problem();
  Session session(problem, quick_options());
  CompiledKernel kernel = compile(session, {merge_heads_kernel(problem, "to_damage")})[0];
  const base::TemporaryDirectory directory;
  kernel.image = directory.path() / "damaged.so";
  std::ofstream(kernel.image) << "\x7f"
                                 "ELF and no more";
  EXPECT_EQ(session.measure_segment(kernel).outcome, Outcome::launch_failed);
  kernel.image = directory.path() / "absent.so";
  EXPECT_EQ(session.check_segment(kernel).outcome, Outcome::launch_failed);
}

TEST_F(SessionTest, KilledFromOutsideTheCandidateIsTheOnlyLoss) {
  const block::Problem problem = small_problem();
  Session session(problem, quick_options());
  const base::TemporaryDirectory directory;
  const std::string file = (directory.path() / "pid").string();
  // The kernel hangs after it told its process number by a file's name: no headers needed.
  const std::string hang =
      "extern int pid() __asm__(\"getpid\"); extern int format(char*, const char*, ...) "
      "__asm__(\"sprintf\"); extern int make(const char*, int) __asm__(\"creat\"); char path[512]; "
      "format(path, \"%s.%d\", \"" +
      file +
      "\", pid()); make(path, 0600); "
      "for (;;) __asm__ volatile(\"\");";
  const auto kernels = compile(
      session, {merge_heads_kernel(problem, "hangs", hang), merge_heads_kernel(problem, "good_after_kill")});
  std::thread killer([&] {
    for (int turn = 0; turn < 1000; ++turn) {
      for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
        kill(static_cast<pid_t>(std::stol(entry.path().extension().string().substr(1))), SIGKILL);
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  const Measurement killed = session.measure_segment(kernels[0]);
  killer.join();
  EXPECT_EQ(killed.outcome, Outcome::crashed) << killed.message;
  EXPECT_NE(killed.message.find("SIGKILL"), std::string::npos) << killed.message;
  expect_timed(session.measure_segment(kernels[1]), 3);
}

TEST_F(SessionTest, WholePlans) {
  const block::Problem problem = small_problem();
  Session session(problem, on_one_thread());
  const auto kernels = compile(session, {block_kernel(problem, "whole"), block_kernel(problem, "slow", 3),
                                         block_kernel(problem, "wrong", 1, "output[3] = 0;"),
                                         block_kernel(problem, "crashing", 1, "__builtin_trap();")});
  const PlanKernels whole{kernels[0]}, slow{kernels[1]}, wrong{kernels[2]}, crashing{kernels[3]};

  const CheckResult check = session.check_plan(whole);
  EXPECT_EQ(check.outcome, Outcome::ok) << check.message;
  ASSERT_EQ(check.tensors.size(), 1U);
  EXPECT_EQ(check.tensors[0].tensor, "output");
  EXPECT_LE(check.tensors[0].norm_error, 1e-6);
  expect_timed(session.measure_plan(whole), 3);
  EXPECT_EQ(session.measure_plan(wrong).outcome, Outcome::wrong_result);

  const std::vector<float> output = session.run_plan(whole);
  const block::Mask mask(problem.mask, problem.batch, problem.seq);
  const auto reference = block::compute_reference(problem, mask, block::generate_data(problem), 1);
  ASSERT_EQ(output.size(), reference[block::Tensor::output].size());
  for (std::size_t i = 0; i < output.size(); ++i)
    EXPECT_NEAR(output[i], reference[block::Tensor::output][i], 1e-5);

  // A plan of one kernel is its own only segment.
  const PlanKernels beside_parts[] = {whole, crashing};
  const auto both = session.compare_with_parts(beside_parts, 16);
  ASSERT_EQ(both.size(), 2U);
  const PairedComparison& parts = both[0];
  if (parts.outcome == Outcome::ok) {
    EXPECT_NEAR(parts.ratio, 1, 0.3);
    EXPECT_LE(parts.low, parts.ratio);
    EXPECT_GE(parts.high, parts.ratio);
    EXPECT_GE(parts.pairs, 13);
  } else {
    EXPECT_EQ(parts.outcome, Outcome::noisy) << parts.message;
  }
  EXPECT_EQ(both[1].outcome, Outcome::crashed);

  const auto results = session.compare_plans(std::vector{whole, slow, wrong, crashing}, 40);
  ASSERT_EQ(results.size(), 4U);
  EXPECT_FALSE(results[2].tied());
  EXPECT_EQ(results[2].outcome, Outcome::wrong_result);
  EXPECT_EQ(results[3].outcome, Outcome::crashed);
  if (results[0].outcome == Outcome::ok && results[1].outcome == Outcome::ok) {
    EXPECT_EQ(results[0].ratio, 1);
    EXPECT_GT(results[1].ratio, 1.5);
    EXPECT_FALSE(results[1].tied());
    EXPECT_LE(results[1].low, results[1].ratio);
    EXPECT_GE(results[1].high, results[1].ratio);
    EXPECT_GT(results[1].time_b.median_us, results[1].time_a.median_us);
  }
  EXPECT_NE(results[0].outcome, Outcome::skipped);
}

TEST_F(SessionTest, ProfilesSayWhenEachKernelRan) {
  const block::Problem problem = small_problem();
  Session session(problem, on_one_thread());
  const auto kernels =
      compile(session, {block_kernel(problem, "whole"), block_kernel(problem, "wrong", 1, "output[3] = 0;")});
  const PlanProfile profile = session.profile_plan({kernels[0]}, 7);
  if (profile.outcome == Outcome::noisy) GTEST_SKIP() << "this machine is too busy to time anything";
  ASSERT_EQ(profile.outcome, Outcome::ok) << profile.message;
  ASSERT_EQ(profile.passes_us.size(), 7U);
  EXPECT_EQ(profile.passes_us[0][0], 0);
  double end = 0;
  for (const std::vector<double>& pass : profile.passes_us) {
    ASSERT_EQ(pass.size(), 2U);
    EXPECT_GE(pass[0], end);
    EXPECT_GT(pass[1], pass[0]);
    end = pass[1];
  }

  const PlanProfile wrong = session.profile_plan({kernels[1]}, 7);
  EXPECT_EQ(wrong.outcome, Outcome::wrong_result);
  EXPECT_TRUE(wrong.passes_us.empty());
  EXPECT_THROW(session.profile_plan({kernels[0]}, 0), base::InternalError);
}

TEST_F(SessionTest, CandidatesAreTimedBesideTheReferenceWhichIsAskedForOnce) {
  const block::Problem problem = small_problem();
  const SessionOptions options = on_one_thread();
  Session session(problem, options);
  const auto kernels =
      compile(session, {block_kernel(problem, "the_reference"), block_kernel(problem, "thrice", 3),
                        merge_heads_kernel(problem, "segment")});
  int asked = 0;
  session.time_beside([&] {
    ++asked;
    return TimingReference{{kernels[0]}, 0};
  });
  const Measurement same = session.measure_plan({kernels[0]});
  const Measurement thrice = session.measure_plan({kernels[1]});
  const Measurement segment = session.measure_segment(kernels[2]);
  EXPECT_EQ(asked, 1);
  for (const Measurement* each : {&same, &thrice, &segment}) {
    expect_timed(*each, options.samples);
    EXPECT_GT(each->reference_us, 0);
    EXPECT_EQ(each->reference_us, same.reference_us);
    EXPECT_GT(each->slowdown, 0);
  }
  if (same.outcome == Outcome::ok) {
    EXPECT_NEAR(same.time.median_us / same.reference_us, 1, 0.3);
  }
  if (thrice.outcome == Outcome::ok) {
    EXPECT_NEAR(thrice.time.median_us / thrice.reference_us, 3, 0.9);
  }
}

TEST_F(SessionTest, ABatchIsMeasuredInOrderBesideAReferenceThatIsAskedForOnlyThen) {
  const block::Problem problem = small_problem();
  const SessionOptions options = on_one_thread();
  Session session(problem, options);
  const auto kernels =
      compile(session, {block_kernel(problem, "beside"), merge_heads_kernel(problem, "right"),
                        merge_heads_kernel(problem, "trapped", "__builtin_trap();")});
  int asked = 0;
  session.time_beside([&] {
    ++asked;
    return TimingReference{{kernels[0]}, 0};
  });
  const auto ignored = [](std::size_t /*id*/, const Measurement& /*measurement*/) {};
  session.measure_batch([](bool /*idle*/) { return std::nullopt; }, ignored);
  EXPECT_EQ(asked, 0) << "there was nothing to time beside it";

  const std::vector<BatchCandidate> todo = {
      {7, {kernels[1]}, false}, {5, {kernels[2]}, false}, {6, {kernels[0]}, true}};
  auto next = todo.begin();
  std::vector<std::size_t> order;
  session.measure_batch(
      [&](bool idle) {
        EXPECT_TRUE(idle) << "one device does one thing at a time";
        return next == todo.end() ? std::nullopt : std::optional(*next++);
      },
      [&](std::size_t id, const Measurement& measurement) {
        order.push_back(id);
        if (id == 5) {
          EXPECT_EQ(measurement.outcome, Outcome::crashed);
        } else {
          expect_timed(measurement, options.samples);
        }
        EXPECT_EQ(measurement.device_uuid, "") << "a CPU has none";
      });
  EXPECT_EQ(order, (std::vector<std::size_t>{7, 5, 6}));
  EXPECT_EQ(asked, 1);
  ASSERT_EQ(session.devices().size(), 1U);
  EXPECT_EQ(session.devices()[0].name, "CPU");
  EXPECT_EQ(session.devices()[0].measured, 3);
  EXPECT_FALSE(session.devices()[0].lost);
}

// The first candidate of a session meets cold caches, sleeping CPUs and fresh memory: none of it is in its
// time, which is taken beside a reference as in a search, so that the machine's speed is not in it either.
TEST_F(SessionTest, TheFirstCandidateIsNotSlowerForBeingTheFirst) {
  const block::Problem problem = small_problem();
  SessionOptions options = on_one_thread();
  options.samples = 9;
  std::vector<double> ratios;
  for (int attempt = 0; attempt < 4; ++attempt) {  // noise may make it look slower, but not every time
    Session session(problem, options);
    const auto kernels =
        compile(session, {block_kernel(problem, "first"), block_kernel(problem, "between", 2)});
    session.time_beside([&] { return TimingReference{{kernels[1]}, 0}; });
    const Measurement first = session.measure_plan({kernels[0]});
    session.measure_plan({kernels[1]});
    const Measurement later = session.measure_plan({kernels[0]});
    if (first.outcome != Outcome::ok || later.outcome != Outcome::ok) continue;
    ratios.push_back(first.time.median_us / later.time.median_us);
    if (ratios.back() < 1.1) return;
  }
  if (ratios.empty()) GTEST_SKIP() << "this machine is too busy to time anything";
  FAIL() << "the first candidate takes so many times as long as the same later: "
         << testing::PrintToString(ratios);
}

TEST_F(SessionTest, TheReferencesTimeMayBeKnownAndAWrongOneIsNotUsed) {
  const block::Problem problem = small_problem();
  Session session(problem, quick_options());
  const auto kernels =
      compile(session, {block_kernel(problem, "known"), block_kernel(problem, "bad", 1, "output[3] = 0;")});
  session.time_beside([&] { return TimingReference{{kernels[0]}, 125}; });
  EXPECT_EQ(session.measure_plan({kernels[0]}).reference_us, 125);
  Session other(problem, quick_options());
  other.time_beside([&] { return TimingReference{{kernels[1]}, 0}; });
  testing::internal::CaptureStderr();
  const Measurement alone = other.measure_plan({kernels[0]});
  EXPECT_NE(testing::internal::GetCapturedStderr().find("does not run right"), std::string::npos);
  expect_timed(alone, 3);
  EXPECT_EQ(alone.reference_us, 0);
}

/// What waits for a worker looks up now and then: a user's interrupt must not wait for a hanging candidate.
TEST_F(SessionTest, PollEndsTheWaitAndTheSessionGoesOn) {
  struct GiveUp {};
  const block::Problem problem = small_problem();
  SessionOptions options = quick_options();
  options.run_timeout = 60;
  int polls = 0;
  bool give_up = false;
  options.poll = [&] {
    if (give_up && ++polls == 2) throw GiveUp{};
  };
  Session session(problem, options);
  const auto kernels =
      compile(session, {block_kernel(problem, "hanging", 1, "for (volatile int go = 1; go;) {}"),
                        block_kernel(problem, "right")});
  const auto start = std::chrono::steady_clock::now();
  give_up = true;
  EXPECT_THROW(session.check_plan({kernels[0]}), GiveUp);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  give_up = false;
  EXPECT_EQ(session.check_plan({kernels[1]}).outcome, Outcome::ok);
}

TEST_F(SessionTest, APlanIsTiedWithItself) {
  const block::Problem problem = small_problem();
  Session session(problem, on_one_thread());  // finds a quiet moment on a busy machine
  const auto kernels = compile(session, {block_kernel(problem, "itself")});
  const PlanKernels plan{kernels[0]};
  // A claim of 95 % may be wrong one time in twenty, but not three times in a row.
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto results = session.compare_plans(std::vector{plan, plan}, 40);
    if (results[1].outcome == Outcome::noisy) GTEST_SKIP() << "this machine is too busy to time anything";
    ASSERT_EQ(results[1].outcome, Outcome::ok) << results[1].message;
    EXPECT_GE(results[1].pairs, 32);
    if (results[1].tied()) return;
  }
  FAIL() << "a plan differs from itself";
}

TEST_F(SessionTest, APlanThatFailsWhileComparedIsTakenOut) {
  const block::Problem problem = small_problem();
  Session session(problem, quick_options());
  // Right when it is checked (two runs), fatal once it is timed.
  const std::string later = "static int runs = 0; if (++runs > 4) __builtin_trap();";
  const auto kernels =
      compile(session, {block_kernel(problem, "steady_a"), block_kernel(problem, "later", 1, later),
                        block_kernel(problem, "steady_b")});
  const auto results = session.compare_plans(
      std::vector{PlanKernels{kernels[0]}, PlanKernels{kernels[1]}, PlanKernels{kernels[2]}}, 10);
  EXPECT_EQ(results[1].outcome, Outcome::crashed) << results[1].message;
  EXPECT_NE(results[1].message.find("SIGILL"), std::string::npos) << results[1].message;
  for (const int i : {0, 2}) {
    const PairedComparison& result = results[static_cast<std::size_t>(i)];
    EXPECT_TRUE(result.outcome == Outcome::ok || result.outcome == Outcome::noisy) << result.message;
  }
  // The baseline fails: there is nothing to compare with.
  const auto without =
      session.compare_plans(std::vector{PlanKernels{kernels[1]}, PlanKernels{kernels[0]}}, 10);
  EXPECT_EQ(without[0].outcome, Outcome::crashed);
  EXPECT_EQ(without[1].outcome, Outcome::skipped);
  EXPECT_FALSE(without[1].message.empty());
}

/// Statements of a kernel that traps when a process loads it for the third time.
std::string counts_its_loads() {
  return R"(
    char* get(const char*) __asm__("getenv");
    int set(const char*, const char*, int) __asm__("setenv");
    static bool is_counted = false;
    if (!is_counted) {
      const char* loads = get("FUSETUNE_TEST_LOADS");
      if (loads != nullptr && loads[0] == '2') __builtin_trap();
      set("FUSETUNE_TEST_LOADS", loads == nullptr ? "1" : "2", 1);
    }
    is_counted = true;
  )";
}
bool ran(const PairedComparison& result) {
  return result.outcome == Outcome::ok || result.outcome == Outcome::noisy;
}

TEST_F(SessionTest, EachShareOfAComparisonHasAProcessOfItsOwn) {
  const block::Problem problem = small_problem();
  Session session(problem, on_one_thread());
  const auto kernels = compile(
      session, {block_kernel(problem, "lasting"), block_kernel(problem, "counting", 1, counts_its_loads())});
  // The first process loads it twice, to check and to time it, the others once.
  const auto results =
      session.compare_plans(std::vector{PlanKernels{kernels[0]}, PlanKernels{kernels[1]}}, 20);
  EXPECT_TRUE(ran(results[1])) << results[1].message;
}

TEST_F(SessionTest, EachShareOfAPlanBesideItsPartsHasAProcessOfItsOwn) {
  const block::Problem problem = small_problem();
  Session session(problem, on_one_thread());
  // Each process loads it twice: as a plan, and as that plan's only segment.
  const auto kernels = compile(session, {block_kernel(problem, "counting", 1, counts_its_loads())});
  const PlanKernels plan[] = {{kernels[0]}};
  int most = 0;
  const auto results = session.compare_with_parts(plan, 16, [&most](int done, int all) {
    EXPECT_EQ(all, 16);
    EXPECT_GE(done, most);
    most = done;
  });
  EXPECT_EQ(most, 16);
  EXPECT_TRUE(ran(results[0])) << results[0].message;
}

TEST_F(SessionTest, AFailedPlanLeavesTheBaselineItsTime) {
  const block::Problem problem = small_problem();
  Session session(problem, on_one_thread());
  const std::string later = "static int runs = 0; if (++runs > 4) __builtin_trap();";
  const auto kernels =
      compile(session, {block_kernel(problem, "alone"), block_kernel(problem, "later_alone", 1, later)});
  int most = 0;
  const auto results = session.compare_plans(std::vector{PlanKernels{kernels[0]}, PlanKernels{kernels[1]}},
                                             40, [&most](int taken, int /*all*/) {
                                               EXPECT_GE(taken, most);
                                               most = taken;
                                             });
  EXPECT_EQ(results[1].outcome, Outcome::crashed) << results[1].message;
  if (results[0].outcome == Outcome::noisy) GTEST_SKIP() << "this machine is too busy to time anything";
  EXPECT_EQ(results[0].outcome, Outcome::ok) << results[0].message;
  EXPECT_GE(results[0].pairs, 32);
}

TEST_F(SessionTest, EveryCacheModeTimes) {
  const block::Problem problem = small_problem();
  for (const CacheMode mode : {CacheMode::model, CacheMode::warm, CacheMode::cold}) {
    SCOPED_TRACE(name(mode));
    SessionOptions options = quick_options();
    options.cache = mode;
    Session session(problem, options);
    const auto kernels = compile(session, {block_kernel(problem, "cached")});
    expect_timed(session.measure_plan({kernels[0]}), options.samples);
    EXPECT_EQ(session.environment().fields.at("cache_mode"), name(mode));
  }
}

TEST_F(SessionTest, FingerprintFollowsWhatMatters) {
  const block::Problem problem = small_problem();
  SessionOptions options = quick_options();
  const Session two(problem, options);
  options.cache = CacheMode::warm;  // a key of its own in every record
  const Session warm(problem, options);
  options.threads = 1;
  const Session one(problem, options);
  EXPECT_EQ(two.environment().fingerprint, warm.environment().fingerprint);
  EXPECT_NE(two.environment().fingerprint, one.environment().fingerprint);
  for (const char* field : {"device", "isa", "threads", "compiler", "flags", "os", "protocol"}) {
    EXPECT_TRUE(two.environment().fields.contains(field)) << field;
  }
  EXPECT_EQ(one.environment().fields.at("threads"), "1");
  EXPECT_EQ(std::get<lower::CpuTarget>(one.target()).threads, 1);
}

TEST_F(SessionTest, OwnInputReachesTheKernels) {
  const block::Problem problem = small_problem();
  const base::TemporaryDirectory directory;
  const auto shape = problem.shape(block::Tensor::hidden);
  std::vector<float> input(static_cast<std::size_t>(problem.elements(block::Tensor::hidden)));
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = 0.01f * static_cast<float>(i % 37) - 0.2f;
  SessionOptions options = quick_options();
  options.input = directory.path() / "input.npy";
  block::write_npy(options.input, shape, std::span<const float>(input));
  Session session(problem, options);
  const PlanKernels plan{compile(session, {block_kernel(problem, "own_input")})[0]};
  EXPECT_EQ(session.check_plan(plan).outcome, Outcome::ok);
  block::BlockData data = block::generate_data(problem);
  data.hidden = input;
  const block::Mask mask(problem.mask, problem.batch, problem.seq);
  const auto reference = block::compute_reference(problem, mask, data, 1);
  EXPECT_NEAR(session.run_plan(plan).at(7), reference[block::Tensor::output][7], 1e-5);

  block::write_npy(options.input, std::vector<std::int64_t>{4}, std::span<const float>(input).first(4));
  EXPECT_THROW(Session(problem, options), base::UsageError);
}

TEST_F(SessionTest, WhatCannotBeIsRefusedBeforeAnythingRuns) {
  block::Problem problem = small_problem();
  SessionOptions options = quick_options();
  options.threads = -1;
  EXPECT_THROW(Session(problem, options), base::UsageError);
  options = quick_options();
  options.min_sample_seconds = 0;
  EXPECT_THROW(Session(problem, options), base::UsageError);
  options = quick_options();
  options.cxx = "/no/such/compiler";
  EXPECT_THROW(Session(problem, options), base::EnvironmentError);
  problem.dtype = block::Dtype::f16;
  EXPECT_THROW(Session(problem, quick_options()), base::UsageError);
}

TEST_F(SessionTest, AProgramThatIsNoWorkerIsTheEnvironmentsFault) {
  const block::Problem problem = small_problem();
  SessionOptions options = quick_options();
  options.program = "/bin/true";
  Session session(problem, options);
  const auto kernels = compile(session, {merge_heads_kernel(problem, "never_run")});
  EXPECT_THROW(session.measure_segment(kernels[0]), base::EnvironmentError);
}

}  // namespace
}  // namespace fusetune::measure
