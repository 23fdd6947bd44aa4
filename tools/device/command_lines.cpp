#include "command_lines.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/log.h"
#include "base/subprocess.h"
#include "plan/fusion_plan.h"

namespace fusetune::device_check {
namespace {

constexpr const char* kNoDriver = "/nonexistent/libcuda.so.1";
constexpr int kEnvironment = 3;  // fusetune's exit code where something that it needs is not there

/// It reads its options first, and their values, then looks for the device.
bool is_read_to_the_end(const base::ProcessResult& result) {
  return result.exit_code == kEnvironment && result.output.find(kNoDriver) != std::string::npos;
}

}  // namespace

std::vector<std::string> CommandLines::of(const std::string& command,
                                          const std::vector<std::string>& arguments) const {
  std::vector<std::string> words = {command, "--backend", "cuda", "--db", database_.string()};
  words.insert(words.end(), tuned_.options.begin(), tuned_.options.end());
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

std::vector<std::string> CommandLines::search(double seconds, const std::filesystem::path& json) const {
  std::vector<std::string> arguments = {"--strategy", "guided", "--json=" + json.string()};
  if (quick_)
    arguments.insert(arguments.end(), {"--trials", "15", "--finalists", "2", "--pairs", "20", "--samples",
                                       "1", "--min-time", "0.01"});
  else
    arguments.insert(arguments.end(), {"--finalists", "4", "--time-limit", fmt::format("{:.0f}s", seconds)});
  return of("search", arguments);
}

std::vector<std::string> CommandLines::bench(std::span<const std::uint16_t> masks,
                                             const std::filesystem::path& json) const {
  std::vector<std::string> arguments;
  for (const std::uint16_t mask : masks) arguments.push_back(std::to_string(mask));
  arguments.insert(arguments.end(), {"--pairs", quick_ ? "20" : "40", "--json=" + json.string()});
  if (quick_) arguments.insert(arguments.end(), {"--samples", "1", "--min-time", "0.01"});
  return of("bench", arguments);
}

std::vector<std::string> CommandLines::run(std::uint16_t mask, const std::filesystem::path& folder) const {
  return of("run", {std::to_string(mask), "--save-data", folder.string(), "--output",
                    (folder / "output.npy").string()});
}

int check_command_lines(const std::filesystem::path& program, const std::filesystem::path& work) {
  constexpr double kSeconds = 37.4;  // some number that a share of a budget can be
  setenv("FUSETUNE_DRIVER", kNoDriver, 1);
  const std::vector<std::uint16_t> masks = {plan::FusionPlan::unfused().canonical_mask().value,
                                            plan::FusionPlan::byte_transformer().canonical_mask().value};
  int refused = 0;
  for (const TunedProblem& tuned : tuned_problems(false)) {
    const CommandLines lines(tuned, work / "fusetune.db", false);
    for (std::vector<std::string> words :
         {lines.search(kSeconds, work / "search.json"), lines.bench(masks, work / "bench.json"),
          lines.run(masks.front(), work)}) {
      words.insert(words.begin(), program.string());
      const base::ProcessResult result = base::run_process(words, {});
      if (is_read_to_the_end(result)) continue;
      ++refused;
      base::note(fmt::format("{}: fusetune {} is refused (exit code {}): {}", tuned.stage,
                             fmt::join(words.begin() + 1, words.end(), " "), result.exit_code,
                             result.output));
    }
  }
  return refused;
}

}  // namespace fusetune::device_check
