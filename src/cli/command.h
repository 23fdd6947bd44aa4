// The table of commands: dispatch, help and suggestions come from it.
//
// To add a command: one file in cli/ with `int run_NAME(Options& options)`, its declaration below and one row
// in command.cpp. The function declares its options, calls options.parse(), does the work, writes results
// with cli::print() (cli/output.h; never std::cout) and returns the exit code: kDone, or kBadAnswer when it
// ran and the answer is bad. Everything else is an exception from base/error.h, which main.cpp maps.
#pragma once

#include <span>
#include <string_view>

#include "cli/options.h"

namespace fusetune::cli {

inline constexpr int kDone = 0;       // it ran and the answer is good
inline constexpr int kBadAnswer = 1;  // it ran and the answer is bad: mismatch, nothing valid measured, drift
inline constexpr int kUsage = 2;      // base::UsageError
inline constexpr int kEnvironment = 3;  // base::EnvironmentError, base::InternalError
inline constexpr int kInterrupted = 130;

struct Command {
  std::string_view name;
  std::string_view summary;  // one line, lower case, no full stop
  std::string_view example;  // one or more command lines, shown by --help
  int (*run)(Options& options) = nullptr;
  bool hidden = false;  // not in the list of commands
};

std::span<const Command> commands();

int run_translate(Options& options);
int run_encode(Options& options);
int run_space(Options& options);
int run_generate(Options& options);
int run_verify(Options& options);
int run_run(Options& options);
int run_bench(Options& options);
int run_devices(Options& options);
int run_doctor(Options& options);
int run_search(Options& options);  // search_command.cpp
int run_db(Options& options);      // db_command.cpp
int run_train(Options& options);
int run_predict(Options& options);
int run_profile(Options& options);
int run_explain(Options& options);
int run_evaluate(Options& options);
int run_report(Options& options);
int run_export(Options& options);  // export_command.cpp

}  // namespace fusetune::cli
