// What a stage of the program itself asks of it: every command line that a check issues.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tuning.h"

namespace fusetune::device_check {

/// fusetune's arguments for one tuned problem, the command first. `quick`: few trials and samples.
class CommandLines {
 public:
  CommandLines(TunedProblem tuned, std::filesystem::path database, bool quick)
      : tuned_(std::move(tuned)), database_(std::move(database)), quick_(quick) {}

  /// Ends within `seconds`, unless it is quick; its answer goes to `json`.
  std::vector<std::string> search(double seconds, const std::filesystem::path& json) const;
  /// The first mask is the one that the others are compared with.
  std::vector<std::string> bench(std::span<const std::uint16_t> masks,
                                 const std::filesystem::path& json) const;
  /// Input, weights, mask and this plan's output, into a folder.
  std::vector<std::string> run(std::uint16_t mask, const std::filesystem::path& folder) const;

 private:
  std::vector<std::string> of(const std::string& command, const std::vector<std::string>& arguments) const;

  TunedProblem tuned_;
  std::filesystem::path database_;
  bool quick_;
};

/// Has `program` read every command line of a real check, of all tuned problems, up to where it opens the
/// driver, of which it is told a path where none is. Says which it refuses, and returns how many.
int check_command_lines(const std::filesystem::path& program, const std::filesystem::path& work);

}  // namespace fusetune::device_check
