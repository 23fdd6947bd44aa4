#include "backend/cpu/cpu_info.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "backend/cpu/cgroup.h"
#include "base/number.h"
#include "base/text.h"

namespace fusetune::backend::cpu {
namespace {

/// Features worth reporting, spelled as Linux spells them in /proc/cpuinfo.
constexpr std::array<std::string_view, 19> kReported = {
    "avx2",     "fma",      "f16c",     "bmi1",     "bmi2",        "popcnt",   "avx512f",
    "avx512bw", "avx512dq", "avx512vl", "avx512cd", "avx512_bf16", "avx_vnni", "avx512_fp16",
    "amx_tile", "amx_bf16", "amx_int8", "asimd",    "sve"};

std::string read_text(const char* path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

/// Value of the first "key : value" line of /proc/cpuinfo whose key is one of `keys`.
std::string cpuinfo_field(const std::string& cpuinfo, std::initializer_list<std::string_view> keys) {
  for (const std::string& line : base::split(cpuinfo, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string_view key = base::trim(std::string_view(line).substr(0, colon));
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) {
      return std::string(base::trim(std::string_view(line).substr(colon + 1)));
    }
  }
  return {};
}

std::vector<std::string> reported_features(const std::string& cpuinfo) {
  const std::string flags = cpuinfo_field(cpuinfo, {"flags", "Features"});
  const std::vector<std::string> words = base::split(flags, ' ');
  const std::set<std::string_view> present(words.begin(), words.end());
  std::vector<std::string> features;
  for (std::string_view feature : kReported) {
    if (!present.contains(feature)) continue;
    std::string spelled(feature);
    std::replace(spelled.begin(), spelled.end(), '_', '-');
    features.push_back(std::move(spelled));
  }
  return features;
}

/// The compiler's run-time support checks both CPUID and, through XGETBV, that the operating system saves
/// the wide registers; a hypervisor that hides AVX-512 is therefore believed.
lower::Isa best_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  const bool avx2 = f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                    __builtin_cpu_supports("popcnt");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512cd");
  if (avx512) return lower::Isa::avx512;
  if (avx2) return lower::Isa::avx2;
#endif
  return lower::Isa::generic;
}

std::string_view architecture() {
#if defined(__x86_64__)
  return "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#elif defined(__riscv)
  return "riscv";
#elif defined(__powerpc64__)
  return "ppc64";
#else
  return "unknown CPU";
#endif
}

/// CPUs in the affinity mask. The set grows until the kernel's mask fits (more than 1024 CPUs exist).
int affinity_count() {
  for (std::size_t cpus = 1024; cpus <= (1u << 20); cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
    const bool read = sched_getaffinity(0, bytes, set) == 0;
    const int count = read ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (read) return std::max(1, count);
  }
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

/// "512K", "32768K", "1M" as sysfs writes cache sizes; 0 where it is something else.
std::int64_t parse_cache_size(std::string_view text) {
  text = base::trim(text);
  if (text.empty()) return 0;
  std::int64_t unit = 1;
  if (text.back() == 'K') unit = std::int64_t{1} << 10;
  if (text.back() == 'M') unit = std::int64_t{1} << 20;
  if (unit > 1) text.remove_suffix(1);
  return base::parse_int(text).value_or(0) * unit;
}

/// Size of CPU 0's data or unified cache of a level: sysfs first, since sysconf knows nothing on Arm.
std::int64_t cache_bytes(int level, int sysconf_name) {
  for (int index = 0; index < 8; ++index) {
    const std::string directory = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    if (base::trim(read_text((directory + "level").c_str())) != std::to_string(level)) continue;
    if (base::trim(read_text((directory + "type").c_str())) == "Instruction") continue;
    const std::int64_t bytes = parse_cache_size(read_text((directory + "size").c_str()));
    if (bytes > 0) return bytes;
  }
  return std::max<std::int64_t>(0, sysconf(sysconf_name));
}

}  // namespace

CpuInfo probe_cpu() {
  const std::string cpuinfo = read_text("/proc/cpuinfo");
  const CgroupLimits limits = read_cgroup_limits("/sys/fs/cgroup", read_text("/proc/self/cgroup"));

  CpuInfo cpu;
  cpu.model = cpuinfo_field(cpuinfo, {"model name", "cpu model", "cpu"});
  if (cpu.model.empty()) cpu.model = architecture();
  cpu.features = reported_features(cpuinfo);
  cpu.best_isa = best_isa();
  cpu.cpus = affinity_count();
  // A quota of 1.5 CPUs keeps one actively waiting thread busy and throttles a second: round down.
  if (limits.cpus) cpu.cpus = std::clamp(static_cast<int>(std::floor(*limits.cpus)), 1, cpu.cpus);
  cpu.l1_bytes = cache_bytes(1, _SC_LEVEL1_DCACHE_SIZE);
  cpu.l2_bytes = cache_bytes(2, _SC_LEVEL2_CACHE_SIZE);
  cpu.l3_bytes = cache_bytes(3, _SC_LEVEL3_CACHE_SIZE);
  cpu.memory_bytes = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  if (limits.memory_bytes) cpu.memory_bytes = std::min(cpu.memory_bytes, *limits.memory_bytes);
  return cpu;
}

lower::CpuTarget target_of(const CpuInfo& cpu, lower::Isa isa, int threads) {
  lower::CpuTarget target{.isa = isa, .threads = threads};
  if (cpu.l1_bytes > 0) target.l1_bytes = cpu.l1_bytes;
  if (cpu.l2_bytes > 0) target.l2_bytes = cpu.l2_bytes;
  return target;
}

bool supports(const CpuInfo& cpu, lower::Isa isa) {
  return static_cast<int>(isa) <= static_cast<int>(cpu.best_isa);
}

}  // namespace fusetune::backend::cpu
