#include "backend/cpu/kernel_compiler.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <exception>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <stop_token>
#include <string_view>
#include <thread>

#include "backend/cpu/cpu_info.h"
#include "backend/cpu/kernel_cache.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/number.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace fusetune::backend::cpu {
namespace {

namespace fs = std::filesystem;
using codegen::KernelSource;
using Status = CompileResult::Status;

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
// How long a hanging compiler may keep options.poll from being called.
constexpr auto kPoll = std::chrono::milliseconds(250);
// Bumped when what a key covers, or the cache's form, changes.
constexpr std::string_view kCacheFormat = "cpu-kernel-1";

std::string join_command(const std::vector<std::string>& argv) {
  std::string line;
  for (const std::string& word : argv) {
    if (!line.empty()) line += ' ';
    line += base::quote_for_shell(word);
  }
  return line;
}

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

/// A compiler that runs out of address space or is killed for memory says so in one of these ways.
bool mentions_memory(const std::string& output) {
  for (const char* phrase : {"out of memory", "memory exhausted", "bad_alloc", "Cannot allocate memory",
                             "Killed signal terminated program", "failed to map segment"}) {
    if (output.find(phrase) != std::string::npos) return true;
  }
  return false;
}

Status status_of(const base::ProcessResult& process) {
  if (process.exit_code == 0) return Status::ok;
  const bool out_of_time = process.timed_out || process.signal == SIGXCPU ||
                           process.output.find("CPU time limit exceeded") != std::string::npos;
  if (out_of_time) return Status::timeout;
  if (process.signal == SIGKILL || mentions_memory(process.output)) return Status::resource_limit;
  return Status::failed;
}

std::string describe_end(const base::ProcessResult& process, const CompileOptions& options) {
  if (process.timed_out) {
    return "did not end within " + base::format_shortest(options.timeout_seconds) + " s (--compile-timeout)";
  }
  if (process.signal != 0) return "was ended by signal " + std::to_string(process.signal);
  return "failed with exit code " + std::to_string(process.exit_code);
}

/// What all batches of one KernelCompiler share. Safe to use from several threads.
struct CompilerState {
  CompilerState(Compiler the_compiler, lower::Isa isa, CompileOptions the_options)
      : compiler(std::move(the_compiler)),
        options(std::move(the_options)),
        flags(compile_flags(compiler, isa)),
        linker(find_linker(compiler)),
        cache(options.cache_directory) {
    const CompilerLimits limits = compiler_limits(options.jobs, probe_cpu());
    options.jobs = limits.jobs;
    if (options.memory_limit_bytes == 0) options.memory_limit_bytes = limits.memory_bytes;
    find_support_library();
  }

  std::string key(const KernelSource& kernel) const;
  std::vector<std::string> compile_command(const fs::path& source, const fs::path& object) const;
  base::ProcessResult link(const fs::path& object, const fs::path& library, const std::stop_token& stop);

  Compiler compiler;
  CompileOptions options;
  std::vector<std::string> flags;
  std::string linker;           // empty: the driver links
  std::string support_library;  // libgcc.a: what the compiler calls for operations the CPU lacks
  std::atomic<bool> linker_works{true};
  KernelCache cache;
  base::TemporaryDirectory work;
  std::atomic<unsigned> unit_counter{0};

 private:
  void find_support_library();
};

void CompilerState::find_support_library() {
  const base::ProcessResult answer =
      base::run_process({compiler.path, "-print-libgcc-file-name"},
                        {.timeout_seconds = 20, .memory_limit_bytes = 0, .input = {}});
  const std::string path(base::trim(answer.output));
  std::error_code ignored;
  if (answer.exit_code == 0 && fs::is_regular_file(path, ignored)) support_library = path;
}

/// The text includes every building block, so that an edited block is a different key.
std::string CompilerState::key(const KernelSource& kernel) const {
  base::Hasher hasher;
  hasher.add(kCacheFormat).add(codegen::translation_unit({&kernel, 1})).add(kernel.symbol);
  hasher.add(compiler.path).add(compiler.kind).add(compiler.version).add(compiler.banner);
  for (const std::string& flag : flags) hasher.add(flag);
  return hasher.hex();
}

std::vector<std::string> CompilerState::compile_command(const fs::path& source,
                                                        const fs::path& object) const {
  std::vector<std::string> argv = {compiler.path};
  argv.insert(argv.end(), flags.begin(), flags.end());
  // -pipe: no temporary files of the compiler's own that a timeout would leave behind.
  for (const std::string& word :
       {std::string("-pipe"), std::string("-c"), source.string(), std::string("-o"), object.string()}) {
    argv.push_back(word);
  }
  return argv;
}

/// Links with `ld`, and through the compiler's driver where that does not work (cross prefixes, wrappers).
base::ProcessResult CompilerState::link(const fs::path& object, const fs::path& library,
                                        const std::stop_token& stop) {
  const base::ProcessOptions limits{.timeout_seconds = options.timeout_seconds,
                                    .memory_limit_bytes = options.memory_limit_bytes,
                                    .input = {},
                                    .stop = stop};
  if (!linker.empty() && linker_works) {
    std::vector<std::string> argv = {linker,        "-shared", "-Bsymbolic",     "-z",           "now", "-z",
                                     "noexecstack", "-o",      library.string(), object.string()};
    if (!support_library.empty()) argv.push_back(support_library);
    base::ProcessResult result = base::run_process(argv, limits);
    if (result.exit_code == 0) return result;
  }
  base::ProcessResult result =
      base::run_process({compiler.path, "-shared", "-nostdlib", "-Wl,-Bsymbolic,-z,now,-z,noexecstack", "-o",
                         library.string(), object.string(), "-lgcc"},
                        limits);
  if (result.exit_code == 0) linker_works = false;
  return result;
}

/// The directory of one translation unit; removed with what is in it.
class UnitDirectory {
 public:
  explicit UnitDirectory(fs::path path) : path_(std::move(path)) {
    std::error_code error;
    fs::create_directories(path_, error);
    if (error) {
      throw base::EnvironmentError("cannot create '" + path_.string() + "' to compile in: " +
                                   error.message() + "; set TMPDIR to a directory with free space");
    }
  }
  ~UnitDirectory() {
    std::error_code ignored;  // the parent is removed in the end
    fs::remove_all(path_, ignored);
  }
  UnitDirectory(const UnitDirectory&) = delete;
  UnitDirectory& operator=(const UnitDirectory&) = delete;
  fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

void write_source(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) {
    throw base::EnvironmentError("cannot write '" + path.string() +
                                 "' to compile it; is the disk full? Set TMPDIR "
                                 "to a directory with free space");
  }
}

/// Indices of kernels that are compiled together.
using Unit = std::vector<std::size_t>;

/// One call of compile(): a queue of units, worker threads that empty it, and the results.
class CompileBatch {
 public:
  CompileBatch(CompilerState& compiler, std::span<const KernelSource> kernels)
      : compiler_(compiler), kernels_(kernels), keys_(kernels.size()), results_(kernels.size()) {}

  std::vector<CompileResult> run(const std::function<void(int, int)>& progress);

 private:
  void take_from_cache();
  void fill_queue();
  void work();
  void compile_unit(const Unit& unit);
  void succeed(const Unit& unit, const fs::path& library, double seconds);
  void retry_singly(const Unit& unit);
  void fail(std::size_t index, const base::ProcessResult& process, const std::string& text,
            const fs::path& source, const std::vector<std::string>& command);
  void finish(std::size_t index, CompileResult result);
  void wait_and_report(const std::function<void(int, int)>& progress);
  void stop();

  CompilerState& compiler_;
  std::span<const KernelSource> kernels_;
  std::vector<std::string> keys_;
  std::vector<CompileResult> results_;
  std::map<std::string, std::size_t> first_of_key_;  // equal kernels are compiled once
  std::vector<std::size_t> missing_;                 // not in the cache, each key once

  std::mutex mutex_;  // guards what follows and results_
  std::condition_variable changed_;
  std::deque<Unit> queue_;
  std::size_t running_ = 0;  // units taken from the queue and not done
  std::size_t done_ = 0;     // kernels with a result, of missing_
  std::stop_source stop_;    // of the running compilers
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

void CompileBatch::take_from_cache() {
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    keys_[i] = compiler_.key(kernels_[i]);
    if (!first_of_key_.emplace(keys_[i], i).second) continue;
    if (const auto library = compiler_.cache.find(keys_[i])) {
      results_[i].kernel = {*library, kernels_[i].symbol, kernels_[i], 0};
    } else {
      missing_.push_back(i);
    }
  }
}

/// Units as large as allowed, but no larger than keeps every job busy.
void CompileBatch::fill_queue() {
  const std::size_t jobs = static_cast<std::size_t>(compiler_.options.jobs);
  const std::size_t largest = static_cast<std::size_t>(std::max(1, compiler_.options.kernels_per_unit));
  const std::size_t size = std::clamp<std::size_t>((missing_.size() + jobs - 1) / jobs, 1, largest);
  for (std::size_t begin = 0; begin < missing_.size(); begin += size) {
    const std::size_t end = std::min(begin + size, missing_.size());
    queue_.emplace_back(missing_.begin() + static_cast<std::ptrdiff_t>(begin),
                        missing_.begin() + static_cast<std::ptrdiff_t>(end));
  }
}

std::vector<CompileResult> CompileBatch::run(const std::function<void(int, int)>& progress) {
  take_from_cache();
  fill_queue();
  const std::size_t workers = std::min(static_cast<std::size_t>(compiler_.options.jobs), queue_.size());
  try {
    for (std::size_t i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
    wait_and_report(progress);
  } catch (...) {  // a thread that cannot be started, or a `progress` or poll that wants to stop
    stop();
    throw;
  }
  stop();
  if (error_) std::rethrow_exception(error_);
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    const std::size_t first = first_of_key_.at(keys_[i]);
    if (first != i) results_[i] = results_[first];
  }
  return std::move(results_);
}

void CompileBatch::wait_and_report(const std::function<void(int, int)>& progress) {
  const std::size_t cached = kernels_.size() - missing_.size();
  std::size_t reported = kernels_.size() + 1;
  std::unique_lock lock(mutex_);
  while (true) {
    if (compiler_.options.poll) {
      lock.unlock();
      compiler_.options.poll();
      lock.lock();
    }
    const std::size_t done = cached + done_;
    if (progress && done != reported) {
      reported = done;
      lock.unlock();
      progress(static_cast<int>(done), static_cast<int>(kernels_.size()));
      lock.lock();
      continue;
    }
    if (done_ == missing_.size() || error_) return;
    changed_.wait_for(lock, kPoll);
  }
}

/// Ends running compilers, drops the units that wait for one, and joins.
void CompileBatch::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_.request_stop();
    queue_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void CompileBatch::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !queue_.empty() || running_ == 0 || error_; });
    if (queue_.empty() || error_) return;
    const Unit unit = std::move(queue_.front());
    queue_.pop_front();
    ++running_;
    lock.unlock();
    std::exception_ptr error;
    try {
      compile_unit(unit);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --running_;
    if (error && !error_) error_ = error;
    changed_.notify_all();
  }
}

void CompileBatch::compile_unit(const Unit& unit) {
  std::vector<KernelSource> members;
  for (const std::size_t index : unit) members.push_back(kernels_[index]);
  const std::string text = codegen::translation_unit(members);

  const UnitDirectory directory(compiler_.work.path() / ("unit" + std::to_string(compiler_.unit_counter++)));
  const fs::path source = directory / "kernels.cpp", object = directory / "kernels.o",
                 library = directory / "kernels.so";
  write_source(source, text);
  const std::vector<std::string> command = compiler_.compile_command(source, object);
  base::ProcessResult process =
      base::run_process(command, {.timeout_seconds = compiler_.options.timeout_seconds,
                                  .memory_limit_bytes = compiler_.options.memory_limit_bytes,
                                  .input = {},
                                  .stop = stop_.get_token()});
  const double compile_seconds = process.seconds;
  if (process.exit_code == 0) process = compiler_.link(object, library, stop_.get_token());
  if (stop_.stop_requested()) return;  // it may have been killed: nobody asks for its result any more
  if (process.exit_code == 0) {
    succeed(unit, compiler_.cache.store_library(base::read_file(library)), compile_seconds + process.seconds);
  } else if (unit.size() > 1) {
    retry_singly(unit);
  } else {
    fail(unit.front(), process, text, source, command);
  }
}

void CompileBatch::succeed(const Unit& unit, const fs::path& library, double seconds) {
  const double share = seconds / static_cast<double>(unit.size());
  for (const std::size_t index : unit) {
    compiler_.cache.link_kernel(keys_[index], library);
    CompileResult result;
    result.kernel = {library, kernels_[index].symbol, kernels_[index], share};
    finish(index, std::move(result));
  }
}

/// One of the kernels fails, or takes all the time or memory: each gets its own call, so that it costs itself
/// only.
void CompileBatch::retry_singly(const Unit& unit) {
  const std::lock_guard lock(mutex_);
  if (error_ || stop_.stop_requested()) return;
  for (const std::size_t index : unit) queue_.push_back({index});
  changed_.notify_all();
}

void CompileBatch::fail(std::size_t index, const base::ProcessResult& process, const std::string& text,
                        const fs::path& source, const std::vector<std::string>& command) {
  const KernelSource& kernel = kernels_[index];
  const fs::path saved = compiler_.cache.save_failed_source(kernel.symbol, text);
  const std::string place = saved.empty() ? "kernels.cpp" : saved.string();

  CompileResult result;
  result.status = status_of(process);
  result.log = "compiling " + kernel.variant.to_string() + " (" + kernel.symbol + ") with " +
               compiler_.compiler.path + " " + compiler_.compiler.version + " " +
               describe_end(process, compiler_.options) + "\n";
  result.log += saved.empty() ? "the source could not be saved\n" : "source saved in " + place + "\n";
  std::vector<std::string> repeat = command;
  repeat.back() = "/dev/null";  // the object file
  result.log +=
      "repeat with: " + replace_all(join_command(repeat), source.string(), base::quote_for_shell(place)) +
      "\n";
  result.log += replace_all(process.output, source.string(), place);
  finish(index, std::move(result));
}

void CompileBatch::finish(std::size_t index, CompileResult result) {
  const std::lock_guard lock(mutex_);
  results_[index] = std::move(result);
  ++done_;
  changed_.notify_all();
}

}  // namespace

struct KernelCompiler::Impl {
  CompilerState state;
};

CompilerLimits compiler_limits(int jobs, const CpuInfo& cpu) {
  if (jobs <= 0) jobs = static_cast<int>(std::clamp<std::int64_t>(cpu.memory_bytes / kGiB, 1, cpu.cpus));
  return {jobs, std::clamp(cpu.memory_bytes / jobs, kGiB, 16 * kGiB)};
}

KernelCompiler::KernelCompiler(Compiler compiler, lower::Isa isa, CompileOptions options)
    : impl_(new Impl{CompilerState(std::move(compiler), isa, std::move(options))}) {}

KernelCompiler::~KernelCompiler() = default;

std::vector<CompileResult> KernelCompiler::compile(std::span<const KernelSource> kernels,
                                                   const std::function<void(int, int)>& progress) {
  return CompileBatch(impl_->state, kernels).run(progress);
}

std::size_t KernelCompiler::count_missing(std::span<const KernelSource> kernels) const {
  std::set<std::string> missing;
  for (const KernelSource& kernel : kernels) {
    std::string key = impl_->state.key(kernel);
    if (!impl_->state.cache.contains(key)) missing.insert(std::move(key));
  }
  return missing.size();
}

}  // namespace fusetune::backend::cpu
