#include "cli/progress.h"

#include <fmt/core.h>

#include "base/log.h"
#include "cli/interrupt.h"

namespace fusetune::cli {

void Progress::operator()(int done, int total) {
  stop_if_interrupted();
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < std::chrono::seconds(2)) return;
  last_ = now;
  base::note(fmt::format("{} {}/{}", doing_, done, total));
}

}  // namespace fusetune::cli
