// Limits that a control group (a container, a batch system) puts on this process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace fusetune::backend::cpu {

/// What the control groups of this process allow; nothing where they do not limit it.
struct CgroupLimits {
  std::optional<double> cpus;  // CPU seconds per second, e.g. 1.5
  std::optional<std::int64_t> memory_bytes;
};

/// Reads the limits of version 2 (`cpu.max`, `memory.max`) and version 1 (`cpu.cfs_quota_us`,
/// `memory.limit_in_bytes`) groups: the tightest on the way from the process's group up to the root.
/// `root`: where the hierarchy is mounted, usually /sys/fs/cgroup. `membership`: text of
/// /proc/self/cgroup, lines "ID:CONTROLLERS:PATH". Inside a container the path may not exist under the
/// mount: whatever does exist counts. Never throws for unreadable files.
CgroupLimits read_cgroup_limits(const std::filesystem::path& root, std::string_view membership);

}  // namespace fusetune::backend::cpu
