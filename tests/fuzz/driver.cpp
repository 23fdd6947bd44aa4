// Runs a fuzz target without a fuzzing engine: its seeds, then changes of them, for a while.
//
//     fuzz_npy                       FUSETUNE_FUZZ_SECONDS (2) of inputs from FUSETUNE_FUZZ_SEED (1)
//     fuzz_npy FILE...               these inputs only: repeats a failure
//     fuzz_npy --write-seeds DIR     the seeds as files, for an engine to start from
//
// Inputs run in a child process, which keeps the current one in memory that both share: whatever ends the
// child, a sanitizer or the stack's end included, the input is there to be written to FILE.
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <new>
#include <thread>

#include "base/file.h"
#include "base/hash.h"
#include "base/number.h"
#include "mutator.h"
#include "target.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

namespace fusetune::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

/// An input that takes longer is a failure: none takes a thousandth of it.
constexpr double kLongestRun = 20;
/// Far more than any reader needs for kLongestInput bytes.
constexpr rlim_t kMostMemory = rlim_t{4} << 30;

struct Shared {
  std::atomic<std::uint64_t> executions;
  std::size_t size;
  char input[kLongestInput];
};

void run(Shared& shared, std::string_view input) {
  shared.size = std::min(input.size(), kLongestInput);
  std::memcpy(shared.input, input.data(), shared.size);
  // A copy of the exact size, so that a sanitizer sees a read past the end.
  const std::vector<std::uint8_t> copy(input.begin(), input.end());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
  shared.executions.fetch_add(1);
}

void run_seeds_and_changes(Shared& shared, std::uint64_t seed, double seconds) {
  const std::vector<std::string> seeds = fuzz_seeds();
  for (const std::string& input : seeds) run(shared, input);
  Mutator mutator(seeds, seed);
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end) run(shared, mutator.next(kLongestInput));
}

/// Runs `body` in a child; its exit code, or why there is none.
template <typename Body>
std::string why_ended(const Shared& shared, Body body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return "cannot start a process";
  if (child == 0) {
    const rlimit none{0, 0}, memory{kMostMemory, kMostMemory};
    ::setrlimit(RLIMIT_CORE, &none);
    if (!kSanitized) ::setrlimit(RLIMIT_AS, &memory);
    body();
    std::exit(0);  // with everything that ends a process: leaks are found there
  }
  std::uint64_t seen = 0;
  auto last = Clock::now();
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (const std::uint64_t now = shared.executions; now != seen) seen = now, last = Clock::now();
    if (Clock::now() - last < std::chrono::duration<double>(kLongestRun)) continue;
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    return fmt::format("took more than {} s", kLongestRun);
  }
  if (WIFSIGNALED(status)) return fmt::format("ended by signal {}", WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

double seconds_from_environment() {
  const char* text = std::getenv("FUSETUNE_FUZZ_SECONDS");
  return base::parse_seconds(text == nullptr ? "" : text).value_or(2);
}

std::uint64_t seed_from_environment() {
  const char* text = std::getenv("FUSETUNE_FUZZ_SEED");
  return static_cast<std::uint64_t>(base::parse_int(text == nullptr ? "1" : text).value_or(1));
}

int report_failure(const std::string& program, const Shared& shared, const std::string& why) {
  const std::string_view input(shared.input, shared.size);
  const std::filesystem::path file = std::filesystem::absolute("crash-" + base::hash_hex(input));
  base::write_file_atomic(file, input);
  fmt::print(stderr, "input {} ({} bytes) {}\nrepeat: {} {}\n", shared.executions.load(), input.size(), why,
             program, file.string());
  return 1;
}

int fuzz(const std::string& program, Shared& shared) {
  const double seconds = seconds_from_environment();
  const std::uint64_t seed = seed_from_environment();
  fmt::print("FUSETUNE_FUZZ_SEED={} FUSETUNE_FUZZ_SECONDS={}\n", seed, seconds);
  const std::string why = why_ended(shared, [&] { run_seeds_and_changes(shared, seed, seconds); });
  fmt::print("{} executions\n", shared.executions.load());
  std::fflush(stdout);  // before what goes to stderr
  return why.empty() ? 0 : report_failure(program, shared, why);
}

int repeat(Shared& shared, const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    const std::string input = base::read_file(file);
    const std::string why = why_ended(shared, [&] { run(shared, input); });
    if (why.empty()) continue;
    fmt::print(stderr, "{} {}\n", file, why);
    return 1;
  }
  fmt::print("{} inputs are fine\n", files.size());
  return 0;
}

int write_seeds(const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  for (const std::string& seed : fuzz_seeds())
    base::write_file_atomic(directory / base::hash_hex(seed), seed);
  return 0;
}

}  // namespace
}  // namespace fusetune::fuzz

int main(int argc, char** argv) {
  using namespace fusetune::fuzz;
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 2 && words[0] == "--write-seeds") return write_seeds(words[1]);
  void* page = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return 3;
  Shared& shared = *new (page) Shared{};
  return words.empty() ? fuzz(argv[0], shared) : repeat(shared, words);
}
