// A plan's profile as an SQLite file of its own, for queries that a table of means does not answer.
//
//   profile         one row: problem, mask, plan, environment, how many passes
//   kernel          the plan's kernels in order, with the operations and bytes they need at least
//   launch          each launch: kernel, pass, start_ns and end_ns since the first pass began
//   host_call       each call by which this process had a device work: name, start_ns and end_ns as above;
//   none
//                   where kernels are the process's own work
//   kernel_summary  a view: calls, total_us, mean_us, min_us, max_us, share_percent of each kernel
//   host_call_summary  a view: calls, total_us, mean_us, min_us, max_us of the host calls of each name
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "store/records.h"

namespace fusetune::store {

struct ProfiledKernel {
  std::string name;  // "[1-6]*"
  std::string symbol;
  std::string schedule;
  std::string source_hash;
  double flops = 0;
  double bytes_read = 0, bytes_written = 0;
};

/// Microseconds, on the clock of ProfileRecord::passes_us.
struct ProfiledHostCall {
  std::string name;  // "launch [7-9]"
  double begin_us = 0;
  double duration_us = 0;
};

struct ProfileRecord {
  std::string problem;  // its key
  int mask = 0;
  std::string plan;
  EnvironmentRecord environment;
  std::string program;  // fusetune's version
  std::string cache_mode;
  std::vector<ProfiledKernel> kernels;
  /// Of each pass, when its first kernel began and when each ended, microseconds since the first pass began.
  std::vector<std::vector<double>> passes_us;
  std::vector<ProfiledHostCall> host_calls;
  int dropped = 0;
};

/// Throws base::UsageError where there is a file already: it may be a database that took hours to fill.
void require_new_profile_file(const std::filesystem::path& path);

/// Throws what require_new_profile_file() does, and base::EnvironmentError where the file cannot be written.
void write_profile_file(const std::filesystem::path& path, const ProfileRecord& profile);

}  // namespace fusetune::store
