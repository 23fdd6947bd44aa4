// Several processes, one file; processes that die.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "store_fixture.h"

namespace fusetune::store {
namespace {

/// Starts a process that runs `work(write end of a pipe)`; read(from) sees what it reports.
struct Child {
  pid_t pid = -1;
  int from = -1;
  template <typename Work>
  explicit Child(const Work& work) {
    int ends[2];
    if (pipe(ends) != 0) throw base::InternalError("pipe");
    pid = fork();
    if (pid == 0) {
      close(ends[0]);
      work(ends[1]);
      _exit(0);
    }
    close(ends[1]);
    from = ends[0];
  }
  /// Bytes the child wrote, waiting for at least `minimum` or its end.
  int received(int minimum) {
    char byte;
    while (count_ < minimum && read(from, &byte, 1) == 1) ++count_;
    return count_;
  }
  int wait() {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  ~Child() { close(from); }

 private:
  int count_ = 0;
};

void report(int pipe_end) {
  const char byte = 'r';
  if (write(pipe_end, &byte, 1) != 1) _exit(9);
}

/// What a search does to the store: claim, measure, record, 200 times.
void write_results(const std::filesystem::path& file, const std::string& name, int pipe_end) {
  TuningStore store(file);
  store.begin_run(kProblem, environment(), "{}");
  for (int i = 0; i < 200; ++i) {
    const TuningRecord record = record_of(i % 147, name + std::to_string(i));
    if (store.claim(record, ClaimPolicy::retry).state != Claim::State::granted) _exit(8);
    store.record(record);
    report(pipe_end);
  }
}

constexpr int kSharedPlans = 400;

/// The same with whole plans that another process wants too: each is measured once, by either. Claims one
/// more after `most` results, and stops there.
void write_plans(const std::filesystem::path& file, bool upwards, int most, int pipe_end) {
  TuningStore store(file);
  store.begin_run(kProblem, environment(), "{}");
  for (int i = 0, results = 0; i < kSharedPlans; ++i) {
    const PlanRecord plan = plan_of(static_cast<std::size_t>(upwards ? i : kSharedPlans - 1 - i));
    if (store.claim_plan(plan, ClaimPolicy::retry).state != ClaimState::granted) continue;
    while (results == most) pause();
    store.record_plan(plan);
    ++results;
    report(pipe_end);
  }
}

int rows_of(const TuningStore& store, const std::string& name) {
  int rows = 0;
  for (const TuningRecord& record : store.records(kProblem, "env-a", "model")) {
    rows += record.key.source_hash.starts_with(name) && record.measurement.outcome == measure::Outcome::ok;
  }
  return rows;
}

TEST_F(StoreTest, TwoWritersOneKilled) {
  Child survivor([&](int end) { write_results(file_, "survivor", end); });
  Child victim([&](int end) { write_results(file_, "victim", end); });
  ASSERT_GE(victim.received(40), 40);
  kill(victim.pid, SIGKILL);
  EXPECT_EQ(victim.wait(), -SIGKILL);
  const int reported = victim.received(1000);
  EXPECT_EQ(survivor.received(200), 200);
  EXPECT_EQ(survivor.wait(), 0);

  TuningStore store(file_);
  EXPECT_EQ(rows_of(store, "survivor"), 200);
  // What the victim saw committed is there; one more may have been committed and not reported.
  const int victims = rows_of(store, "victim");
  EXPECT_GE(victims, reported);
  EXPECT_LE(victims, reported + 1);
  EXPECT_TRUE(store.check().empty());

  // Resume: the one in flight counts as a crash, the rest is measured, nothing twice.
  store.recover_abandoned();
  store.begin_run(kProblem, environment(), "{}");
  int granted = 0;
  for (int i = 0; i < 200; ++i) {
    const TuningRecord record = record_of(i % 147, "victim" + std::to_string(i));
    if (store.claim(record, ClaimPolicy::retry).state != Claim::State::granted) continue;
    ++granted;
    store.record(record);
  }
  EXPECT_EQ(granted, 200 - victims);
  EXPECT_EQ(rows_of(store, "victim"), 200);
}

TEST_F(StoreTest, TwoWritersOfTheSamePlansOneKilled) {
  Child victim([&](int end) { write_plans(file_, true, 200, end); });
  ASSERT_EQ(victim.received(20), 20);
  // On a busy machine one of two writers may get nearly all turns: it begins when the other has its rows.
  Child survivor([&](int end) { write_plans(file_, false, kSharedPlans, end); });
  ASSERT_EQ(survivor.received(10), 10);
  kill(victim.pid, SIGKILL);
  EXPECT_EQ(victim.wait(), -SIGKILL);
  const int victims = victim.received(1000);
  EXPECT_EQ(survivor.wait(), 0);
  const int survivors = survivor.received(1000);
  EXPECT_GE(survivors, kSharedPlans - 202);

  TuningStore store(file_);
  EXPECT_TRUE(store.check().empty());
  // Neither measured what the other had; one row may have been committed and not reported.
  const auto rows = static_cast<int>(store.plan_records(kProblem, "env-a", "model").size());
  EXPECT_GE(rows, victims + survivors);
  EXPECT_LE(rows, victims + survivors + 1);
  store.recover_abandoned();
  for (std::size_t i = 0; i < kSharedPlans; ++i) {  // resume
    if (store.claim_plan(plan_of(i), ClaimPolicy::retry).state == ClaimState::granted)
      store.record_plan(plan_of(i));
  }
  int timed = 0;
  for (const PlanRecord& plan : store.plan_records(kProblem, "env-a", "model"))
    timed += plan.measurement.outcome == measure::Outcome::ok;
  EXPECT_EQ(timed, kSharedPlans);
}

TEST_F(StoreTest, AbandonedPlanIsRetriedOnce) {
  opened();
  for (int death = 1; death <= 2; ++death) {
    Child child([&](int end) {
      TuningStore store(file_);
      if (store.claim_plan(plan_of(3, Sampled::uniform), ClaimPolicy::retry).state != ClaimState::granted)
        _exit(8);
      report(end);
      raise(SIGKILL);
    });
    EXPECT_EQ(child.received(1), 1) << death;
    EXPECT_EQ(child.wait(), -SIGKILL) << death;
    TuningStore store(file_);
    EXPECT_EQ(store.recover_abandoned(), 1) << death;
    const std::optional<PlanRecord> found = store.find_plan(plan_of(3).key());
    ASSERT_TRUE(found);
    EXPECT_EQ(found->measurement.outcome, measure::Outcome::crashed);
    EXPECT_EQ(found->sampled, Sampled::uniform);
    EXPECT_EQ(may_retry(*found), death == 1);
  }
}

TEST_F(StoreTest, TwoProcessesMayCreateTheFileAtOnce) {
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < 6; ++i) {
    children.push_back(std::make_unique<Child>([&](int end) {
      TuningStore store(file_);
      store.begin_run(kProblem, environment(), "{}");
      report(end);
    }));
  }
  for (auto& child : children) EXPECT_EQ(child->wait(), 0);
  EXPECT_EQ(TuningStore(file_).stats().runs, 6);
}

TEST_F(StoreTest, LivingProcessHoldsItsClaim) {
  opened();
  const TuningRecord candidate = record_of(3, "abc");
  Child other([&](int end) {
    TuningStore store(file_);
    store.claim(candidate, ClaimPolicy::retry);
    report(end);
    pause();
  });
  ASSERT_EQ(other.received(1), 1);
  TuningStore store(file_);
  EXPECT_EQ(store.recover_abandoned(), 0);
  EXPECT_EQ(store.claim(candidate, ClaimPolicy::retry).state, Claim::State::held);
  EXPECT_EQ(store.claim(candidate, ClaimPolicy::fresh).state, Claim::State::held);
  kill(other.pid, SIGKILL);
  other.wait();
  EXPECT_EQ(store.recover_abandoned(), 1);
}

/// A candidate that takes its searching process down: known as the culprit, tried once more, then no more.
TEST_F(StoreTest, AbandonedCandidateIsRetriedOnce) {
  opened();
  const TuningRecord candidate = record_of(3, "killer");
  const auto claim_and_die = [&](int end) {
    TuningStore store(file_);
    if (store.claim(candidate, ClaimPolicy::retry).state != Claim::State::granted) _exit(8);
    report(end);
    raise(SIGKILL);
  };
  for (int death = 1; death <= 2; ++death) {
    Child child(claim_and_die);
    EXPECT_EQ(child.received(1), 1) << death;
    EXPECT_EQ(child.wait(), -SIGKILL) << death;
    TuningStore store(file_);
    EXPECT_EQ(store.recover_abandoned(), 1) << death;
    const std::optional<TuningRecord> found = store.find(candidate.key);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->measurement.outcome, measure::Outcome::crashed);
    EXPECT_EQ(found->abandoned, death);
    EXPECT_EQ(may_retry(*found), death == 1);
  }
  TuningStore store(file_);
  EXPECT_EQ(store.claim(candidate, ClaimPolicy::retry).state, Claim::State::measured);
  EXPECT_EQ(store.claim(candidate, ClaimPolicy::fresh).state, Claim::State::granted);
}

TEST_F(StoreTest, DeadRunsBecomeInterrupted) {
  Child child([&](int end) {
    TuningStore store(file_);
    store.begin_run(kProblem, environment(), "{}");
    report(end);
  });
  child.wait();
  TuningStore store(file_);
  EXPECT_EQ(store.runs().front().state, RunState::running);
  store.recover_abandoned();
  EXPECT_EQ(store.runs().front().state, RunState::interrupted);
}

// Claim() reads, then writes, in one transaction, while another connection writes all the time.
TEST_F(StoreTest, ReadThenWriteWaitsForOtherWriters) {
  opened();
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    TuningStore store(file_);
    for (int i = 0; !stop; ++i) {
      store.record(record_of(20, "writer" + std::to_string(i % 50)));
      // A search measures in between; SQLite's lock is not fair to who waits for one that never lets go.
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  TuningStore store(file_);
  for (int i = 0; i < 150; ++i) {
    EXPECT_NO_THROW({
      store.claim(record_of(21, "reader" + std::to_string(i)), ClaimPolicy::retry);
      store.record(record_of(21, "reader" + std::to_string(i)));
      store.claim_plan(plan_of(static_cast<std::size_t>(i)), ClaimPolicy::retry);
      store.record_plan(plan_of(static_cast<std::size_t>(i)));
    });
  }
  stop = true;
  writer.join();
  EXPECT_EQ(rows_of(store, "reader"), 150);
}

}  // namespace
}  // namespace fusetune::store
