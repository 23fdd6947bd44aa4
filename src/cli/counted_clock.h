// The time that a search is said to have taken, and that limits count.
#pragma once

#include <chrono>

namespace fusetune::cli {

/// Runs from its construction. What preparations took can be left out.
class CountedClock {
 public:
  void restart() { *this = CountedClock(); }
  void leave_out(double seconds) { left_out_s_ += seconds; }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count() - left_out_s_;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double left_out_s_ = 0;  // since then
};

}  // namespace fusetune::cli
