// What a stage finds out, one line of JSON each, written at once: what comes before a crash is kept.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace fusetune::device_check {

class Records {
 public:
  /// Appends to `file`. `state`: where the running step is noted; empty: nowhere. Throws
  /// base::EnvironmentError.
  Records(const std::filesystem::path& file, std::string stage, std::filesystem::path state);

  /// Notes that a step begins. False for one that an earlier process of the stage has begun: it is done, or
  /// was that process's end.
  bool begin_step(int step);

  /// `fields` with the stage, the item and whether it is as it should be in front.
  void add(const std::string& item, bool ok, const nlohmann::ordered_json& fields = {});
  int failed() const { return failed_; }

 private:
  void read_state();

  std::ofstream file_;
  std::string stage_;
  std::filesystem::path state_;
  int begun_ = -1;  // the last step of earlier processes
  int failed_ = 0;
};

/// Figures are given with so many digits only.
double rounded(double value, int digits = 4);

}  // namespace fusetune::device_check
