// A search as small as one gets, in a process of its own that a test signals, and the database it writes.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <string>

#include "base/file.h"
#include "cli/program.h"

namespace fusetune::cli_test {

/// `fusetune search` of a problem whose kernels take microseconds, with as little timing as gives an answer.
/// Its compiled kernels are in one cache for all tests.
extern const std::string kSmallSearch;

class SmallSearch : public testing::Test {
 public:
  ~SmallSearch() override;

 protected:
  Outcome run(const std::string& script) const { return shell(script, directory_.path()); }
  std::filesystem::path at(const std::string& name) const { return directory_.path() / name; }

  /// Starts kSmallSearch with more `options`, what it says going to the files `out` and `err`. One at a time;
  /// killed when the test ends.
  void start(const std::string& options);
  /// Waits until `condition` holds; a failure of the test where the search ends, or two minutes pass, before.
  void wait_until(const std::function<bool()>& condition);
  /// It has said that it times plans against each other.
  bool in_the_finals() const;
  /// True where the search is still running.
  bool send(int signal);
  /// Waits for its end: the exit code, or minus the signal that ended it.
  int end();

  /// First number of a query of the database; 0 where it is not there yet, or being made.
  int ask(const std::string& sql) const;
  /// Sum of `what` over the rows of both tables of measurements.
  int count(const std::string& what) const;
  int with_outcome(const std::string& outcome) const { return count("outcome = '" + outcome + "'"); }
  void execute(const std::string& sql) const;
  void expect_sound() const;

 private:
  std::filesystem::path database() const { return at("small.db"); }
  bool ended();

  base::TemporaryDirectory directory_;
  pid_t search_ = -1;
  int status_ = 0;
};

}  // namespace fusetune::cli_test
