// Progress of long steps as plain lines on standard error, few enough for a log.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace fusetune::cli {

class Progress {
 public:
  /// `doing`: "compiling". Nothing is written before the step has lasted two seconds.
  explicit Progress(std::string_view doing) : doing_(doing) {}
  /// Notes "compiling 24/147" when the last note is old enough; throws Interrupted after Ctrl-C.
  void operator()(int done, int total);

 private:
  std::string doing_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace fusetune::cli
