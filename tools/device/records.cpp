#include "records.h"

#include <cmath>

#include "base/error.h"

namespace fusetune::device_check {

Records::Records(const std::filesystem::path& file, std::string stage, std::filesystem::path state)
    : file_(file, std::ios::app), stage_(std::move(stage)), state_(std::move(state)) {
  if (!file_) throw base::EnvironmentError("cannot write " + file.string());
  if (!state_.empty()) read_state();
}

void Records::read_state() {
  std::ifstream state(state_);
  if (!(state >> begun_)) begun_ = -1;
}

bool Records::begin_step(int step) {
  if (step <= begun_) return false;
  if (!state_.empty()) std::ofstream(state_) << step << std::endl;
  return true;
}

void Records::add(const std::string& item, bool ok, const nlohmann::ordered_json& fields) {
  nlohmann::ordered_json line = {{"stage", stage_}, {"item", item}, {"ok", ok}};
  if (fields.is_object()) line.update(fields);
  file_ << line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << std::endl;
  if (!ok) ++failed_;
}

double rounded(double value, int digits) {
  if (!std::isfinite(value) || value == 0) return value;
  const double unit = std::pow(10.0, digits - 1 - std::floor(std::log10(std::abs(value))));
  return std::round(value * unit) / unit;
}

}  // namespace fusetune::device_check
