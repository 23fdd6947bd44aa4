#include "measure/session.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "block/data.h"
#include "block/mask.h"
#include "block/npy.h"
#include "measure/add_seconds.h"
#include "measure/batch.h"
#include "measure/comparison.h"
#include "measure/device_lock.h"
#include "measure/measuring_units.h"
#include "measure/pairs.h"
#include "measure/session_device.h"
#include "measure/shared_image.h"
#include "measure/timing.h"
#include "measure/worker_process.h"

namespace fusetune::measure {
namespace {

using backend::CompiledKernel;

constexpr double kReferenceTimeout = 60;  // seconds, at least

void require_sensible(const SessionOptions& options) {
  if (options.samples < 1) throw base::UsageError("--samples: expected at least 1");
  if (!(options.min_sample_seconds > 0) || !std::isfinite(options.min_sample_seconds)) {
    throw base::UsageError("--min-time: expected a time above 0");
  }
  if (!(options.run_timeout > 0)) throw base::UsageError("--run-timeout: expected a time above 0");
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text.append(text.empty() ? "" : ",").append(std::to_string(size));
  return "[" + text + "]";
}

std::vector<float> read_input(const std::filesystem::path& file, const block::Problem& problem) {
  auto array = block::read_npy_floats(file);
  const auto expected = problem.shape(block::Tensor::hidden);
  if (array.shape != expected) {
    throw base::UsageError("the input '" + file.string() + "' has shape " + shape_text(array.shape) +
                           ", the problem needs " + shape_text(expected));
  }
  for (const float value : array.values) {
    if (!std::isfinite(value))
      throw base::UsageError("the input '" + file.string() + "' holds NaN or infinity");
  }
  return std::move(array.values);
}

block::BlockData prepare_data(const block::Problem& problem, const SessionOptions& options) {
  block::BlockData data = block::generate_data(problem);
  if (!options.weights.empty()) block::load_weights(options.weights, options.layer, problem, data);
  if (!options.input.empty()) data.hidden = read_input(options.input, problem);
  return data;
}

/// A plan runs every operator once, in order.
void require_whole(const PlanKernels& kernels) {
  int next = 0;
  for (const CompiledKernel& kernel : kernels) {
    const plan::Segment& segment = kernel.source.variant().segment;
    if (segment.first != next) break;
    next = segment.last + 1;
  }
  if (next != block::kOperatorCount) {
    throw base::InternalError(
        "the kernels of a plan must run operators 0 to 14 in order; these stop before operator " +
        std::to_string(next));
  }
}

/// The same text means the same machine code.
std::string identity(const PlanKernels& kernels) {
  base::Hasher hasher;
  for (const CompiledKernel& kernel : kernels) hasher.add(kernel.image.string()).add(kernel.source.symbol());
  return hasher.hex();
}

/// Fills in what a series, and the interval of its ratios, say of a comparison.
void conclude(PairedComparison& result, const PairSeries& series, const Interval& interval) {
  result.outcome = series.outcome;
  if (series.outcome != Outcome::ok) {
    result.message = "other processes took the CPU from too many of its pairs";
    return;
  }
  result.time_a = summarize(series.baseline_us);
  result.time_b = summarize(series.plan_us);
  result.pairs = static_cast<int>(series.plan_us.size());
  result.samples_us = series.plan_us;
  result.ratio = median(paired_ratios(series.baseline_us, series.plan_us));
  result.low = interval.low;
  result.high = interval.high;
}

/// What the next process is asked for, but for the plans.
Request next_share(Task task, const Comparison& comparison) {
  Request request;
  request.task = task;
  request.whole = true;
  request.pairs = comparison.next_pairs();
  request.process = comparison.next_process();
  return request;
}

}  // namespace

std::string_view name(CacheMode mode) {
  switch (mode) {
    case CacheMode::model:
      return "model";
    case CacheMode::warm:
      return "warm";
    case CacheMode::cold:
      return "cold";
  }
  throw base::InternalError("a cache mode without a name");
}

CacheMode parse_cache_mode(std::string_view text) {
  for (const CacheMode mode : {CacheMode::model, CacheMode::warm, CacheMode::cold}) {
    if (name(mode) == text) return mode;
  }
  throw base::UsageError("unknown cache mode '" + std::string(text) + "': expected model, warm or cold");
}

std::string_view name(DeviceKind kind) { return kind == DeviceKind::cpu ? "cpu" : "cuda"; }

DeviceKind parse_device_kind(std::string_view text) {
  for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::cuda})
    if (name(kind) == text) return kind;
  throw base::UsageError("unknown device '" + std::string(text) + "': expected cpu or cuda");
}

bool PairedComparison::tied() const { return outcome == Outcome::ok && is_tied(ratio, {low, high}); }

struct Session::Impl {
  Impl(const block::Problem& the_problem, const SessionOptions& the_options, SessionDevice the_device)
      : problem(the_problem),
        options(the_options),
        device(std::move(the_device)),
        data(options.runs ? std::optional(prepare_data(problem, options)) : std::nullopt),
        units(make_units()) {
    if (options.runs && options.prepared) needed_image();
  }

  void poll() const {
    if (options.poll) options.poll();
    if (watch) watch();
  }

  /// The oracle takes a while, and a search that knows all its times needs none.
  const SharedImage& needed_image() {
    if (!options.runs) throw base::InternalError("a session that prepares no data was asked to run a kernel");
    if (!image) {
      const block::Mask mask(problem.mask, problem.batch, problem.seq);
      image = SharedImage::create(problem, mask, *data);
      data.reset();
    }
    return *image;
  }

  WorkerSetup worker_setup(const backend::ExecutorOptions& executor) {
    WorkerSetup setup;
    setup.problem = problem;
    setup.device = options.device;
    setup.executor = executor;
    setup.executor.rotation_bytes = rotation_bytes(options.cache, problem, device.cache_bytes);
    setup.copies_stay = copies_stay();
    if (options.cache == CacheMode::cold) setup.executor.flush_bytes = cache_flush_bytes(device.cache_bytes);
    setup.cache = options.cache;
    setup.samples = options.samples;
    setup.min_sample_seconds = options.min_sample_seconds;
    setup.image = needed_image().path();
    return setup;
  }

  /// Rotating copies of weights fit into the last-level cache, all of them.
  bool copies_stay() const {
    return rotation_bytes(options.cache, problem, device.cache_bytes) <= device.cache_bytes;
  }

  std::vector<std::unique_ptr<MeasuringUnit>> make_units() {
    const std::filesystem::path program = options.program.empty() ? "/proc/self/exe" : options.program;
    std::vector<std::unique_ptr<MeasuringUnit>> made;
    for (const DeviceInstance& instance : device.instances)
      made.push_back(std::make_unique<MeasuringUnit>(
          instance, program, [this, executor = instance.executor] { return worker_setup(executor); },
          [this] { poll(); }));
    return made;
  }

  Request request_of(Task task, const PlanKernels& kernels, bool whole, double timeout) const {
    Request request;
    request.task = task;
    request.whole = whole;
    request.plans = {kernels};
    if (task == Task::measure) {
      request.reference = reference.kernels;
      request.reference_us = reference.time_us;
    }
    request.retry_seconds = timeout / 2;  // a noisy machine must not look like a candidate that hangs
    return request;
  }
  Exchange ask(MeasuringUnit& unit, Task task, const PlanKernels& kernels, bool whole, double timeout) const {
    return units.ask(unit, request_of(task, kernels, whole, timeout), {timeout, false});
  }

  /// What a candidate's limit has to allow for its reference: more than one sample a sample, as many again
  /// where the speed changes, on a machine several times slower than agreed.
  double reference_seconds() const {
    constexpr double kSlower = 4;
    return reference.kernels.empty() ? 0
                                     : kSlower * 2 * (options.samples + 4) *
                                           std::max(2 * options.min_sample_seconds, 1e-6 * reference.time_us);
  }

  CheckResult check(const PlanKernels& kernels, bool whole);
  Measurement measure(const PlanKernels& kernels, bool whole);
  void measure_batch(const NextCandidate& next, const MeasuredCandidate& done);
  void find_reference_now();
  std::string try_reference(MeasuringUnit& unit, const PlanKernels& kernels, double& time_us) const;
  void compare_live(MeasuringUnit& unit, std::span<const PlanKernels> plans, int pairs,
                    std::vector<PairedComparison>& results, const std::function<void(int, int)>& progress);
  std::vector<PairedComparison> compare_parts(MeasuringUnit& unit, std::span<const PlanKernels> plans,
                                              int rounds, const std::function<void(int, int)>& progress);
  Exchange ask_watched(MeasuringUnit& unit, Request request, const std::function<void(int)>& taken);

  block::Problem problem;
  SessionOptions options;
  SessionDevice device;
  std::optional<block::BlockData> data;  // until the image is made of it; nullopt also: nothing is to be run
  std::optional<SharedImage> image;
  Spent spent;
  std::function<void()> watch;  // called while a worker is waited for; empty: nobody looks
  MeasuringUnits units;
  std::function<TimingReference()> find_reference;  // until it was asked
  TimingReference reference;                        // empty: candidates are timed by themselves
  std::set<std::string> checked_plans;
};

CheckResult Session::Impl::check(const PlanKernels& kernels, bool whole) {
  return units.on_first([&](MeasuringUnit& unit) -> CheckResult {
    const DeviceLock::Hold hold = unit.lock.for_compiling();  // others may check as well, but not time
    Exchange exchange = ask(unit, Task::check, kernels, whole, options.run_timeout);
    if (exchange.outcome != Outcome::ok) {
      return {.outcome = exchange.outcome, .message = exchange.message, .tensors = {}};
    }
    // What a wrong kernel wrote elsewhere is unknown: the next candidate gets a new process.
    if (exchange.reply.check.outcome != Outcome::ok) unit.host.retire();
    if (whole && exchange.reply.check.outcome == Outcome::ok) checked_plans.insert(identity(kernels));
    return std::move(exchange.reply.check);
  });
}

Measurement Session::Impl::measure(const PlanKernels& kernels, bool whole) {
  std::optional candidate = BatchCandidate{.id = 0, .kernels = kernels, .whole = whole};
  Measurement result;
  measure_batch([&](bool /*idle*/) { return std::exchange(candidate, std::nullopt); },
                [&](std::size_t /*id*/, Measurement measurement) { result = std::move(measurement); });
  return result;
}

void Session::Impl::measure_batch(const NextCandidate& next, const MeasuredCandidate& done) {
  std::optional<BatchCandidate> first = next(true);
  if (!first) return;  // nor is the reference needed
  find_reference_now();
  const double limit = options.run_timeout + reference_seconds();
  const auto request = [&](const BatchCandidate& candidate) {
    if (candidate.whole) require_whole(candidate.kernels);
    return request_of(Task::measure, candidate.kernels, candidate.whole, limit);
  };
  const auto look_up = [this] { poll(); };
  Batch batch(units, {request, {limit, false}}, look_up, spent);
  batch.run([&](bool idle) { return first ? std::exchange(first, std::nullopt) : next(idle); },
            [&](const BatchCandidate& candidate, Measurement measurement) {
              if (candidate.whole && ran_right(measurement.outcome))
                checked_plans.insert(identity(candidate.kernels));
              done(candidate.id, std::move(measurement));
            });
}

/// Checks a plan that is to be the reference and, unless it is known, finds out what it takes. Why it cannot
/// be the reference; empty: it can. The limits of candidates are not the reference's: it is no candidate.
std::string Session::Impl::try_reference(MeasuringUnit& unit, const PlanKernels& kernels,
                                         double& time_us) const {
  const double limit = std::max(options.run_timeout, kReferenceTimeout);
  {
    const DeviceLock::Hold hold = unit.lock.for_compiling();
    const Exchange checked = ask(unit, Task::check, kernels, true, limit);
    if (checked.outcome != Outcome::ok) return checked.message;
    if (checked.reply.check.outcome != Outcome::ok) {
      unit.host.retire();
      return "does not run right: " + checked.reply.check.message;
    }
  }
  if (time_us > 0) return {};
  const DeviceLock::Hold hold = unit.lock.for_timing();
  const Exchange exchange = ask(unit, Task::level, kernels, true, limit);
  if (exchange.outcome == Outcome::ok) time_us = exchange.reply.level_us;
  return exchange.message;
}

/// Before the first candidate is timed, if at all. What the reference takes is found out on one device and
/// holds for all: a candidate's time is its ratio to the reference beside it, on its own device, times that.
void Session::Impl::find_reference_now() {
  if (!find_reference) return;
  TimingReference found = std::exchange(find_reference, {})();
  if (found.kernels.empty()) return;
  require_whole(found.kernels);
  const bool is_known = found.time_us > 0;
  const std::string refused =
      units.on_first([&](MeasuringUnit& unit) { return try_reference(unit, found.kernels, found.time_us); });
  if (!refused.empty()) {
    base::note("the plan that others are to be timed beside " + refused + "; they are timed by themselves");
    return;
  }
  if (!is_known && found.agree) found.time_us = found.agree(found.time_us);
  reference = std::move(found);
}

/// Asks for pairs and tells `taken` now and then how many samples there are.
Exchange Session::Impl::ask_watched(MeasuringUnit& unit, Request request,
                                    const std::function<void(int)>& taken) {
  WorkerHost& host = unit.host;
  const std::uint64_t before = host.samples();
  if (taken) watch = [&taken, &host, before] { taken(static_cast<int>(host.samples() - before)); };
  struct Unwatch {
    std::function<void()>& watch;
    ~Unwatch() { watch = {}; }
  } unwatch{watch};
  return units.ask(unit, std::move(request), {options.run_timeout, true});
}

/// Compares the plans whose outcome is still open, in one process after the other. A plan that ends its
/// process is taken out, and the others take the pairs of that process again.
void Session::Impl::compare_live(MeasuringUnit& unit, std::span<const PlanKernels> plans, int pairs,
                                 std::vector<PairedComparison>& results,
                                 const std::function<void(int, int)>& progress) {
  std::vector<std::size_t> live;
  for (std::size_t i = 0; i < plans.size(); ++i)
    if (results[i].outcome == Outcome::ok) live.push_back(i);
  if (live.empty() || live.front() != 0) return;

  Comparison comparison(static_cast<int>(live.size()), pairs);
  const int all = samples_of_pairs(static_cast<int>(live.size()), pairs);
  int before = 0, now = 0;  // samples of earlier processes, of this one at most: some are taken again
  const auto taken = [&](int samples) { progress(std::min(before + std::min(samples, now), all), all); };
  const DeviceLock::Hold hold = unit.lock.for_timing();
  for (std::vector<int> next; !(next = comparison.next_plans()).empty();) {
    Request request = next_share(Task::compare, comparison);
    now = samples_of_pairs(static_cast<int>(next.size()), request.pairs);
    for (const int plan : next) request.plans.push_back(plans[live[static_cast<std::size_t>(plan)]]);
    if (request.process > 0) unit.host.retire();  // memory of the next lies elsewhere
    const Exchange exchange =
        ask_watched(unit, std::move(request), progress ? taken : std::function<void(int)>());
    if (exchange.outcome == Outcome::ok) {
      before += now;
      comparison.add(exchange.reply.series);
      continue;
    }
    const int culprit = next.at(static_cast<std::size_t>(exchange.candidate));
    comparison.take_out(culprit);
    PairedComparison& failed = results[live[static_cast<std::size_t>(culprit)]];
    failed.outcome = exchange.outcome;
    failed.message = exchange.message;
  }
  if (results[0].outcome != Outcome::ok) return;
  for (std::size_t i = 0; i < live.size(); ++i) {
    PairedComparison& result = results[live[i]];
    if (result.outcome != Outcome::ok) continue;
    conclude(result, comparison.series(static_cast<int>(i)), comparison.interval(static_cast<int>(i)));
    result.device_uuid = unit.use.uuid;
  }
  results[0].low = results[0].high = 1;  // the baseline with itself
}

/// Each process takes a share of every plan's rounds.
std::vector<PairedComparison> Session::Impl::compare_parts(MeasuringUnit& unit,
                                                           std::span<const PlanKernels> plans, int rounds,
                                                           const std::function<void(int, int)>& progress) {
  std::vector<PairedComparison> results(plans.size());
  std::vector<Comparison> comparisons(plans.size(), Comparison(2, rounds, Looks::at_the_end));
  const auto is_open = [](const Comparison& comparison) { return !comparison.next_plans().empty(); };
  const int all = static_cast<int>(plans.size()) * rounds;
  const auto done = [&] {
    int taken = 0;
    for (std::size_t i = 0; i < plans.size(); ++i)
      taken += is_open(comparisons[i]) ? static_cast<int>(comparisons[i].series(1).plan_us.size()) : rounds;
    return taken;
  };
  const DeviceLock::Hold hold = unit.lock.for_timing();
  for (int process = 0; std::any_of(comparisons.begin(), comparisons.end(), is_open); ++process) {
    if (process > 0) unit.host.retire();
    for (std::size_t i = 0; i < plans.size(); ++i) {
      if (!is_open(comparisons[i])) continue;
      Request request = next_share(Task::parts, comparisons[i]);
      request.plans = {plans[i]};
      const Exchange exchange = units.ask(unit, std::move(request), {options.run_timeout, true});
      results[i].outcome = exchange.outcome;
      results[i].message = exchange.message;
      if (exchange.outcome == Outcome::ok) {
        comparisons[i].add(exchange.reply.series);
      } else {
        comparisons[i].take_out(0);
      }
      if (progress) progress(done(), all);
    }
  }
  for (std::size_t i = 0; i < plans.size(); ++i)
    if (results[i].outcome == Outcome::ok)
      conclude(results[i], comparisons[i].series(1), comparisons[i].interval(1));
  return results;
}

Session::Session(const block::Problem& problem, const SessionOptions& options) {
  require_sensible(options);
  impl_ = std::make_unique<Impl>(problem, options, open_device(problem, options));
}

Session::~Session() = default;

void Session::prepare() { impl_->needed_image(); }

const block::Problem& Session::problem() const { return impl_->problem; }
const Environment& Session::environment() const { return impl_->device.environment; }

lower::Target Session::target() const { return impl_->device.target; }

std::vector<backend::CompileResult> Session::compile(std::span<const codegen::AnyKernel> kernels,
                                                     const std::function<void(int, int)>& progress) {
  const std::vector<DeviceLock::Hold> holds = impl_->units.hold_for_compiling();
  const AddSeconds clock(impl_->spent.compile_s);
  auto results = impl_->device.compiler->compile(kernels, progress);
  impl_->spent.compiled += static_cast<int>(std::count_if(
      results.begin(), results.end(), [](const auto& result) { return result.kernel.compile_seconds > 0; }));
  return results;
}

std::size_t Session::count_missing(std::span<const codegen::AnyKernel> kernels) const {
  return impl_->device.compiler->count_missing(kernels);
}

const Spent& Session::spent() const { return impl_->spent; }

CheckResult Session::check_segment(const CompiledKernel& kernel) { return impl_->check({kernel}, false); }

CheckResult Session::check_plan(const PlanKernels& kernels) {
  require_whole(kernels);
  return impl_->check(kernels, true);
}

void Session::time_beside(std::function<TimingReference()> find) { impl_->find_reference = std::move(find); }

void Session::measure_batch(const NextCandidate& next, const MeasuredCandidate& done) {
  impl_->measure_batch(next, done);
}

std::vector<DeviceUse> Session::devices() const { return impl_->units.uses(); }

Measurement Session::measure_segment(const CompiledKernel& kernel) { return impl_->measure({kernel}, false); }

Measurement Session::measure_plan(const PlanKernels& kernels) {
  require_whole(kernels);
  return impl_->measure(kernels, true);
}

std::vector<PairedComparison> Session::compare_plans(std::span<const PlanKernels> plans, int pairs,
                                                     const std::function<void(int, int)>& progress) {
  if (pairs < 1) throw base::InternalError("comparing plans needs at least one pair");
  std::vector<PairedComparison> results(plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    require_whole(plans[i]);
    results[i].outcome = Outcome::ok;
    if (impl_->checked_plans.contains(identity(plans[i]))) continue;
    const CheckResult check = impl_->check(plans[i], true);
    results[i].outcome = check.outcome;
    results[i].message = check.message;
  }
  impl_->units.on_first(
      [&](MeasuringUnit& unit) { impl_->compare_live(unit, plans, pairs, results, progress); });
  for (std::size_t i = 1; i < results.size(); ++i) {
    if (results[i].outcome != Outcome::ok || results[i].pairs > 0) continue;
    results[i].outcome = Outcome::skipped;
    results[i].message = "the plan it was to be compared with failed: " + results[0].message;
  }
  return results;
}

int Session::untimed_passes() const {
  if (impl_->options.cache == CacheMode::cold) return 0;
  const bool all_copies = impl_->options.cache == CacheMode::model && impl_->copies_stay();
  return all_copies ? static_cast<int>(impl_->problem.layers) : 1;
}

std::vector<PairedComparison> Session::compare_with_parts(std::span<const PlanKernels> plans, int rounds,
                                                          const std::function<void(int, int)>& progress) {
  if (rounds < 1) throw base::InternalError("comparing plans with their parts needs at least one round");
  for (const PlanKernels& plan : plans) require_whole(plan);
  return impl_->units.on_first(
      [&](MeasuringUnit& unit) { return impl_->compare_parts(unit, plans, rounds, progress); });
}

PlanProfile Session::profile_plan(const PlanKernels& kernels, int passes) {
  if (passes < 1) throw base::InternalError("a profile needs at least one pass");
  require_whole(kernels);
  PlanProfile profile;
  if (const CheckResult check = impl_->check(kernels, true); check.outcome != Outcome::ok) {
    profile.outcome = check.outcome;
    profile.message = check.message;
    return profile;
  }
  Exchange exchange = impl_->units.on_first([&](MeasuringUnit& unit) {
    Request request;
    request.task = Task::profile;
    request.whole = true;
    request.plans = {kernels};
    request.passes = passes;
    const DeviceLock::Hold hold = unit.lock.for_timing();
    return impl_->units.ask(unit, std::move(request), {impl_->options.run_timeout, true});
  });
  if (exchange.outcome == Outcome::ok) return std::move(exchange.reply.profile);
  profile.outcome = exchange.outcome;
  profile.message = exchange.message;
  return profile;
}

std::vector<float> Session::run_plan(const PlanKernels& kernels) {
  require_whole(kernels);
  Exchange exchange = impl_->units.on_first([&](MeasuringUnit& unit) {
    const DeviceLock::Hold hold = unit.lock.for_compiling();
    return impl_->ask(unit, Task::run, kernels, true, impl_->options.run_timeout);
  });
  if (exchange.outcome != Outcome::ok) {
    throw base::EnvironmentError("running the plan failed: it " + exchange.message);
  }
  return std::move(exchange.output);
}

}  // namespace fusetune::measure
