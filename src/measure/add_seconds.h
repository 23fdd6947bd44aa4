// Sums up the time that something takes.
#pragma once

#include <chrono>

namespace fusetune::measure {

/// Adds the time from its making to its end, seconds.
class AddSeconds {
 public:
  explicit AddSeconds(double& sum) : sum_(sum) {}
  ~AddSeconds() { sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  AddSeconds(const AddSeconds&) = delete;
  AddSeconds& operator=(const AddSeconds&) = delete;

 private:
  double& sum_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace fusetune::measure
