// Progress of a search on standard error: one updating line on a terminal, a plain line every few seconds
// elsewhere.
#pragma once

#include <chrono>
#include <string>

namespace fusetune::cli {

class SearchProgress {
 public:
  explicit SearchProgress(bool quiet);
  ~SearchProgress();
  SearchProgress(const SearchProgress&) = delete;
  SearchProgress& operator=(const SearchProgress&) = delete;

  /// `done` of about `total` candidates, of which `reused` cost no time; `extra` is shown behind them.
  void update(int done, int total, int reused, const std::string& extra);
  /// Something that takes a while and cannot be counted.
  void say(const std::string& what);
  /// What is counted from here on is another stage, with a rate of its own.
  void restart();
  /// Removes the updating line, so that other text starts on a clean one.
  void clear();

 private:
  void show(const std::string& line, std::chrono::milliseconds plain_interval);

  bool quiet_;
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace fusetune::cli
