#include "cli/batch_measuring.h"

#include <list>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "cli/interrupt.h"

namespace fusetune::cli {
namespace {

/// The jobs that no device has begun with, and those that one is measuring.
class JobQueue {
 public:
  JobQueue(std::size_t count, bool whole, const BatchSteps& steps)
      : whole_(whole), steps_(steps), waiting_(count) {
    std::iota(waiting_.begin(), waiting_.end(), std::size_t{0});
  }

  /// The next job in order. One that another search measures is waited for only where nothing is measured
  /// here: else that would keep results of ours, which the other search may wait for, from being stored.
  std::optional<measure::BatchCandidate> next(bool idle) {
    for (auto job = waiting_.begin(); job != waiting_.end();) {
      stop_if_interrupted();
      if (!steps_.may_begin(measuring_.size())) return std::nullopt;
      const Turn turn = steps_.claim(*job, idle);
      if (turn == Turn::held) {
        ++job;
        continue;
      }
      const std::size_t taken = *job;
      job = waiting_.erase(job);
      if (turn == Turn::granted) return begin(taken);
      steps_.progressed();
    }
    return std::nullopt;
  }

  void done(std::size_t job, measure::Measurement measurement) {
    if (interrupted() && measurement.outcome != measure::Outcome::ok) {
      // The interrupt may be what made it fail: it says nothing about the candidate.
      throw Interrupted{};
    }
    measuring_.erase(job);
    steps_.finish(job, std::move(measurement));
    steps_.progressed();
  }

  /// Gives up what is being measured.
  void release_all() {
    for (const std::size_t job : std::exchange(measuring_, {})) steps_.release(job);
  }
  std::vector<std::size_t> left() const { return {waiting_.begin(), waiting_.end()}; }

 private:
  measure::BatchCandidate begin(std::size_t job) {
    measuring_.insert(job);
    return {.id = job, .kernels = steps_.kernels(job), .whole = whole_};
  }

  bool whole_;
  const BatchSteps& steps_;
  std::list<std::size_t> waiting_;
  std::set<std::size_t> measuring_;  // claimed, without a result
};

}  // namespace

MeasureBatch measure_batch_of(measure::Session& session) {
  return [&session](const measure::NextCandidate& next, const measure::MeasuredCandidate& done) {
    session.measure_batch(next, done);
  };
}

std::vector<std::size_t> measure_jobs(const MeasureBatch& measure_batch, std::size_t count, bool whole,
                                      const BatchSteps& steps) {
  JobQueue queue(count, whole, steps);
  try {
    measure_batch(
        [&](bool idle) { return queue.next(idle); },
        [&](std::size_t job, measure::Measurement measurement) { queue.done(job, std::move(measurement)); });
  } catch (...) {
    queue.release_all();
    throw;
  }
  return queue.left();
}

}  // namespace fusetune::cli
