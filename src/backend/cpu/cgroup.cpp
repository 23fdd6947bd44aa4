#include "backend/cpu/cgroup.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "base/number.h"
#include "base/text.h"

namespace fusetune::backend::cpu {
namespace {

namespace fs = std::filesystem;

/// First line of a file, trimmed; empty where it cannot be read.
std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return std::string(base::trim(line));
}

template <typename T>
void tighten(std::optional<T>& limit, T value) {
  limit = limit ? std::min(*limit, value) : value;
}

/// "150000 100000" (quota and period in microseconds) or "max 100000".
void read_cpu_max(const fs::path& directory, CgroupLimits& limits) {
  const std::vector<std::string> words = base::split(first_line(directory / "cpu.max"), ' ');
  if (words.size() != 2) return;
  const auto quota = base::parse_int(words[0]);
  const auto period = base::parse_int(words[1]);
  if (quota && period && *quota > 0 && *period > 0) {
    tighten(limits.cpus, static_cast<double>(*quota) / static_cast<double>(*period));
  }
}

void read_cfs_quota(const fs::path& directory, CgroupLimits& limits) {
  const auto quota = base::parse_int(first_line(directory / "cpu.cfs_quota_us"));  // -1: no limit
  const auto period = base::parse_int(first_line(directory / "cpu.cfs_period_us"));
  if (quota && period && *quota > 0 && *period > 0) {
    tighten(limits.cpus, static_cast<double>(*quota) / static_cast<double>(*period));
  }
}

void read_memory(const fs::path& file, CgroupLimits& limits) {
  // "max" does not parse; version 1 writes a huge number for "no limit", which the machine's memory beats.
  const auto bytes = base::parse_int(first_line(file));
  if (bytes && *bytes > 0) tighten(limits.memory_bytes, *bytes);
}

/// Calls `visit` for the group's directory and its ancestors down to the mount point itself.
template <typename Visit>
void for_each_ancestor(const fs::path& mount, std::string_view group, Visit visit) {
  fs::path relative = fs::path(group).relative_path().lexically_normal();
  while (true) {
    visit(mount / relative);
    if (relative.empty() || relative == ".") return;
    relative = relative.parent_path();
  }
}

}  // namespace

CgroupLimits read_cgroup_limits(const fs::path& root, std::string_view membership) {
  CgroupLimits limits;
  for (const std::string& line : base::split(membership, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {  // version 2
      for_each_ancestor(root, group, [&](const fs::path& directory) {
        read_cpu_max(directory, limits);
        read_memory(directory / "memory.max", limits);
      });
      continue;
    }
    for (const std::string& controller : base::split(controllers, ',')) {
      if (controller != "cpu" && controller != "memory") continue;
      for_each_ancestor(root / controller, group, [&](const fs::path& directory) {
        if (controller == "cpu") read_cfs_quota(directory, limits);
        if (controller == "memory") read_memory(directory / "memory.limit_in_bytes", limits);
      });
    }
  }
  return limits;
}

}  // namespace fusetune::backend::cpu
