#include "backend/simt/library_compiler.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "backend/cpu/cpu_info.h"
#include "backend/cpu/kernel_cache.h"
#include "backend/simt/hooks.h"
#include "backend/simt/source_location.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/number.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace fusetune::backend::simt {
namespace {

namespace fs = std::filesystem;

// Bumped when what a key covers, or the cache's form, changes.
constexpr std::string_view kCacheFormat = "simt-library-2";
constexpr const char* kUnitName = "kernels.cu";  // what findings call the text outside of #line directives

// The hooks of a library as assembly: symbols that jump through its table.
constexpr const char* kTableEntries = "ft_simt_table_entries";  // the table, as the library itself names it
constexpr const char* kUnbound = "ft_simt_unbound";             // what the table holds while constructors run

std::string jump_through_table(std::size_t index) {
  const std::string slot = std::string(kTableEntries) + "+" + std::to_string(index * sizeof(void*));
#if defined(__x86_64__)
  return "jmp *" + slot + "(%rip)";
#else
  return "adrp x16, " + slot + "\nldr x16, [x16, #:lo12:" + slot + "]\nbr x16";
#endif
}

std::string define(const std::string& name, const char* visibility, const char* type) {
  return ".globl " + name + "\n" + visibility + " " + name + "\n.type " + name + ", %" + type + "\n" + name +
         ":\n";
}

std::string hook_definitions(Mode mode) {
  const std::span<const Hook> all = hooks();
  std::string text = ".text\n" + define(kHooksBegin, ".protected", "function") +
                     define(kUnbound, ".hidden", "function") + "ret\n";
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].checked_only && mode != Mode::checked) continue;
    text += define(all[i].name, ".hidden", "function") + jump_through_table(i) + "\n";
  }
  text += define(kHooksEnd, ".protected", "function") + ".data\n.balign 16\n" +
          define(kTableEntries, ".hidden", "object") + define(kHookTable, ".protected", "object") + ".rept " +
          std::to_string(all.size()) + "\n.quad " + kUnbound + "\n.endr\n.text\n";
  return "\nasm(R\"(\n" + text + ")\");\n";
}

std::string whole_unit(const std::string& unit, Mode mode) {
  return "#line 1 \"" + std::string(kUnitName) + "\"\n" + unit + "\n#line 1 \"hooks\"\n" +
         hook_definitions(mode);
}

// ------------------------------------------------------------------------------------- calling the compiler

std::string join_command(const std::vector<std::string>& argv) {
  std::string line;
  for (const std::string& word : argv) line += (line.empty() ? "" : " ") + base::quote_for_shell(word);
  return line;
}

std::string describe_end(const base::ProcessResult& process, const LibraryOptions& options) {
  if (process.timed_out) return "did not end within " + base::format_shortest(options.timeout_seconds) + " s";
  if (process.signal != 0) return "was ended by signal " + std::to_string(process.signal);
  return "failed with exit code " + std::to_string(process.exit_code);
}

base::ProcessResult run(const std::vector<std::string>& argv, double timeout_seconds) {
  return base::run_process(argv, {.timeout_seconds = timeout_seconds, .memory_limit_bytes = 0, .input = {}});
}

bool knows_flag(const cpu::Compiler& compiler, const std::string& flag) {
  constexpr double kTrialSeconds = 20;
  const base::ProcessResult result = base::run_process(
      {compiler.path, "-Werror", flag, "-x", "c++", "-c", "-", "-o", "/dev/null"},
      {.timeout_seconds = kTrialSeconds, .memory_limit_bytes = 0, .input = "int variable;\n"});
  return result.exit_code == 0;
}

}  // namespace

std::vector<std::string> kernel_flags(const cpu::Compiler& compiler, Mode mode,
                                      const std::function<bool(const std::string&)>& supported) {
  const bool gcc = compiler.kind == "gcc";
  // DWARF 4: binutils 2.40 takes a unit's first file for its main file in version 5.
  std::vector<std::string> flags = {"-std=c++17", "-fPIC", "-g1", "-gdwarf-4", "-w", "-fno-exceptions",
                                    "-fno-rtti", "-fno-threadsafe-statics", "-fno-math-errno",
                                    // The same results in both modes.
                                    "-ffp-contract=off"};
  const auto add = [&flags](std::initializer_list<const char*> more) {
    flags.insert(flags.end(), more.begin(), more.end());
  };
  if (gcc) add({"-fno-gnu-unique"});  // see cpu/compiler.cpp
  if (cpu::probe_cpu().best_isa != lower::Isa::generic) add({"-mavx2", "-mfma", "-mf16c"});
  // Touches every page of a large frame, so that none jumps over the stack's guard page.
  if (supported("-fstack-clash-protection")) add({"-fstack-clash-protection"});
  if (mode == Mode::fast) {
    add({"-O1"});
    return flags;
  }
  // Optimised code has fewer accesses than the source: racy ones would be gone.
  add({"-O0", "-fsanitize=thread", "-fsanitize=bounds,shift,integer-divide-by-zero,signed-integer-overflow"});
  if (gcc) {
    add({"-fsanitize-undefined-trap-on-error"});
  } else {
    // GCC's access hooks tell aligned accesses from others; Clang copies structures without a hook of that
    // kind.
    add({"-fsanitize=alignment", "-fsanitize-trap=undefined"});
  }
  if (supported("-ftrivial-auto-var-init=pattern")) add({"-ftrivial-auto-var-init=pattern"});
  return flags;
}

struct LibraryCompiler::Impl {
  Impl(const cpu::Compiler& the_compiler, Mode the_mode, const LibraryOptions& the_options)
      : compiler(the_compiler),
        mode(the_mode),
        options(the_options),
        linker(cpu::find_linker(compiler)),
        flags(kernel_flags(compiler, mode,
                           [this](const std::string& flag) { return knows_flag(compiler, flag); })),
        cache(std::make_shared<cpu::KernelCache>(options.cache_directory)) {
    if (options.jobs <= 0) options.jobs = std::max(1, cpu::probe_cpu().cpus);
  }

  std::string key(const std::string& text) const;
  std::vector<std::string> compile_command(const fs::path& source, const fs::path& object) const;
  base::ProcessResult link(const fs::path& object, const fs::path& library) const;
  LibraryResult compile(const std::string& unit);
  LibraryResult failure(const std::string& key, const std::string& text, const base::ProcessResult& process);

  cpu::Compiler compiler;
  Mode mode;
  LibraryOptions options;
  std::string linker;  // empty: the compiler's driver links
  std::vector<std::string> flags;
  std::shared_ptr<cpu::KernelCache> cache;  // its libraries hold it too
  base::TemporaryDirectory work;
  std::atomic<unsigned> unit_counter{0};
};

std::string LibraryCompiler::Impl::key(const std::string& text) const {
  base::Hasher hasher;
  hasher.add(kCacheFormat).add(text);
  hasher.add(compiler.path).add(compiler.kind).add(compiler.version).add(compiler.banner);
  for (const std::string& flag : flags) hasher.add(flag);
  return hasher.hex();
}

std::vector<std::string> LibraryCompiler::Impl::compile_command(const fs::path& source,
                                                                const fs::path& object) const {
  std::vector<std::string> argv = {compiler.path};
  argv.insert(argv.end(), flags.begin(), flags.end());
  // Not part of the key: the same library wherever it is compiled.
  argv.push_back("-fdebug-prefix-map=" + fs::current_path().string() + "=" + kSourceRoot);
  for (const std::string& word :
       {std::string("-pipe"), std::string("-c"), source.string(), std::string("-o"), object.string()}) {
    argv.push_back(word);
  }
  return argv;
}

/// Without the sanitizer's runtime: the library answers its calls itself. What kernels need of the C library
/// is in the program already.
base::ProcessResult LibraryCompiler::Impl::link(const fs::path& object, const fs::path& library) const {
  if (!linker.empty()) {
    base::ProcessResult result = run({linker, "-shared", "-Bsymbolic", "-z", "now", "-z", "noexecstack", "-o",
                                      library.string(), object.string()},
                                     options.timeout_seconds);
    if (result.exit_code == 0) return result;
  }
  return run({compiler.path, "-shared", "-nostdlib", "-Wl,-Bsymbolic,-z,now,-z,noexecstack", "-o",
              library.string(), object.string()},
             options.timeout_seconds);
}

LibraryResult LibraryCompiler::Impl::failure(const std::string& key, const std::string& text,
                                             const base::ProcessResult& process) {
  const fs::path saved = cache->save_failed_source("simt-" + key, text);
  LibraryResult result;
  result.log = "compiling kernels for the emulator with " + compiler.path + " " + compiler.version + " " +
               describe_end(process, options) + "\n";
  result.log += saved.empty()
                    ? "the source could not be saved\n"
                    : "source saved in " + saved.string() +
                          "\nrepeat with: " + join_command(compile_command(saved, "/dev/null")) + "\n";
  result.log += process.output;
  result.seconds = process.seconds;
  return result;
}

LibraryResult LibraryCompiler::Impl::compile(const std::string& unit) {
  const std::string text = whole_unit(unit, mode);
  const std::string unit_key = key(text);
  if (const auto known = cache->find(unit_key)) {
    return {std::make_shared<const KernelLibrary>(*known, mode, cache), {}, 0};
  }
  const std::string name = "unit" + std::to_string(unit_counter++);
  const fs::path source = work.path() / (name + ".cpp"), object = work.path() / (name + ".o"),
                 library = work.path() / (name + ".so");
  base::write_file_atomic(source, text);
  base::ProcessResult process = run(compile_command(source, object), options.timeout_seconds);
  const double seconds = process.seconds;
  if (process.exit_code == 0) process = link(object, library);
  if (process.exit_code != 0) return failure(unit_key, text, process);
  const fs::path stored = cache->store_library(base::read_file(library));
  cache->link_kernel(unit_key, stored);
  for (const fs::path& file : {source, object, library}) {
    std::error_code ignored;  // the directory is removed in the end
    fs::remove(file, ignored);
  }
  return {std::make_shared<const KernelLibrary>(stored, mode, cache), {}, seconds + process.seconds};
}

LibraryCompiler::LibraryCompiler(const cpu::Compiler& compiler, Mode mode, const LibraryOptions& options) {
  if (const std::string reason = unavailable_reason(); !reason.empty()) {
    throw base::EnvironmentError("cannot compile kernels for the emulator: " + reason);
  }
  impl_ = std::make_unique<Impl>(compiler, mode, options);
}

LibraryCompiler::~LibraryCompiler() = default;

LibraryResult LibraryCompiler::compile(const std::string& unit) { return impl_->compile(unit); }

std::vector<LibraryResult> LibraryCompiler::compile(std::span<const std::string> units,
                                                    const std::function<void(int, int)>& progress) {
  std::vector<LibraryResult> results(units.size());
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::size_t next = 0, done = 0;
  std::exception_ptr error;
  const auto work = [&] {
    std::unique_lock lock(mutex);
    while (next < units.size() && !error) {
      const std::size_t index = next++;
      lock.unlock();
      std::exception_ptr problem;
      try {
        results[index] = impl_->compile(units[index]);
      } catch (...) {
        problem = std::current_exception();
      }
      lock.lock();
      ++done;
      if (problem && !error) error = problem;
      changed.notify_all();
    }
  };
  {
    const std::size_t workers = std::min(units.size(), static_cast<std::size_t>(impl_->options.jobs));
    std::vector<std::jthread> threads;  // joined before anything they use ends
    for (std::size_t i = 0; i < workers; ++i) threads.emplace_back(work);
    std::unique_lock lock(mutex);
    for (std::size_t reported = 0; reported < units.size() && !error;) {
      changed.wait(lock, [&] { return done > reported || error; });
      reported = done;
      if (!progress) continue;
      lock.unlock();
      progress(static_cast<int>(reported), static_cast<int>(units.size()));
      lock.lock();
    }
  }
  if (error) std::rethrow_exception(error);
  return results;
}

}  // namespace fusetune::backend::simt
