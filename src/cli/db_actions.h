// What `fusetune db` does, one function an action. Each returns the exit code.
#pragma once

#include <string>
#include <vector>

#include "cli/output.h"
#include "store/contents.h"

namespace fusetune::cli {

struct DbArguments {
  std::string file = "fusetune.db";  // --db
  std::vector<std::string> files;    // after the action
  RowsOutput output;                 // --json, --csv
  std::string json_lines;            // --jsonl: "-" or a file; empty: not asked for
  std::string format;                // --format: "notes" or empty
  std::string table;                 // --table; empty: all
  store::Selection rows;             // --problem, --environment, --cache
  std::string with_environment;      // of the second database; empty: as of the first
  int older_than_days = -1;          // below 0: not given
  std::string outcome;
  int protocol_before = 0;
  bool dry_run = false;
};

int db_export(const DbArguments& arguments);  // db_export.cpp
int db_import(const DbArguments& arguments);  // db_changes.cpp
int db_merge(const DbArguments& arguments);
int db_prune(const DbArguments& arguments);
int db_diff(const DbArguments& arguments);  // db_diff.cpp

}  // namespace fusetune::cli
