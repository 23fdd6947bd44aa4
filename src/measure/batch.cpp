#include "measure/batch.h"

#include <algorithm>
#include <utility>

#include "measure/add_seconds.h"

namespace fusetune::measure {
namespace {

/// How long to wait before looking around again: for an interrupt, for a lock that another search has.
constexpr double kLookSeconds = 0.25, kLockSeconds = 2e-3;

}  // namespace

Batch::Batch(const MeasuringUnits& units, Asking asking, std::function<void()> poll, Spent& spent)
    : units_(units), asking_(std::move(asking)), poll_(std::move(poll)), spent_(spent) {
  for (MeasuringUnit* const unit : units.living()) lanes_.push_back({.unit = unit});
}

Batch::~Batch() {
  for (Lane& lane : lanes_)
    if (lane.entry) lane.unit->host.retire();
}

void Batch::run(const NextCandidate& next, const Done& done) {
  for (;;) {
    hand_out(next);
    if (is_idle() && ready_.empty()) return;
    wait();
    poll_();
    take_answers(done);
  }
}

bool Batch::is_idle() const {
  return std::none_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.entry.has_value(); });
}

/// Gives each device that is free a candidate. A candidate waits for a lock, never a lock for a candidate:
/// one that another search has may be there only once that search gets the lock.
void Batch::hand_out(const NextCandidate& next) {
  for (Lane& lane : lanes_) {
    if (lane.unit->use.lost || lane.entry) continue;
    if (ready_.empty()) {
      std::optional<BatchCandidate> candidate = next(is_idle());
      if (!candidate) return;
      ready_.push_back({std::move(*candidate)});
    }
    begin(lane);
  }
}

/// Leaves the candidate where another search has the device, and where the device is lost.
void Batch::begin(Lane& lane) {
  try {
    std::optional<DeviceLock::Hold> hold = lane.unit->lock.try_for_timing();
    if (!hold) return;
    const AddSeconds clock(spent_.measure_s);
    lane.unit->host.begin(asking_.request(ready_.front().candidate), asking_.limit);
    lane.hold.emplace(std::move(*hold));
  } catch (const base::EnvironmentError& error) {
    lose(lane, error);
    return;
  }
  lane.entry = std::move(ready_.front());
  ready_.pop_front();
}

/// Until a worker may have its answer, or it is time to look around again.
void Batch::wait() {
  double not_measuring = 0;
  const AddSeconds clock(is_idle() ? not_measuring : spent_.measure_s);
  std::vector<WorkerHost*> hosts;
  for (Lane& lane : lanes_)
    if (lane.entry) hosts.push_back(&lane.unit->host);
  const bool for_a_lock = !ready_.empty() && hosts.size() < units_.living().size();
  WorkerHost::wait_for_any(hosts, for_a_lock ? kLockSeconds : kLookSeconds);
}

void Batch::take_answers(const Done& done) {
  for (Lane& lane : lanes_) {
    if (!lane.entry) continue;
    std::optional<Exchange> exchange = take(lane);
    if (!exchange) continue;
    const Entry entry = *std::exchange(lane.entry, std::nullopt);
    lane.hold.reset();
    ++lane.unit->use.measured;
    ++spent_.measured;
    done(entry.candidate, measurement_of(*lane.unit, std::move(*exchange)));
  }
}

/// nullopt: there is no answer yet, or never will be one from this device. A candidate that a device was lost
/// with is measured on another, but only once: it may be what took the device.
std::optional<Exchange> Batch::take(Lane& lane) {
  try {
    std::optional<Exchange> exchange = lane.unit->host.take();
    if (exchange && !lane.entry->lost_a_device) units_.require_answering(*lane.unit, *exchange);
    return exchange;
  } catch (const base::EnvironmentError& error) {
    lose(lane, error);
    return std::nullopt;
  }
}

/// What the device measured is ready for another.
void Batch::lose(Lane& lane, const base::EnvironmentError& error) {
  units_.lose(*lane.unit, error);
  lane.hold.reset();
  if (!lane.entry) return;
  ready_.push_front({std::move(lane.entry->candidate), true});
  lane.entry.reset();
}

Measurement Batch::measurement_of(MeasuringUnit& unit, Exchange exchange) {
  Measurement measurement;
  if (exchange.outcome == Outcome::ok) {
    measurement = std::move(exchange.reply.measurement);
    // What a wrong kernel wrote elsewhere is unknown: the next candidate gets a new process.
    if (!ran_right(measurement.outcome)) unit.host.retire();
  } else {
    measurement.outcome = exchange.outcome;
    measurement.message = exchange.message;
  }
  measurement.device_uuid = unit.use.uuid;
  return measurement;
}

}  // namespace fusetune::measure
