#include "measure/measuring_units.h"

#include <utility>

#include "base/log.h"

namespace fusetune::measure {

MeasuringUnit::MeasuringUnit(const DeviceInstance& device, const std::filesystem::path& program,
                             std::function<WorkerSetup()> setup, const std::function<void()>& poll)
    : use{.name = device.name, .uuid = device.uuid},
      lock(device.lock, poll),
      host(program, std::move(setup), poll) {}

std::vector<MeasuringUnit*> MeasuringUnits::living() const {
  std::vector<MeasuringUnit*> living;
  for (const auto& unit : units_)
    if (!unit->use.lost) living.push_back(unit.get());
  return living;
}

std::vector<DeviceUse> MeasuringUnits::uses() const {
  std::vector<DeviceUse> uses;
  for (const auto& unit : units_) uses.push_back(unit->use);
  return uses;
}

std::vector<DeviceLock::Hold> MeasuringUnits::hold_for_compiling() const {
  std::vector<DeviceLock::Hold> holds;
  for (MeasuringUnit* const unit : living()) holds.push_back(unit->lock.for_compiling());
  return holds;
}

Exchange MeasuringUnits::ask(MeasuringUnit& unit, Request request, const WorkerHost::Limit& limit) const {
  Exchange exchange = unit.host.ask(std::move(request), limit);
  require_answering(unit, exchange);
  return exchange;
}

void MeasuringUnits::require_answering(MeasuringUnit& unit, const Exchange& exchange) const {
  if (exchange.outcome != Outcome::ok && living().size() > 1) unit.host.start();
}

void MeasuringUnits::lose(MeasuringUnit& unit, const base::EnvironmentError& error) const {
  if (living().size() == 1) throw;
  unit.use.lost = true;
  unit.host.retire();
  base::note(unit.use.name + " is lost, the others go on without it: " + error.what());
}

}  // namespace fusetune::measure
