#include "cli/session_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>

#include "backend/backend.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/number.h"
#include "base/text.h"
#include "cli/interrupt.h"
#include "codegen/kernel_source.h"

namespace fusetune::cli {
namespace {

constexpr std::array<std::string_view, 13> kNames = {
    "--backend",  "--device", "--threads",         "--isa",         "--cxx",   "--cache",     "--samples",
    "--min-time", "--jobs",   "--compile-timeout", "--run-timeout", "--input", "--kernel-dir"};

/// "0,1,3" as numbers.
std::vector<int> parse_ordinals(const std::string& text) {
  constexpr std::int64_t kMost = 1023;
  std::vector<int> ordinals;
  for (const std::string& item : base::split(text, ',')) {
    const std::optional<std::int64_t> number = base::parse_int(item);
    if (!number || *number < 0 || *number > kMost)
      throw base::UsageError(fmt::format(
          "--device {}: '{}' is no GPU's number; expected numbers from 0 to {} with commas between, as "
          "`fusetune devices` lists them",
          text, item, kMost));
    const int ordinal = static_cast<int>(*number);
    if (std::find(ordinals.begin(), ordinals.end(), ordinal) != ordinals.end())
      throw base::UsageError(
          fmt::format("--device {}: GPU {} is named twice; name each once", text, ordinal));
    ordinals.push_back(ordinal);
  }
  return ordinals;
}

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
}

void SessionArguments::declare(Options& options, Devices devices) {
  options_ = &options;
  devices_ = devices;
  options.group("Device and measuring");
  options.text("--backend", backend_, "cpu|cuda|simt",
               "where kernels run; simt, a GPU emulator, verifies only");
  if (devices == Devices::one)
    options.text("--device", device_, "N", "cuda: which GPU, as fusetune devices lists them; default: 0");
  else
    options.text("--device", device_, "N[,N...]",
                 "cuda: which GPUs, as fusetune devices lists them; several of one kind measure at once; "
                 "default: 0");
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
  check_meaning();
  if (!isa_.empty()) lower::parse_isa(isa_);
  if (!kernel_dir_.empty()) codegen::set_kernel_directory(kernel_dir_);
  measure::SessionOptions session;
  session.device = measure::parse_device_kind(backend_);
  if (options_->given("--device")) session.ordinals = parse_ordinals(device_);
  if (session.ordinals.size() > 1 && devices_ == Devices::one)
    throw base::UsageError(fmt::format(
        "--device {}: this command runs on one GPU; `search` alone measures on several at once", device_));
  session.threads = threads_;
  session.isa = isa_;
  session.cxx = cxx_;
  session.cache = measure::parse_cache_mode(cache_);
  session.samples = samples_;
  session.min_sample_seconds = min_time_ms_ * 1e-3;
  // Who gives a limit of his own may want it to be met.
  if (!options_->given("--run-timeout") && session.min_sample_seconds * samples_ > run_timeout_)
    throw base::UsageError(fmt::format(
        "{} samples of {} ms (--samples, --min-time) take longer than the {} s that a candidate has; give it "
        "more with --run-timeout",
        samples_, base::format_shortest(min_time_ms_), base::format_shortest(run_timeout_)));
  session.jobs = jobs_;
  session.compile_timeout = compile_timeout_;
  session.run_timeout = run_timeout_;
  session.weights = problem.weights();
  session.layer = problem.layer();
  session.input = input_;
  session.poll = stop_if_interrupted;
  return session;
}

void SessionArguments::refuse(std::span<const std::string_view> names) const {
  for (const std::string_view name : names)
    if (options_->given(name))
      throw base::UsageError(fmt::format("{} means nothing to --backend {}{}", name, backend_,
                                         name == "--device" ? ": it says which GPUs" : ""));
}

void SessionArguments::check_meaning() const {
  constexpr std::array<std::string_view, 1> kOfCuda = {"--device"};
  constexpr std::array<std::string_view, 3> kOfCpu = {"--threads", "--isa", "--cxx"};
  if (backend_ == "cuda")
    refuse(kOfCpu);
  else
    refuse(kOfCuda);
}

bool SessionArguments::emulated() const {
  constexpr std::array<std::string_view, 7> kNotEmulated = {"--device",  "--threads",  "--isa",  "--cache",
                                                            "--samples", "--min-time", "--input"};
  if (backend_ != "simt") return false;
  refuse(kNotEmulated);
  if (!kernel_dir_.empty()) codegen::set_kernel_directory(kernel_dir_);
  return true;
}

std::string SessionArguments::command_line(Devices devices) const {
  const std::size_t first = device_.find(',');
  if (devices == Devices::several || first == std::string::npos) return options_->command_line(kNames);
  static_assert(kNames[1] == "--device");
  const std::span<const std::string_view> names = kNames;
  return fmt::format("{} --device {}{}", options_->command_line(names.first(1)), device_.substr(0, first),
                     options_->command_line(names.subspan(2)));
}

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
  if (field(environment, "backend") == "cuda")
    return fmt::format("cuda {}, driver {}, {}", field(environment, "device"), field(environment, "driver"),
                       field(environment, "compiler"));
  return fmt::format("cpu {}, {} threads, {}", field(environment, "isa"), field(environment, "threads"),
                     field(environment, "compiler"));
}

}  // namespace fusetune::cli
