// Finding the system's C++ compiler and saying how it is called.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "backend/cpu/kernel_compiler.h"
#include "base/error.h"
#include "base/number.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace fusetune::backend::cpu {
namespace {

namespace fs = std::filesystem;

constexpr int kOldestMajor = 10;  // the first GCC and Clang that know -std=c++20 by that name
constexpr double kProbeSeconds = 20;

bool is_executable_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

/// Full path of a program given by path or by a name in PATH.
std::optional<std::string> resolve(const std::string& name) {
  if (name.empty()) return std::nullopt;
  if (name.find('/') != std::string::npos) {
    if (!is_executable_file(name)) return std::nullopt;
    return fs::absolute(name).lexically_normal().string();
  }
  const char* variable = std::getenv("PATH");
  for (const std::string& directory :
       base::split(variable ? variable : "/usr/local/bin:/usr/bin:/bin", ':')) {
    const fs::path candidate = fs::absolute(directory.empty() ? "." : directory) / name;
    if (is_executable_file(candidate)) return candidate.lexically_normal().string();
  }
  return std::nullopt;
}

/// Output of a short question to a program, trimmed; nothing when it fails or cannot be started.
std::optional<std::string> ask(const std::vector<std::string>& argv) {
  try {
    const base::ProcessResult result =
        base::run_process(argv, {.timeout_seconds = kProbeSeconds, .memory_limit_bytes = 0, .input = {}});
    if (result.exit_code != 0) return std::nullopt;
    return std::string(base::trim(result.output));
  } catch (const base::EnvironmentError&) {
    return std::nullopt;
  }
}

int major_version(const std::string& version) {
  return static_cast<int>(base::parse_int(base::split(version, '.').front()).value_or(0));
}

/// One name that was tried: a compiler, or why it is none.
struct Trial {
  std::optional<Compiler> compiler;
  std::string reason;
};

Trial try_compiler(const std::string& name) {
  const auto path = resolve(name);
  if (!path) return {std::nullopt, "'" + name + "' not found"};
  const auto banner = ask({*path, "--version"});
  if (!banner) return {std::nullopt, "'" + *path + "' does not answer --version"};

  Compiler compiler{.path = *path, .kind = {}, .version = {}, .banner = base::split(*banner, '\n').front()};
  if (banner->find("clang") != std::string::npos) {
    compiler.kind = "clang";
  } else if (banner->find("Free Software Foundation") != std::string::npos) {
    compiler.kind = "gcc";
  } else {
    return {std::nullopt, "'" + *path + "' is neither GCC nor Clang (it says '" + compiler.banner + "')"};
  }
  // GCC 7 and later shorten -dumpversion to the major number where the distributor chose so.
  compiler.version = ask({*path, "-dumpfullversion", "-dumpversion"}).value_or("");
  if (compiler.kind == "clang") compiler.version = ask({*path, "-dumpversion"}).value_or("");
  if (major_version(compiler.version) < kOldestMajor) {
    return {std::nullopt, "'" + *path + "' is version '" + compiler.version + "', older than " +
                              std::to_string(kOldestMajor)};
  }
  return {compiler, {}};
}

/// Names in order of preference; $CXX may be a wrapper and a compiler ("ccache g++"): each word counts.
std::vector<std::string> candidate_names() {
  std::vector<std::string> names;
  if (const char* variable = std::getenv("CXX"); variable != nullptr && *variable != '\0') {
    if (is_executable_file(variable)) {
      names.emplace_back(variable);  // a path with spaces
    } else {
      for (const std::string& word : base::split(variable, ' ')) {
        if (!word.empty() && word.front() != '-') names.push_back(word);
      }
    }
  }
  for (const char* name : {"c++", "g++", "clang++"}) names.emplace_back(name);
  for (int version = 20; version >= kOldestMajor; --version) {
    names.push_back("g++-" + std::to_string(version));
    names.push_back("clang++-" + std::to_string(version));
  }
  return names;
}

constexpr const char* kInstallHint =
    "install GCC or Clang (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++) or name one with "
    "--cxx";

}  // namespace

Compiler find_compiler(const std::string& requested) {
  if (!requested.empty()) {
    const Trial trial = try_compiler(requested);
    if (trial.compiler) return *trial.compiler;
    throw base::EnvironmentError("cannot use the C++ compiler '" + requested + "': " + trial.reason + "; " +
                                 kInstallHint);
  }
  std::string tried;
  for (const std::string& name : candidate_names()) {
    const Trial trial = try_compiler(name);
    if (trial.compiler) return *trial.compiler;
    tried += (tried.empty() ? "" : "; ") + trial.reason;
  }
  throw base::EnvironmentError("cannot compile kernels: no C++ compiler found (" + tried + "); " +
                               kInstallHint);
}

std::string find_linker(const Compiler& compiler) {
  const std::string named = ask({compiler.path, "-print-prog-name=ld"}).value_or("ld");
  return resolve(named).value_or("");
}

std::vector<std::string> compile_flags(const Compiler& compiler, lower::Isa isa) {
  std::vector<std::string> flags = {
      "-std=c++20", "-O2", "-fPIC",
      // Kernels have no exceptions, no RTTI, no function-local statics that need locks.
      "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics",
      // Safe subset of -ffast-math, which itself breaks magic-constant rounding and infinities: vector square
      // roots without errno, if-conversion of comparisons, fused multiply-add.
      "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast",
      // Calls between functions of one library need no indirection.
      "-fno-semantic-interposition", "-fvisibility-inlines-hidden",
      // Vectors wider than the instruction set has are passed between inlined functions only.
      "-Wno-psabi", "-w"};
  if (compiler.kind == "gcc") {
    // Without it, static data of templates is one object for the whole process and outlives dlclose: a kernel
    // would read the tables of an earlier one.
    flags.emplace_back("-fno-gnu-unique");
  }
#if defined(__x86_64__)
  const auto add = [&flags](std::initializer_list<const char*> more) {
    flags.insert(flags.end(), more.begin(), more.end());
  };
  if (isa != lower::Isa::generic) add({"-mavx2", "-mfma", "-mf16c", "-mbmi", "-mbmi2", "-mpopcnt"});
  if (isa == lower::Isa::avx512) {
    add({"-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512cd", "-mprefer-vector-width=512"});
  }
#else
  (void)isa;  // only generic exists; see supports()
#endif
  return flags;
}

}  // namespace fusetune::backend::cpu
