#include "backend/cuda/cuda_compiler.h"

#include <algorithm>
#include <locale>
#include <sstream>
#include <utility>

#include "backend/cuda/cubin_cache.h"
#include "base/error.h"

namespace fusetune::backend::cuda {
namespace {

constexpr const char* kMagic = "fusetune-compiler-1";

}  // namespace

std::string CompilerRelease::version() const { return std::to_string(major) + "." + std::to_string(minor); }

std::string CompilerRelease::to_text() const {
  std::string text = std::string(kMagic) + "\n" + identity + "\n" + std::to_string(major) + " " +
                     std::to_string(minor) + "\n";
  for (const int one : architectures) text += std::to_string(one) + "\n";
  return text;
}

std::optional<CompilerRelease> CompilerRelease::parse(std::string_view text) {
  std::istringstream lines{std::string(text)};
  lines.imbue(std::locale::classic());
  std::string magic;
  CompilerRelease release;
  if (!std::getline(lines, magic) || magic != kMagic || !std::getline(lines, release.identity))
    return std::nullopt;
  lines >> release.major >> release.minor;
  for (int one = 0; lines >> one;) release.architectures.push_back(one);
  // A file that was cut or changed is none.
  if (release.to_text() != text || release.architectures.empty()) return std::nullopt;
  return release;
}

CudaCompiler::CudaCompiler(Nvrtc opened)
    : release{opened.identity(), opened.major(), opened.minor(), opened.architectures()},
      nvrtc(std::move(opened)) {}

CudaCompiler open_compiler(const std::filesystem::path& cache_directory) {
  try {
    return Nvrtc();
  } catch (const base::EnvironmentError& error) {
    const std::vector<CompilerRelease> known = CubinCache(cache_directory).compilers();
    if (known.empty()) throw;
    return {known.front(), why_no_nvrtc(error.what())};
  }
}

}  // namespace fusetune::backend::cuda
