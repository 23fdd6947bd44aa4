// Measures the jobs of a search's batch, on as many devices as the session has: what searches over segments
// and over plans have in common.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "measure/session.h"

namespace fusetune::cli {

/// What became of asking for the right to measure a candidate.
enum class Turn {
  granted,   // this search measures it
  answered,  // the database has its result, which was taken
  held,      // another search measures it now
};

/// What a search does with job number `job`.
struct BatchSteps {
  /// Whether another job may begin while so many are being measured.
  std::function<bool(std::size_t measuring)> may_begin;
  /// Never Turn::held where it may `wait`.
  std::function<Turn(std::size_t job, bool wait)> claim;
  std::function<measure::PlanKernels(std::size_t job)> kernels;
  /// Gives the claim back: it was not measured after all.
  std::function<void(std::size_t job)> release;
  /// Stores the result: in the order in which devices are done.
  std::function<void(std::size_t job, measure::Measurement measurement)> finish;
  /// Another job has its result.
  std::function<void()> progressed;
};

/// Session::measure_batch() of a session.
using MeasureBatch = std::function<void(const measure::NextCandidate&, const measure::MeasuredCandidate&)>;
/// That of `session`, which must outlive it.
MeasureBatch measure_batch_of(measure::Session& session);

/// Measures jobs 0 to count - 1, `whole` plans or single segments, in this order until `may_begin` says no;
/// while several devices measure, jobs that other searches have are left for later. Returns those that were
/// not begun. Throws Interrupted, and what the session and the steps throw; claims are then given back.
std::vector<std::size_t> measure_jobs(const MeasureBatch& measure_batch, std::size_t count, bool whole,
                                      const BatchSteps& steps);

}  // namespace fusetune::cli
