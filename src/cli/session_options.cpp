#include "cli/session_options.h"

#include <fmt/core.h>

#include <array>

#include "backend/backend.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "cli/interrupt.h"
#include "codegen/kernel_source.h"

namespace fusetune::cli {
namespace {

constexpr std::array<std::string_view, 12> kNames = {
    "--backend", "--threads",         "--isa",         "--cxx",   "--cache",     "--samples", "--min-time",
    "--jobs",    "--compile-timeout", "--run-timeout", "--input", "--kernel-dir"};

std::string field(const measure::Environment& environment, const std::string& name) {
  const auto found = environment.fields.find(name);
  return found == environment.fields.end() ? "?" : found->second;
}

}  // namespace

void check_backend(const std::string& backend) {
  backend::make_backend(backend);  // names an unknown one
  if (backend == "simt")
    throw base::UsageError(
        "backend simt emulates a GPU for correctness: its times say nothing, so it can verify only");
  if (backend == "cuda")
    throw base::UsageError(
        "backend cuda does not run kernels in this version: generate --target cuda --compile builds them, "
        "verify --backend simt checks them");
}

void SessionArguments::declare(Options& options) {
  options_ = &options;
  options.group("Device and measuring");
  options.text("--backend", backend_, "cpu|simt", "where kernels run; simt, a GPU emulator, verifies only");
  options.integer("--threads", threads_, "N", "threads of a kernel; 0: all CPUs of this process");
  options.text("--isa", isa_, "generic|avx2|avx512", "instruction set; default: the best this CPU runs");
  options.text("--cxx", cxx_, "COMPILER", "C++ compiler; default: $CXX, then what is found");
  options.choice("--cache", cache_, {"model", "warm", "cold"}, "what is in the caches when a sample starts");
  options.integer("--samples", samples_, "N", "samples per candidate", 1, 100000);
  options.number("--min-time", min_time_ms_, "MS", "milliseconds a sample lasts at least", 1e-3);
  options.integer("--jobs", jobs_, "N", "compilers at once; 0: by CPUs and memory");
  options.seconds("--compile-timeout", compile_timeout_, "seconds per compiler call");
  options.seconds("--run-timeout", run_timeout_, "seconds per candidate, checking included");
  options.text("--input", input_, "FILE.npy", "block input [B,S,D]; default: generated");
  options.text("--kernel-dir", kernel_dir_, "DIR", "read the building blocks from DIR, not from the program");
  options.group("");
}

measure::SessionOptions SessionArguments::session(const ProblemOptions& problem) const {
  check_backend(backend_);
  if (!isa_.empty()) lower::parse_isa(isa_);
  if (!kernel_dir_.empty()) codegen::set_kernel_directory(kernel_dir_);
  measure::SessionOptions session;
  session.threads = threads_;
  session.isa = isa_;
  session.cxx = cxx_;
  session.cache = measure::parse_cache_mode(cache_);
  session.samples = samples_;
  session.min_sample_seconds = min_time_ms_ * 1e-3;
  session.jobs = jobs_;
  session.compile_timeout = compile_timeout_;
  session.run_timeout = run_timeout_;
  session.weights = problem.weights();
  session.layer = problem.layer();
  session.input = input_;
  session.poll = stop_if_interrupted;
  return session;
}

bool SessionArguments::emulated() const {
  if (backend_ != "simt") return false;
  for (const char* name : {"--threads", "--isa", "--cache", "--samples", "--min-time", "--input"})
    if (options_->given(name))
      throw base::UsageError(fmt::format("{} means nothing to --backend simt", name));
  if (!kernel_dir_.empty()) codegen::set_kernel_directory(kernel_dir_);
  return true;
}

std::string SessionArguments::command_line() const { return options_->command_line(kNames); }

std::string data_identity(const measure::SessionOptions& session) {
  if (session.weights.empty() && session.input.empty()) return "generated";
  base::Hasher hasher;
  for (const std::filesystem::path& file : {session.weights, session.input}) {
    hasher.add(file.empty() ? std::string() : base::read_file(file));
  }
  hasher.add(static_cast<std::uint64_t>(session.layer));
  return "files-" + hasher.hex();
}

std::string describe(const measure::Environment& environment) {
  return fmt::format("cpu {}, {} threads, {}", field(environment, "isa"), field(environment, "threads"),
                     field(environment, "compiler"));
}

}  // namespace fusetune::cli
