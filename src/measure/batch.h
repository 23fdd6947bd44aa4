// A batch of candidates, each measured on the device that is free first.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "measure/measuring_units.h"

namespace fusetune::measure {

class Batch {
 public:
  /// What a device is asked, and for how long.
  struct Asking {
    std::function<Request(const BatchCandidate&)> request;
    WorkerHost::Limit limit;
  };
  using Done = std::function<void(const BatchCandidate&, Measurement)>;

  /// `poll` is called a few times a second. Adds to `spent` what measuring takes.
  Batch(const MeasuringUnits& units, Asking asking, std::function<void()> poll, Spent& spent);
  /// Ends workers that still measure: run() threw.
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  /// As Session::measure_batch().
  void run(const NextCandidate& next, const Done& done);

 private:
  struct Entry {
    BatchCandidate candidate;
    bool lost_a_device = false;  // one was lost while it ran there
  };
  /// What a device does now.
  struct Lane {
    MeasuringUnit* unit;
    std::optional<Entry> entry = {};            // that its worker measures
    std::optional<DeviceLock::Hold> hold = {};  // while it does
  };

  void hand_out(const NextCandidate& next);
  void begin(Lane& lane);
  void wait();
  void take_answers(const Done& done);
  std::optional<Exchange> take(Lane& lane);
  void lose(Lane& lane, const base::EnvironmentError& error);
  static Measurement measurement_of(MeasuringUnit& unit, Exchange exchange);
  bool is_idle() const;

  const MeasuringUnits& units_;
  Asking asking_;
  std::function<void()> poll_;
  Spent& spent_;
  std::vector<Lane> lanes_;
  std::deque<Entry> ready_;  // no device has begun with these
};

}  // namespace fusetune::measure
