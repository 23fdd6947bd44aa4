#include "backend/simt/source_location.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace fusetune::backend::simt {
namespace {

constexpr double kTimeoutSeconds = 20;
constexpr std::string_view kPlatform = "cuda/platform";

/// "/fusetune-kernels/cuda/gemm.h:31 (discriminator 2)" -> "cuda/gemm.h:31"; empty for "??:0" and "gemm.h:?".
std::string clean(std::string_view line) {
  if (const auto note = line.find(" ("); note != std::string_view::npos) line = line.substr(0, note);
  const bool known = !line.empty() && line.front() != '?' && line.back() != '?' &&
                     line.substr(line.find_last_of(':') + 1) != "0";  // compilers merge equal calls
  if (!known) return {};
  const std::string prefix = std::string(kSourceRoot) + "/";
  if (line.substr(0, prefix.size()) == prefix) line = line.substr(prefix.size());
  return std::string(line);
}

std::string join(const std::vector<std::string>& frames) {
  std::string text;
  for (const std::string& frame : frames) text += (text.empty() ? "" : ", called at ") + frame;
  return text;
}

}  // namespace

std::string find_addr2line() {
  const char* const path = std::getenv("PATH");
  for (const std::string& directory : base::split(path != nullptr ? path : "/usr/bin:/bin", ':')) {
    if (directory.empty()) continue;
    const std::filesystem::path program = std::filesystem::path(directory) / "addr2line";
    if (access(program.c_str(), X_OK) == 0) return program.string();
  }
  return {};
}

std::string source_location(const KernelLibrary& library, const void* return_address) {
  if (!library.contains(return_address)) return {};
  const std::string program = find_addr2line();
  if (program.empty()) return {};
  const auto offset = reinterpret_cast<std::uintptr_t>(return_address) -
                      reinterpret_cast<std::uintptr_t>(library.begin()) - 1;  // within the call
  char text[32];
  std::snprintf(text, sizeof(text), "0x%zx", static_cast<std::size_t>(offset));
  base::ProcessResult process;
  try {
    process = base::run_process({program, "-i", "-e", library.path().string(), text},
                                {.timeout_seconds = kTimeoutSeconds, .memory_limit_bytes = 0, .input = {}});
  } catch (const base::EnvironmentError&) {  // a finding without its line is still a finding
    return {};
  }
  if (process.exit_code != 0) return {};
  std::vector<std::string> frames;
  for (const std::string& line : base::split(process.output, '\n')) {
    std::string frame = clean(line);
    if (!frame.empty() && frame.substr(0, kPlatform.size()) != kPlatform) frames.push_back(std::move(frame));
  }
  return join(frames);
}

}  // namespace fusetune::backend::simt
