// Progress of a search on standard error: one updating line on a terminal, a plain line every few seconds
// elsewhere.
#pragma once

#include <chrono>
#include <string>

#include "cli/progress_line.h"

namespace fusetune::cli {

class SearchProgress {
 public:
  explicit SearchProgress(bool quiet);
  ~SearchProgress();
  SearchProgress(const SearchProgress&) = delete;
  SearchProgress& operator=(const SearchProgress&) = delete;

  /// Shows progress_line() where the line before is old enough.
  void update(const StageProgress& progress);
  /// Something that takes a while: shown at once.
  void say(const std::string& what);
  /// Removes the updating line, so that other text starts on a clean one.
  void clear();

 private:
  void show(const std::string& line, std::chrono::milliseconds plain_interval);

  bool quiet_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace fusetune::cli
