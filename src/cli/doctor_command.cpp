// doctor: what is here, what is missing and how to get it.
#include <fmt/core.h>

#include "backend/backend.h"
#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/output.h"
#include "store/tuning_store.h"

namespace fusetune::cli {
namespace {

using backend::Check;

Check check_temporary_files() {
  try {
    const base::TemporaryDirectory directory;
    return {"temporary files", Check::Status::ok, directory.path().parent_path().string() + " is writable",
            ""};
  } catch (const base::EnvironmentError& error) {
    return {"temporary files", Check::Status::missing, error.what(),
            "set TMPDIR to a directory you can write"};
  }
}

/// Creates a database as a search would.
Check check_database() {
  try {
    const base::TemporaryDirectory directory;
    const store::StoreStats stats = store::TuningStore(directory.path() / "doctor.db").stats();
    return {"database", Check::Status::ok,
            fmt::format("SQLite {} works, schema {}, journal mode {}", store::sqlite_version(),
                        stats.schema_version, stats.journal_mode),
            ""};
  } catch (const base::EnvironmentError& error) {
    return {"database", Check::Status::missing, error.what(), "set TMPDIR to a directory you can write"};
  }
}

struct Finding {
  std::string part;  // a backend's name, or empty for the program itself
  Check check;
};

std::vector<Finding> examine(const backend::DiagnoseOptions& options) {
  std::vector<Finding> findings = {{"", check_temporary_files()}, {"", check_database()}};
  for (const backend::BackendInfo& info : backend::backends()) {
    if (!info.make) continue;
    for (Check& check : info.make()->diagnose(options))
      findings.push_back({std::string(info.name), std::move(check)});
  }
  return findings;
}

std::string_view name(Check::Status status) {
  switch (status) {
    case Check::Status::ok:
      return "ok";
    case Check::Status::warning:
      return "warning";
    case Check::Status::missing:
      return "missing";
  }
  return "?";
}

report::Table rows(const std::vector<Finding>& findings) {
  report::Table table({{"backend", "backend"},
                       {"what", "what"},
                       {"status", "status"},
                       {"detail", "detail"},
                       {"remedy", "remedy"}});
  for (const auto& [part, check] : findings)
    table.add({part.empty() ? report::Cell() : report::Cell(part), check.what,
               std::string(name(check.status)), check.detail,
               check.remedy.empty() ? report::Cell() : report::Cell(check.remedy)});
  return table;
}

std::string lines(const std::vector<Finding>& findings) {
  std::string text = "fusetune " FUSETUNE_VERSION "\n";
  for (const auto& [part, check] : findings) {
    text += fmt::format("{:<8} {:<5} {:<16} {}\n", name(check.status), part, check.what, check.detail);
    if (!check.remedy.empty()) text += fmt::format("{:<31} -> {}\n", "", check.remedy);
  }
  return text;
}

}  // namespace

int run_doctor(Options& options) {
  backend::DiagnoseOptions diagnose;
  RowsOutput output;
  options.text("--cxx", diagnose.cxx, "COMPILER",
               "C++ compiler to look for; default: $CXX, then what is found");
  output.declare(options);
  options.parse();

  const std::vector<Finding> findings = examine(diagnose);
  if (!output.write(rows(findings))) print(lines(findings));
  for (const Finding& finding : findings)
    if (finding.check.status == Check::Status::missing) return kEnvironment;
  return kDone;
}

}  // namespace fusetune::cli
