#include "export/library_builder.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace fusetune::exporting {
namespace {

namespace fs = std::filesystem;
using Command = std::vector<std::string>;

std::string line_of(const Command& command) {
  std::string line;
  for (const std::string& word : command) line += (line.empty() ? "" : " ") + base::quote_for_shell(word);
  return line;
}

void run(const Command& command, const std::string& doing, const BuildOptions& options) {
  const base::ProcessResult result =
      base::run_process(command, {.timeout_seconds = options.timeout_seconds,
                                  .memory_limit_bytes = options.memory_limit_bytes,
                                  .input = {}});
  if (result.exit_code == 0) return;
  const std::string how = result.timed_out     ? "did not end in time"
                          : result.signal != 0 ? "was ended by signal " + std::to_string(result.signal)
                                               : "failed";
  throw base::EnvironmentError("exporting: " + doing + " " + how + "\n" + line_of(command) + "\n" +
                               result.output);
}

void append(Command& command, const std::vector<std::string>& words) {
  command.insert(command.end(), words.begin(), words.end());
}

/// Runs `work(0)` … `work(count - 1)` on up to `threads` threads; the first exception leaves here. Children
/// die with the thread that started them, so each thread waits for its own.
void for_each_parallel(std::size_t count, int threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto loop = [&] {
    for (std::size_t i = next++; i < count; i = next++) try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next = count;
      }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(loop);
  loop();
  for (std::thread& other : others) other.join();
  if (error) std::rethrow_exception(error);
}

const std::vector<std::string> kCommon = {
    "-std=c++20", "-O2", "-fPIC", "-fno-fast-math", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti"};

class Builder {
 public:
  Builder(const fs::path& bundle, const BundleInput& input, const BuildOptions& options)
      : bundle_(bundle), input_(input), options_(options) {}

  void library() {
    const std::vector<std::string> kernels = kernel_files(input_);
    std::vector<std::string> sources = {"src/block.cpp", "src/cpu_check.cpp", "src/error.cpp",
                                        "src/mask.cpp",  "src/threads.cpp",   "src/weights.cpp"};
    const std::size_t runtime = sources.size();
    sources.insert(sources.end(), kernels.begin(), kernels.end());
    for_each_parallel(sources.size(), options_.jobs, [&](std::size_t i) {
      poll();
      compile(sources[i], object(i), i >= runtime);
    });
    fs::create_directories(bundle_ / "lib");
    const std::string name = "lib" + input_.name + ".so";
    Command command = {input_.toolchain.path,
                       "-shared",
                       "-s",
                       "-Wl,-soname," + name,
                       "-Wl,-z,defs",
                       "-Wl,-z,now",
                       "-Wl,-z,noexecstack",
                       "-Wl,-Bsymbolic",
                       "-Wl,--as-needed",
                       "-o",
                       (bundle_ / "lib" / name).string()};
    for (std::size_t i = 0; i < sources.size(); ++i) command.push_back(object(i));
    command.emplace_back("-pthread");
    run(command, "linking " + name, options_);
  }

  void verify_program() {
    poll();
    fs::create_directories(bundle_ / "bin");
    const std::string name = input_.name + "_verify";
    run({input_.toolchain.path, "-std=c++20", "-O2", "-ffp-contract=off", std::string(baseline_flag()), "-s",
         "-Wl,-z,noexecstack", "-I" + (bundle_ / "include").string(),
         (bundle_ / "verify/verify.cpp").string(), "-o", (bundle_ / "bin" / name).string(),
         "-L" + (bundle_ / "lib").string(), "-l" + input_.name, "-Wl,-rpath,$ORIGIN/../lib", "-pthread"},
        "compiling verify/verify.cpp", options_);
  }

 private:
  void poll() const {
    if (options_.poll) options_.poll();
  }
  std::string object(std::size_t i) const { return (objects_.path() / (std::to_string(i) + ".o")).string(); }

  void compile(const std::string& source, const std::string& to, bool kernel) const {
    Command command = {input_.toolchain.path, std::string(baseline_flag())};
    append(command, kCommon);
    if (kernel) append(command, input_.toolchain.kernel_flags);
    append(command, {"-pipe", "-c", (bundle_ / source).string(), "-o", to});
    run(command, "compiling " + source, options_);
  }

  const fs::path& bundle_;
  const BundleInput& input_;
  const BuildOptions& options_;
  base::TemporaryDirectory objects_;
};

}  // namespace

void build_library(const fs::path& bundle, const BundleInput& input, const BuildOptions& options) {
  Builder builder(bundle, input, options);
  builder.library();
  builder.verify_program();
}

std::string run_verify_program(const fs::path& bundle, const BundleInput& input, double timeout_seconds) {
  const base::ProcessResult result = base::run_process(
      {(bundle / "bin" / (input.name + "_verify")).string(), "--threads", std::to_string(input.threads)},
      {.timeout_seconds = timeout_seconds, .memory_limit_bytes = 0, .input = {}});
  if (result.exit_code == 0) return result.output;
  const std::string how = result.timed_out     ? "did not end in time"
                          : result.signal != 0 ? "was ended by signal " + std::to_string(result.signal)
                                               : "failed";
  throw base::EnvironmentError("exporting: the bundle's own verify program " + how +
                               "; nothing was exported. It printed:\n" + result.output);
}

}  // namespace fusetune::exporting
