// The options that say where and how candidates run: the same in every command that measures.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/options.h"
#include "cli/problem_options.h"
#include "lower/schedule.h"
#include "measure/session.h"

namespace fusetune::cli {

/// How many devices --device may name.
enum class Devices { one, several };

class SessionArguments {
 public:
  /// --backend --device --threads --isa --cxx --cache --samples --min-time --jobs --compile-timeout
  /// --run-timeout
  /// --input --kernel-dir
  void declare(Options& options, Devices devices = Devices::one);
  /// Call after options.parse(). Throws base::UsageError for a backend that cannot time, and for a --device
  /// that is no list of numbers, names one twice, or names several where the command runs on one.
  measure::SessionOptions session(const ProblemOptions& problem) const;
  /// After options.parse(): --backend simt was given. Throws base::UsageError for options that mean nothing
  /// to the emulator.
  bool emulated() const;
  /// After options.parse(): no --backend was given.
  bool default_backend() const { return !options_->given("--backend"); }
  /// After options.parse(): --backend cuda was given.
  bool on_gpu() const { return backend_ == "cuda"; }
  const std::string& cxx() const { return cxx_; }
  int jobs() const { return jobs_; }
  double compile_timeout() const { return compile_timeout_; }
  double run_timeout() const { return run_timeout_; }
  /// The options given, as a command line that repeats them; starts with a space unless empty.
  std::string command_line(Devices devices = Devices::one) const;

 private:
  /// Throws base::UsageError for those given of options that mean nothing to the backend.
  void refuse(std::span<const std::string_view> names) const;
  void check_meaning() const;

  const Options* options_ = nullptr;
  Devices devices_ = Devices::one;
  std::string backend_ = "cpu", isa_, cxx_, cache_ = "model", input_, kernel_dir_, device_;
  int threads_ = 0, samples_ = 12, jobs_ = 0;
  double min_time_ms_ = 1, compile_timeout_ = 120, run_timeout_ = 60;
};

/// What a measurement's data are known by: "generated", or a hash of the user's files; a file that changed is
/// other data.
std::string data_identity(const measure::SessionOptions& session);

/// Throws base::UsageError for an unknown backend, and with the reason for one that cannot time kernels.
void check_backend(const std::string& backend);

/// "cpu avx2, 2 threads, gcc 12.2.0", "cuda NVIDIA H100, driver 13.0, nvrtc 13.0": a session's environment in
/// one line for people.
std::string describe(const measure::Environment& environment);

}  // namespace fusetune::cli
