#include "measure/environment.h"

#include <sys/utsname.h>

#include <array>
#include <fstream>
#include <span>
#include <string_view>

#include "base/hash.h"

namespace fusetune::measure {
namespace {

/// A new compiler, another instruction set or thread count give other times; a kernel update or today's load
/// do not make records another machine's.
constexpr std::array<std::string_view, 8> kCpuFields = {"device",  "features", "caches", "isa",
                                                        "threads", "compiler", "flags",  "protocol"};
/// Two GPUs of a kind are one environment; a new driver is another. cuBLASLt's version is no field: it would
/// make every kernel's measurement another machine's, and it decides on one candidate only, whose hash has it
/// (codegen/library_product.h).
constexpr std::array<std::string_view, 10> kGpuFields = {"backend", "device",  "compute", "multiprocessors",
                                                         "caches",  "memory",  "driver",  "compiler",
                                                         "flags",   "protocol"};

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

/// First line of a file of the kernel's; empty where there is none.
std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string operating_system() {
  utsname names{};
  if (uname(&names) != 0) return "unknown";
  return std::string(names.sysname) + " " + names.release + " " + names.machine;
}

std::string fingerprint(const std::map<std::string, std::string>& fields,
                        std::span<const std::string_view> that_matter) {
  base::Hasher hasher;
  for (const std::string_view field : that_matter) {
    hasher.add(field);
    hasher.add(fields.at(std::string(field)));
  }
  return hasher.hex();
}

/// What does not depend on the device.
std::map<std::string, std::string> common_fields(CacheMode cache) {
  std::map<std::string, std::string> fields = {{"protocol", std::to_string(kProtocolVersion)},
                                               {"cache_mode", std::string(name(cache))},
                                               {"os", operating_system()}};
  if (const auto load = first_line("/proc/loadavg"); !load.empty()) {
    fields["load"] = load.substr(0, load.find(' '));
  }
  return fields;
}

}  // namespace

Environment describe_environment(const backend::cpu::CpuInfo& cpu, lower::Isa isa, int threads,
                                 const backend::cpu::Compiler& compiler, CacheMode cache) {
  Environment environment;
  environment.fields = common_fields(cache);
  environment.fields.insert({
      {"backend", "cpu"},
      {"device", cpu.model},
      {"features", join(cpu.features)},
      {"caches", "l1=" + std::to_string(cpu.l1_bytes) + " l2=" + std::to_string(cpu.l2_bytes) +
                     " l3=" + std::to_string(cpu.l3_bytes)},
      {"isa", std::string(lower::name(isa))},
      {"threads", std::to_string(threads)},
      {"compiler", compiler.kind + " " + compiler.version},
      {"flags", join(backend::cpu::compile_flags(compiler, isa))},
      {"cpus", std::to_string(cpu.cpus)},
  });
  if (const auto governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
      !governor.empty()) {
    environment.fields["governor"] = governor;
  }
  environment.fingerprint = fingerprint(environment.fields, kCpuFields);
  return environment;
}

Environment describe_environment(const backend::cuda::Driver& driver,
                                 const backend::cuda::DriverDevice& device,
                                 const backend::cuda::CompilerRelease& nvrtc,
                                 const std::vector<std::string>& flags, CacheMode cache) {
  Environment environment;
  environment.fields = common_fields(cache);
  environment.fields.insert({
      {"backend", "cuda"},
      {"device", device.name},
      {"uuid", device.uuid},
      {"compute", std::to_string(device.compute_capability)},
      {"multiprocessors", std::to_string(device.multiprocessors)},
      {"caches",
       "l2=" + std::to_string(device.l2_bytes) + " shared=" + std::to_string(device.shared_bytes_per_block)},
      {"memory", std::to_string(device.memory_bytes)},
      {"driver", driver.version()},
      {"compiler", "nvrtc " + nvrtc.version()},
      {"flags", join(flags)},
  });
  if (device.clock_khz > 0)
    environment.fields["clocks"] = "sm=" + std::to_string(device.clock_khz) +
                                   " memory=" + std::to_string(device.memory_clock_khz) + " kHz at most";
  environment.fingerprint = fingerprint(environment.fields, kGpuFields);
  return environment;
}

std::string difference(const Environment& one, const Environment& other) {
  std::string text;
  for (const std::string_view field : kGpuFields) {
    const std::string name(field);
    const std::string &a = one.fields.at(name), &b = other.fields.at(name);
    if (a != b) text += (text.empty() ? "" : ", ") + name + " " + a + " and " + b;
  }
  return text;
}

}  // namespace fusetune::measure
