#include "backend/cuda/cubin_compiler.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "backend/cpu/cpu_info.h"
#include "backend/cuda/cubin_cache.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/number.h"
#include "base/text.h"

namespace fusetune::backend::cuda {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Status = CubinResult::Status;

// Bumped when what a key covers changes.
constexpr std::string_view kCacheFormat = "cubin-1";
constexpr std::int64_t kBytesPerJob = std::int64_t{1} << 30;

/// Parallel compiles: one per CPU, and each must find a gibibyte.
int choose_jobs(int requested) {
  if (requested > 0) return requested;
  const cpu::CpuInfo machine = cpu::probe_cpu();
  return static_cast<int>(std::clamp<std::int64_t>(machine.memory_bytes / kBytesPerJob, 1, machine.cpus));
}

/// Asked by NVRTC during a compile, also from threads of its own; once it has said stop it must not change
/// its mind.
struct Deadline {
  Clock::time_point end;
  std::atomic<bool> passed{false};

  static int stop(void* self, void* /*reserved*/) {
    auto* const deadline = static_cast<Deadline*>(self);
    if (Clock::now() >= deadline->end) deadline->passed = true;
    return deadline->passed ? 1 : 0;
  }
};

/// One nvrtcProgram. The guide allows calls from several threads, each with its own program.
class Program {
 public:
  Program(const NvrtcFunctions& functions, const CubinSource& source) : functions_(functions) {
    const std::string name = source.symbol + ".cu";
    const int result =
        functions_.create_program(&program_, source.text.c_str(), name.c_str(), 0, nullptr, nullptr);
    if (result != kNvrtcSuccess) {
      throw base::EnvironmentError("NVRTC cannot begin to compile " + source.name + ": " +
                                   functions_.get_error_string(result));
    }
  }
  ~Program() { functions_.destroy_program(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  int compile(const std::vector<std::string>& options, Deadline* deadline) {
    if (deadline != nullptr && functions_.set_flow_callback != nullptr)
      functions_.set_flow_callback(program_, &Deadline::stop, deadline);
    std::vector<const char*> words;
    words.reserve(options.size());
    for (const std::string& option : options) words.push_back(option.c_str());
    return functions_.compile_program(program_, static_cast<int>(words.size()), words.data());
  }
  std::string log() const {
    std::string log = content(functions_.get_program_log_size, functions_.get_program_log);
    while (log.ends_with('\0')) log.pop_back();  // its end, and one more after the assembler's errors
    return log;
  }
  std::string cubin() const { return content(functions_.get_cubin_size, functions_.get_cubin); }

 private:
  std::string content(int (*size)(void*, std::size_t*), int (*get)(void*, char*)) const {
    std::size_t bytes = 0;
    if (size(program_, &bytes) != kNvrtcSuccess) return {};
    std::string content(bytes, '\0');
    if (get(program_, content.data()) != kNvrtcSuccess) return {};
    return content;
  }

  const NvrtcFunctions& functions_;
  void* program_ = nullptr;
};

Status status_of(int result) {
  switch (result) {
    case kNvrtcSuccess:
      return Status::ok;
    case kNvrtcErrorOutOfMemory:
      return Status::resource_limit;
    case kNvrtcErrorCancelled:
      return Status::timeout;
    default:
      return Status::failed;
  }
}

}  // namespace

struct CubinCompiler::Impl {
  CudaCompiler compiler;
  CubinOptions options;
  CubinCache cache;
  int jobs = 1;

  std::vector<std::string> words(const Architecture& architecture) const;
  std::string key(const CubinSource& source) const;
  bool take_from_cache(const CubinSource& source, const std::string& key, CubinResult& result) const;
  CubinResult compile(const CubinSource& source, const std::string& key) const;
  CubinResult refuse(const CubinSource& source) const;
  void explain_failure(const CubinSource& source, const std::string& reason, CubinResult& result) const;
};

std::vector<std::string> CubinCompiler::Impl::words(const Architecture& architecture) const {
  std::vector<std::string> words = {"--gpu-architecture=" + architecture.name(), "--std=c++17",
                                    "--ptxas-options=-v"};
  if (options.line_info) words.emplace_back("-lineinfo");
  // Its own cache, where the driver's library is found, would bring an image without the assembler's log.
  if (std::pair(compiler.release.major, compiler.release.minor) >= std::pair(12, 9))
    words.emplace_back("-no-cache");
  return words;
}

/// The text has every building block in it, so that an edited block is a different key.
std::string CubinCompiler::Impl::key(const CubinSource& source) const {
  base::Hasher hasher;
  hasher.add(kCacheFormat).add(compiler.release.identity).add(source.symbol).add(source.text);
  for (const std::string& word : words(source.architecture)) hasher.add(word);
  return hasher.hex();
}

bool CubinCompiler::Impl::take_from_cache(const CubinSource& source, const std::string& key,
                                          CubinResult& result) const {
  auto entry = cache.find(key);
  if (!entry || entry->cubin.empty()) return false;
  const auto resources = parse_ptxas_log(entry->log, source.symbol);
  if (!resources) return false;
  result = {.cubin = std::move(entry->cubin), .resources = *resources, .log = std::move(entry->log)};
  return true;
}

CubinResult CubinCompiler::Impl::compile(const CubinSource& source, const std::string& key) const {
  if (!compiler.nvrtc) return refuse(source);
  const Nvrtc& nvrtc = *compiler.nvrtc;
  const Clock::time_point begin = Clock::now();
  Deadline deadline;
  const bool limited = options.timeout_seconds > 0;
  if (limited) {
    deadline.end = begin + std::chrono::duration_cast<Clock::duration>(
                               std::chrono::duration<double>(options.timeout_seconds));
  }
  Program program(nvrtc.functions(), source);
  const int code = program.compile(words(source.architecture), limited ? &deadline : nullptr);
  if (code == kNvrtcErrorBuiltinOperation) {
    throw base::EnvironmentError("NVRTC at '" + nvrtc.library().string() +
                                 "' does not find its libnvrtc-builtins library; install both in the same "
                                 "folder\n" +
                                 program.log());
  }

  CubinResult result;
  result.status = status_of(code);
  result.log = program.log();
  std::string reason = nvrtc.functions().get_error_string(code);
  if (result.status == Status::ok) {
    result.cubin = program.cubin();
    const auto resources = parse_ptxas_log(result.log, source.symbol);
    if (resources && !result.cubin.empty()) {
      result.resources = *resources;
    } else {
      result.status = Status::failed;
      result.cubin.clear();
      reason = "the compiled image has no kernel '" + source.symbol + "'";
    }
  }
  result.compile_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (result.status == Status::ok) {
    cache.store(key, {result.log, result.cubin});
  } else {
    if (result.status == Status::timeout) {
      reason =
          "did not end within " + base::format_shortest(options.timeout_seconds) + " s (--compile-timeout)";
    }
    explain_failure(source, reason, result);
  }
  return result;
}

CubinResult CubinCompiler::Impl::refuse(const CubinSource& source) const {
  CubinResult result;
  result.status = Status::unavailable;
  result.log = "cannot compile " + source.name + " (" + source.symbol + ") for " +
               source.architecture.name() + ": " + compiler.missing + ", and the cache " +
               options.cache_directory.string() + " has no image of it by NVRTC " +
               compiler.release.version() + "; " + kNvrtcRemedy + "\n";
  return result;
}

void CubinCompiler::Impl::explain_failure(const CubinSource& source, const std::string& reason,
                                          CubinResult& result) const {
  const fs::path saved = cache.save_failed_source(source.symbol, source.text);
  std::string text = "compiling " + source.name + " (" + source.symbol + ") for " +
                     source.architecture.name() + " with NVRTC " + compiler.release.version() + " at " +
                     compiler.nvrtc->library().string() + ": " + reason + "\n";
  if (saved.empty()) {
    text += "the source could not be saved\n";
  } else {
    text += "source saved in " + saved.string() +
            "\nrepeat with: nvcc -cubin -std=c++17 -Xptxas -v -arch=" + source.architecture.name() +
            " -o kernel.cubin " + base::quote_for_shell(saved.string()) + "\n";
  }
  result.log = text + result.log;
}

namespace {

/// Threads that take the next task until none is left or one throws.
class Workers {
 public:
  /// Runs task(i) for each i below `count` on up to `threads` threads and calls `progress(done)` from this
  /// one. Throws what a task or `progress` throws, once running tasks have ended.
  Workers(std::size_t count, int threads, std::function<void(std::size_t)> task)
      : count_(count), task_(std::move(task)) {
    const std::size_t wanted = std::min(count, static_cast<std::size_t>(std::max(1, threads)));
    try {
      for (std::size_t i = 0; i < wanted; ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {  // no more threads
      stop();
      throw;
    }
  }
  ~Workers() { stop(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void wait(const std::function<void(std::size_t)>& progress) {
    std::size_t reported = 0;
    std::unique_lock lock(mutex_);
    while (!error_ && reported < count_) {
      changed_.wait(lock, [&] { return error_ || done_ != reported; });
      reported = done_;
      lock.unlock();
      progress(reported);
      lock.lock();
    }
    lock.unlock();
    stop();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void work() {
    for (std::size_t i = next_++; i < count_; i = next_++) {
      std::exception_ptr error;
      try {
        task_(i);
      } catch (...) {
        error = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      ++done_;
      if (error && !error_) error_ = error;
      changed_.notify_one();
      if (error) return;
    }
  }

  void stop() {
    next_ = count_;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  const std::size_t count_;
  const std::function<void(std::size_t)> task_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;  // guards the next two
  std::size_t done_ = 0;
  std::exception_ptr error_;
  std::condition_variable changed_;
  std::vector<std::thread> threads_;
};

}  // namespace

CubinCompiler::CubinCompiler(CudaCompiler compiler, CubinOptions options) {
  CubinCache cache(options.cache_directory);
  const int jobs = choose_jobs(options.jobs);
  impl_ = std::make_unique<Impl>(Impl{std::move(compiler), std::move(options), std::move(cache), jobs});
}

CubinCompiler::~CubinCompiler() = default;

const CompilerRelease& CubinCompiler::release() const { return impl_->compiler.release; }

std::vector<std::string> CubinCompiler::options(const Architecture& architecture) const {
  return impl_->words(architecture);
}

std::vector<CubinResult> CubinCompiler::compile(std::span<const CubinSource> sources,
                                                const std::function<void(int, int)>& progress) {
  std::vector<CubinResult> results(sources.size());
  std::vector<std::string> keys;
  std::map<std::string, std::size_t> first_of_key;
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    check_supported(sources[i].architecture, impl_->compiler.release.architectures);
    keys.push_back(impl_->key(sources[i]));
    if (!first_of_key.emplace(keys[i], i).second) continue;
    if (!impl_->take_from_cache(sources[i], keys[i], results[i])) missing.push_back(i);
  }

  const int total = static_cast<int>(sources.size());
  const std::size_t present = sources.size() - missing.size();
  const auto report = [&](std::size_t done) {
    if (progress) progress(static_cast<int>(present + done), total);
  };
  report(0);
  Workers workers(missing.size(), impl_->jobs, [&](std::size_t i) {
    results[missing[i]] = impl_->compile(sources[missing[i]], keys[missing[i]]);
  });
  workers.wait(report);
  const bool any = std::any_of(results.begin(), results.end(), [](const CubinResult& result) {
    return result.status == Status::ok && !result.cubin.empty();
  });
  if (any && impl_->compiler.nvrtc) impl_->cache.state(impl_->compiler.release);

  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::size_t first = first_of_key.at(keys[i]);
    if (first == i) continue;
    results[i] = results[first];
    results[i].compile_seconds = 0;
  }
  return results;
}

std::size_t CubinCompiler::count_missing(std::span<const CubinSource> sources) const {
  std::set<std::string> missing;
  for (const CubinSource& source : sources)
    if (const std::string key = impl_->key(source); !impl_->cache.find(key)) missing.insert(key);
  return missing.size();
}

}  // namespace fusetune::backend::cuda
