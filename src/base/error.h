// The three kinds of failure that leave a function as an exception.
//
// A failing *candidate* (a kernel that does not compile, crashes or is wrong) is never an exception:
// it is an Outcome value (measure/outcome.h). Exceptions are for a user's mistake, a broken
// environment and our own bugs; cli/main.cpp maps each to its exit code.
#pragma once

#include <stdexcept>
#include <string>

namespace fusetune::base {

/// The user asked for something that cannot be: exit code 2. The text says what was expected.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The machine lacks something (compiler, disk space, permission): exit code 3.
/// The text says what was being done, to what, why it failed and what to do.
struct EnvironmentError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A broken invariant of fusetune itself: a bug to report, exit code 3.
struct InternalError : std::logic_error {
  using std::logic_error::logic_error;
};

}  // namespace fusetune::base
