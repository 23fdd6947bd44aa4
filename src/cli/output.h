// Results go to standard output through here, so that a closed pipe and a full disk are noticed.
#pragma once

#include <string>
#include <string_view>

#include "cli/options.h"
#include "report/table.h"

namespace fusetune::cli {

/// The reader of standard output is gone (`| head`): main ends quietly.
struct BrokenPipe {};

/// Writes to standard output. Throws BrokenPipe, or base::EnvironmentError with the reason.
void print(std::string_view text);
/// Flushes what print() wrote; the same errors. main calls it before it returns.
void flush_output();

/// --json[=FILE] and --csv[=FILE] of commands whose result has rows; "-" (the default) is standard output.
class RowsOutput {
 public:
  void declare(Options& options);
  /// Throws base::UsageError where both would go to standard output. Call it before long work.
  void check() const;
  /// Writes what was asked for. True when standard output took rows, so that no text for people may follow.
  bool write(const report::Table& table) const;
  /// The same where --json says more than the rows: `json`, a whole document.
  bool write(const report::Table& table, const std::string& json) const;
  /// True when rows were asked for, wherever they go.
  bool wanted() const { return !json_.empty() || !csv_.empty(); }
  /// True when rows go to standard output.
  bool to_stdout() const { return json_ == "-" || csv_ == "-"; }

 private:
  std::string json_, csv_;
};

}  // namespace fusetune::cli
