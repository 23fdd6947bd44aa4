#include "cli/search_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace fusetune::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRedraw{100};
constexpr milliseconds kPlainLines{5000};

}  // namespace

SearchProgress::SearchProgress(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {}

SearchProgress::~SearchProgress() { clear(); }

void SearchProgress::update(const StageProgress& progress) { show(progress_line(progress), kPlainLines); }

void SearchProgress::say(const std::string& what) { show(what, milliseconds{0}); }

void SearchProgress::show(const std::string& line, milliseconds plain_interval) {
  if (quiet_) return;
  const auto now = std::chrono::steady_clock::now();
  const milliseconds interval = terminal_ ? std::min(kRedraw, plain_interval) : plain_interval;
  if (now - last_ < interval) return;
  last_ = now;
  if (terminal_) {
    std::fprintf(stderr, "\r\033[K%s", line.c_str());
    shown_ = true;
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
}

void SearchProgress::clear() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

}  // namespace fusetune::cli
