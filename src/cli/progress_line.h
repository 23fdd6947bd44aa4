// The text of a search's progress line, apart from its printing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fusetune::cli {

/// How far a stage of a search is.
struct StageProgress {
  std::string stage = {};   // shown before the counts: "finals, round 1"; empty: nothing
  std::string unit = {};    // what is counted: "candidates"
  std::int64_t done = 0;    // those reused included
  std::int64_t reused = 0;  // of them: known before, so that they say nothing about how long others take
  std::optional<std::int64_t> expected = {};     // of done, at the end; nullopt: nobody knows
  bool at_most = false;                          // it may end before `expected`
  std::optional<std::int64_t> trials_left = {};  // that --trials allows; nullopt: any number
  double seconds = 0;                            // since the stage began
  std::optional<double> seconds_left = {};       // that --time-limit allows; nullopt: any
  std::string doing = {};                        // shown behind: "compiling 3/32"; empty: nothing
};

/// "12/52 plans, 1.3/s, about 31 s left, compiling 3/32". The total is the smaller of what is expected and
/// what --trials still allows; it is left out where neither is known, and so is the time left, unless
/// --time-limit bounds it. A rate needs something that was done now, not reused.
std::string progress_line(const StageProgress& progress);

}  // namespace fusetune::cli
