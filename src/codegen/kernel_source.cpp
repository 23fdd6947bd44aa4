#include "codegen/kernel_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/file.h"
#include "codegen/embedded.h"

namespace fusetune::codegen {
namespace {

/// Building blocks read from --kernel-dir, kept so that views into them stay valid.
struct KernelDirectory {
  std::mutex mutex;
  std::filesystem::path path;
  std::map<std::string, std::string, std::less<>> files;
};
KernelDirectory& kernel_directory() {
  static KernelDirectory directory;
  return directory;
}

std::string lanes_line(int lanes) {
  return fmt::format("namespace ft {{\nconstexpr int kLanes = {};  // floats in a vector\n}}\n", lanes);
}

std::int64_t padded_columns(std::int64_t n, const PanelLayout& layout) {
  const std::int64_t group = layout.group ? layout.group : n;
  return n / group * ((group + layout.panel - 1) / layout.panel * layout.panel);
}

}  // namespace

std::string PanelLayout::to_string() const {
  return group ? fmt::format("panel{}g{}", panel, group) : fmt::format("panel{}", panel);
}

std::int64_t PanelLayout::elements(std::int64_t k, std::int64_t n) const {
  return k * padded_columns(n, *this);
}

void pack_weight(const float* weight, std::int64_t k, std::int64_t n, const PanelLayout& layout,
                 float* packed) {
  const std::int64_t group = layout.group ? layout.group : n, panel = layout.panel;
  for (std::int64_t g = 0; g < n; g += group)
    for (std::int64_t c = 0; c < group; c += panel) {
      const std::int64_t columns = std::min(panel, group - c);
      for (std::int64_t row = 0; row < k; ++row, packed += panel) {
        std::memcpy(packed, weight + row * n + g + c, static_cast<std::size_t>(columns) * sizeof(float));
        std::fill(packed + columns, packed + panel, 0.0f);
      }
    }
}

std::string translation_unit(std::span<const KernelSource> kernels) {
  if (kernels.empty()) throw base::InternalError("a translation unit needs at least one kernel");
  std::string text = lanes_line(kernels.front().lanes);
  std::vector<std::string_view> included;
  for (const KernelSource& kernel : kernels) {
    if (kernel.lanes != kernels.front().lanes)
      throw base::InternalError("kernels of one translation unit have different vector widths");
    for (const std::string& path : kernel.includes)
      if (std::find(included.begin(), included.end(), path) == included.end()) {
        included.push_back(path);
        text += fmt::format("\n// ---- {}\n{}", path, building_block(path));
      }
  }
  for (const KernelSource& kernel : kernels) text += "\n" + kernel.body;
  return text;
}

std::string readable_source(const KernelSource& kernel) {
  std::string text = lanes_line(kernel.lanes);
  for (const std::string& path : kernel.includes) text += fmt::format("#include \"{}\"\n", path);
  return text + "\n" + kernel.body;
}

std::string_view building_block(std::string_view path) {
  KernelDirectory& directory = kernel_directory();
  const std::scoped_lock lock(directory.mutex);
  if (!directory.path.empty()) {
    auto file = directory.files.find(path);
    if (file == directory.files.end())
      file = directory.files.emplace(std::string(path), base::read_file(directory.path / path)).first;
    return file->second;
  }
  for (const EmbeddedFile& file : embedded_files())
    if (file.path == path) return file.text;
  throw base::InternalError(fmt::format("no building block '{}' is embedded", path));
}

void set_kernel_directory(const std::string& directory) {
  if (!directory.empty() && !std::filesystem::exists(std::filesystem::path(directory) / "cpu" / "abi.h"))
    throw base::EnvironmentError(fmt::format(
        "--kernel-dir {}: there is no cpu/abi.h in it; name fusetune's kernels/ directory", directory));
  KernelDirectory& here = kernel_directory();
  const std::scoped_lock lock(here.mutex);
  here.path = directory;
  here.files.clear();
}

}  // namespace fusetune::codegen
