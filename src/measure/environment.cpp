#include "measure/environment.h"

#include <sys/utsname.h>

#include <array>
#include <fstream>
#include <string_view>

#include "base/hash.h"

namespace fusetune::measure {
namespace {

/// A new compiler, another instruction set or thread count give other times; a kernel update or today's load
/// do not make records another machine's.
constexpr std::array<std::string_view, 8> kFingerprintFields = {"device",  "features", "caches", "isa",
                                                                "threads", "compiler", "flags",  "protocol"};

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

std::string fingerprint(const std::map<std::string, std::string>& fields) {
  base::Hasher hasher;
  for (const std::string_view field : kFingerprintFields) {
    hasher.add(field);
    hasher.add(fields.at(std::string(field)));
  }
  return hasher.hex();
}

}  // namespace

Environment describe_environment(const backend::cpu::CpuInfo& cpu, lower::Isa isa, int threads,
                                 const backend::cpu::Compiler& compiler, CacheMode cache) {
  Environment environment;
  environment.fields = {
      {"device", cpu.model},
      {"features", join(cpu.features)},
      {"caches", "l1=" + std::to_string(cpu.l1_bytes) + " l2=" + std::to_string(cpu.l2_bytes) +
                     " l3=" + std::to_string(cpu.l3_bytes)},
      {"isa", std::string(lower::name(isa))},
      {"threads", std::to_string(threads)},
      {"compiler", compiler.kind + " " + compiler.version},
      {"flags", join(backend::cpu::compile_flags(compiler, isa))},
      {"protocol", std::to_string(kProtocolVersion)},
      {"cache_mode", std::string(name(cache))},
      {"cpus", std::to_string(cpu.cpus)},
      {"os", operating_system()},
  };
  if (const auto governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
      !governor.empty()) {
    environment.fields["governor"] = governor;
  }
  if (const auto load = first_line("/proc/loadavg"); !load.empty()) {
    environment.fields["load"] = load.substr(0, load.find(' '));
  }
  environment.fingerprint = fingerprint(environment.fields);
  return environment;
}

}  // namespace fusetune::measure
