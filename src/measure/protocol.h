// Messages between the session and its workers: JSON text, one request, one reply.
//
// Numbers that are not finite travel as strings. Of a KernelSource only what running a kernel needs is sent:
// not its text, its hash stands for that. A reply to Task::run is followed by the output's floats as raw
// bytes, in messages of at most kChunkBytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/executor.h"
#include "measure/pairs.h"
#include "measure/session.h"

namespace fusetune::measure {

inline constexpr std::size_t kChunkBytes = std::size_t{64} << 20;

/// What a worker needs to know once, before its first candidate.
struct WorkerSetup {
  block::Problem problem;
  DeviceKind device = DeviceKind::cpu;
  backend::ExecutorOptions executor;
  CacheMode cache = CacheMode::model;
  int samples = 12;
  double min_sample_seconds = 1e-3;
  bool copies_stay = false;  // rotating copies of weights fit into the last-level cache
  std::string image;         // path of the SharedImage
  std::string progress;      // path of the Progress page
};

enum class Task : std::uint8_t { setup, check, measure, compare, run, parts, level, profile };

struct Request {
  Task task = Task::setup;
  std::uint64_t number = 0;        // of this request in its session
  WorkerSetup setup;               // setup
  bool whole = false;              // the kernels are a plan from hidden to output, not a segment
  std::vector<PlanKernels> plans;  // compare: all, [0] the baseline; others: one
  int pairs = 0;                   // compare, parts
  int process = 0;                 // compare, parts: which of its processes this is
  int passes = 0;                  // profile
  PlanKernels reference;           // measure: timed beside the candidate; empty: none
  double reference_us = 0;         // measure: what that takes by agreement
  double retry_seconds = 0;        // measure: noisy samples are not taken again after this time
};

struct Reply {
  /// The worker cannot go on although no candidate is to blame: the environment's fault or ours.
  std::string error;
  bool internal_error = false;
  /// The device is lost to the worker; the candidate that ran is to blame.
  std::string device_error;
  CheckResult check;               // check
  Measurement measurement;         // measure
  double level_us = 0;             // level: what a pass takes here and now
  std::vector<PairSeries> series;  // compare; parts: the sum of the plan's parts, the plan
  PlanProfile profile;             // profile
};

std::string encode(const Request& request);
std::string encode(const Reply& reply);
/// Throw base::InternalError for text that is no such message.
Request decode_request(std::string_view text);
Reply decode_reply(std::string_view text);

/// A page of memory shared by a session and its worker. A message a step would wake the session each time
/// while something is being timed; a store does not.
struct Progress {
  std::atomic<std::uint64_t> request;   // number of the last request that was begun
  std::atomic<std::uint64_t> steps;     // grows as long as work goes on
  std::atomic<std::uint64_t> samples;   // of comparisons, taken by all workers so far
  std::atomic<std::int32_t> candidate;  // index into the request's plans of the one that runs
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "Progress is shared between processes");

}  // namespace fusetune::measure
