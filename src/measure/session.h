// Session: compile, check and time candidates of one problem on one device, or several of a kind, harmlessly.
//
// The session lives in the searching process and never runs generated code itself: it starts disposable
// worker processes (`fusetune worker`) that load kernels, check them against the oracle and time them. A
// worker that crashes or hangs costs its candidate; a new one takes its place. Workers die with the thread
// that asked for the measurement: use a session from one thread that lives as long as it.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/compiled_kernel.h"
#include "block/problem.h"
#include "lower/any_schedule.h"
#include "measure/outcome.h"

namespace fusetune::measure {

enum class CacheMode { model, warm, cold };
std::string_view name(CacheMode mode);
CacheMode parse_cache_mode(std::string_view text);

/// What candidates are compiled for and run on.
enum class DeviceKind { cpu, cuda };
std::string_view name(DeviceKind kind);
/// Throws base::UsageError.
DeviceKind parse_device_kind(std::string_view text);

/// Of timing and of the messages to workers. Version 2 times candidates beside a reference; in version 3 what
/// takes turns with others does so for several samples, after untimed passes, and the rotation of copies goes
/// on from one to the next.
inline constexpr int kProtocolVersion = 3;

struct SessionOptions {
  DeviceKind device = DeviceKind::cpu;
  std::vector<int> ordinals = {0};  // cuda: which of the devices that the driver lists, all of one kind
  int threads = 0;                  // cpu: of a kernel; 0: all CPUs of this process
  std::string isa;                  // cpu: empty: the best this CPU runs
  std::string cxx;                  // cpu: empty: find one
  CacheMode cache = CacheMode::model;
  int samples = 12;  // screening samples per candidate
  double min_sample_seconds = 1e-3;
  int jobs = 0;
  double compile_timeout = 120;   // seconds
  double run_timeout = 60;        // seconds, per candidate, checking included
  std::filesystem::path program;  // the fusetune binary to start workers from; empty: /proc/self/exe
  std::filesystem::path weights;  // --weights FILE, with `layer`; empty: generated data
  int layer = 0;
  std::filesystem::path input;  // --input X.npy; empty: generated
  /// False: nothing is going to run, so that neither data nor oracle are prepared. Checking and timing are
  /// then a base::InternalError.
  bool runs = true;
  /// Data and oracle are made with the session; false: by prepare(), or when the first worker needs them.
  bool prepared = true;
  /// Called a few times a second while a worker or compilers are waited for. What it throws ends them and
  /// passes through.
  std::function<void()> poll;
};

/// Where measurements were made: they are comparable only under equal fingerprints.
struct Environment {
  std::map<std::string, std::string> fields;  // backend, device, isa, threads, compiler, flags, os, ...
  std::string fingerprint;                    // hash of the fields that matter
};

/// A candidate plan as compiled kernels in order, one per segment.
using PlanKernels = std::vector<backend::CompiledKernel>;

/// A plan that candidates are timed beside, so that the machine's changing speed cancels (see timing.h).
struct TimingReference {
  PlanKernels kernels;
  double time_us = 0;  // what it takes by agreement; 0: to be found out, in about a second
  /// Takes what was found out and returns what is agreed; empty: that.
  std::function<double(double)> agree = {};
};

/// Two-sided comparison of plan b against plan a from alternating pairs: ratio = time b / time a.
struct PairedComparison {
  Outcome outcome = Outcome::skipped;
  std::string message;
  TimingSummary time_a, time_b;
  double ratio = 1;  // median of paired ratios
  double low = 1;    // confidence interval of the median ratio
  double high = 1;
  int pairs = 0;
  std::vector<double> samples_us;  // behind time_b, in the order of the pairs
  std::string device_uuid;         // of the device that all plans were compared on; empty: a CPU

  /// Compared (`ok`), and the interval includes 1 or the ratio is within 0.5 % of it: no difference worth a
  /// claim.
  bool tied() const;
};

/// Where the worst disagreement of a check was.
struct TensorCheck {
  std::string tensor;
  bool passed = false;
  double norm_error = 0;
  double worst_error = 0;
  std::vector<std::int64_t> worst_at;  // coordinates in the tensor's shape
  double got = 0, want = 0;
  std::int64_t not_finite = 0;  // NaN (also: never written) or unexpected inf
  std::string note;             // guard bytes overwritten, padded rows not zero, ...
};
struct CheckResult {
  Outcome outcome = Outcome::skipped;  // ok or wrong_result or how it failed
  std::string message;
  std::vector<TensorCheck> tensors;
};

/// A call of the measuring process by which a device was told what to do.
struct ProfiledCall {
  std::string name;
  double begin_us = 0;  // since the first pass began
  double duration_us = 0;
};

/// When the kernels of a plan ran.
struct PlanProfile {
  Outcome outcome = Outcome::skipped;  // ok, noisy (too many passes dropped), or how the plan failed
  std::string message;
  /// Of each pass, when its first kernel began and when each ended: one more than kernels. Microseconds since
  /// the first pass began. A kernel's time includes the barrier behind it.
  std::vector<std::vector<double>> passes_us;
  std::vector<ProfiledCall> calls;  // of all passes; none on a CPU
  int dropped = 0;                  // passes from which other processes took CPU time
};

/// One of a batch to be checked and timed.
struct BatchCandidate {
  std::size_t id = 0;  // the caller's name for it
  PlanKernels kernels;
  bool whole = false;  // a plan; else one segment
};

/// What a batch gets its candidates from. `idle`: nothing is being measured, so that it may wait for one. No
/// candidate: there is none, or, unless idle, none for the moment.
using NextCandidate = std::function<std::optional<BatchCandidate>(bool idle)>;
using MeasuredCandidate = std::function<void(std::size_t id, Measurement)>;

/// A device of a session, and what it did.
struct DeviceUse {
  std::string name;   // "GPU 1"; "CPU"
  std::string uuid;   // of a GPU
  int measured = 0;   // candidates
  bool lost = false;  // it no longer answers; what is left is measured on the others
};

/// Where a session's time went, seconds by the clock.
struct Spent {
  double compile_s = 0;
  int compiled = 0;      // kernels that were not in the cache
  double measure_s = 0;  // while at least one candidate was measured
  int measured = 0;      // candidates checked and timed, one call each
};

class Session {
 public:
  /// Probes the machine, finds the compiler, and prepares data and oracle. Throws base::EnvironmentError.
  Session(const block::Problem& problem, const SessionOptions& options);
  ~Session();

  /// Makes what SessionOptions::prepared left for later, if it is not there.
  void prepare();

  const block::Problem& problem() const;
  const Environment& environment() const;
  lower::Target target() const;

  /// Compiles in parallel; nothing is timed meanwhile.
  std::vector<backend::CompileResult> compile(std::span<const codegen::AnyKernel> kernels,
                                              const std::function<void(int, int)>& progress = {});
  /// How many of these compile() would have to compile, the others being in the cache.
  std::size_t count_missing(std::span<const codegen::AnyKernel> kernels) const;
  /// By compile(), measure_batch(), measure_segment() and measure_plan() so far.
  const Spent& spent() const;
  /// Checks one segment on the oracle's inputs, without timing.
  CheckResult check_segment(const backend::CompiledKernel& kernel);
  /// Checks a whole plan from `hidden` to `output`.
  CheckResult check_plan(const PlanKernels& kernels);
  /// Candidates are timed beside the plan that `find` returns, which is asked before the first is timed.
  /// Where that plan has no kernels or does not run right, which is said, and without this call, candidates
  /// are timed by themselves.
  void time_beside(std::function<TimingReference()> find);
  /// Checks, then times candidates, each as soon as a device is free, until there is no next one. `done` gets
  /// each result when it is there, in whatever order; on one device, in theirs. Where a device is lost, which
  /// is said, another measures what ran there; where that one ends its worker too, the candidate is to blame.
  /// The last device's loss is a base::EnvironmentError. What is thrown ends the workers that are measuring.
  void measure_batch(const NextCandidate& next, const MeasuredCandidate& done);
  /// The devices of the options, in their order. Whatever is not a batch runs on the first that is not lost.
  std::vector<DeviceUse> devices() const;
  /// Checks, then times one segment (cache mode and samples of the options).
  Measurement measure_segment(const backend::CompiledKernel& kernel);
  /// Checks, then times one whole plan.
  Measurement measure_plan(const PlanKernels& kernels);
  /// Times plans against plans[0], alternating, up to `pairs` pairs each, in several processes
  /// (comparison.h); simultaneous 95 % intervals over the set. Result i compares plans[i] with plans[0]
  /// (result 0: itself, ratio 1). Unchecked plans are checked first. `progress` gets the samples taken and
  /// how many may have to be, a few times a second.
  std::vector<PairedComparison> compare_plans(std::span<const PlanKernels> plans, int pairs,
                                              const std::function<void(int, int)>& progress = {});
  /// Passes that a plan runs untimed before a turn of samples, about.
  int untimed_passes() const;
  /// Plans' times over the sums of their segments' times, each timed as when it is screened: by turns,
  /// `rounds` times each, so that the machine's drift cancels, and in several processes (comparison.h). Of
  /// each plan ratio = whole / sum with a 95 % interval of its own; time_a is the sum, time_b the plan.
  /// Nothing is checked: the plans and their segments must have been. `progress` gets the rounds done and how
  /// many there are, of all plans together.
  std::vector<PairedComparison> compare_with_parts(std::span<const PlanKernels> plans, int rounds,
                                                   const std::function<void(int, int)>& progress = {});
  /// Times each kernel of a plan in `passes` passes over it, which is checked first. Weights are where the
  /// cache mode has them.
  PlanProfile profile_plan(const PlanKernels& kernels, int passes);
  /// Runs a plan once on the session's data and returns `output` as float32.
  std::vector<float> run_plan(const PlanKernels& kernels);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fusetune::measure
