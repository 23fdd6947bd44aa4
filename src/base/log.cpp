#include "base/log.h"

#include <sys/uio.h>
#include <unistd.h>

#include <atomic>

namespace fusetune::base {

namespace {
std::atomic<bool> quiet_now{false};
}

void set_quiet(bool quiet) { quiet_now = quiet; }

void note(std::string_view line) {
  if (quiet_now) return;
  char newline = '\n';
  iovec parts[] = {{const_cast<char*>(line.data()), line.size()}, {&newline, 1}};
  // One system call, so that lines of several threads or processes do not mix. A closed stderr is nobody's
  // problem.
  [[maybe_unused]] const auto written = ::writev(STDERR_FILENO, parts, 2);
}

}  // namespace fusetune::base
