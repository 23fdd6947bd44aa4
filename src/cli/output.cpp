#include "cli/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/file.h"

namespace fusetune::cli {
namespace {

[[noreturn]] void fail() {
  if (errno == EPIPE) throw BrokenPipe{};
  throw base::EnvironmentError(std::string("cannot write to standard output: ") + std::strerror(errno));
}

void write_rows(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  if (path == "-")
    print(text);
  else
    base::write_file_atomic(path, text);
}

}  // namespace

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail();
}

void flush_output() {
  if (std::fflush(stdout) != 0) fail();
}

void RowsOutput::declare(Options& options) {
  options.output("--json", json_, "print rows as JSON; --json=FILE writes them to FILE");
  options.output("--csv", csv_, "print rows as CSV; --csv=FILE writes them to FILE");
}

void RowsOutput::check() const {
  if (json_ == "-" && csv_ == "-")
    throw base::UsageError("--json and --csv both print: give one of them a file");
}

bool RowsOutput::write(const report::Table& table) const {
  return write(table, json_.empty() ? "" : table.to_json());
}

bool RowsOutput::write(const report::Table& table, const std::string& json) const {
  check();
  if (!json_.empty()) write_rows(json_, json);
  if (!csv_.empty()) write_rows(csv_, table.to_csv());
  return to_stdout();
}

}  // namespace fusetune::cli
