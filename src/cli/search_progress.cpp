#include "cli/search_progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace fusetune::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRedraw{100};
constexpr milliseconds kPlainLines{5000};

std::string duration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  return fmt::format("{:.0f} min", seconds / 60);
}

}  // namespace

SearchProgress::SearchProgress(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {}

SearchProgress::~SearchProgress() { clear(); }

void SearchProgress::update(int done, int total, int reused, const std::string& extra) {
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const int measured = done - reused;
  std::string line = fmt::format("{}/{} candidates", done, std::max(done, total));
  if (measured > 0 && elapsed > 0) {
    const double rate = measured / elapsed;
    line += fmt::format(", {:.1f}/s, about {} left", rate, duration(std::max(0, total - done) / rate));
  }
  show(line + extra, kPlainLines);
}

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

void SearchProgress::restart() { start_ = std::chrono::steady_clock::now(); }

void SearchProgress::clear() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

}  // namespace fusetune::cli
