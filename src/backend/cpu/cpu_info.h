// What this CPU is and can do, read from the machine, never assumed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lower/schedule.h"

namespace fusetune::backend::cpu {

struct CpuInfo {
  std::string model;                  // "AMD EPYC 7R13" or the architecture where unknown
  std::vector<std::string> features;  // of those fusetune cares about: avx2 fma f16c avx512f amx-bf16 ...
  lower::Isa best_isa = lower::Isa::generic;
  int cpus = 1;               // CPUs this process may run on (affinity, cgroup)
  std::int64_t l1_bytes = 0;  // data cache of one core
  std::int64_t l2_bytes = 0;
  std::int64_t l3_bytes = 0;  // shared
  std::int64_t memory_bytes = 0;
};

CpuInfo probe_cpu();
/// What kernels of `isa` on `threads` threads of this CPU are lowered for.
lower::CpuTarget target_of(const CpuInfo& cpu, lower::Isa isa, int threads);
/// True when this CPU runs code generated for `isa`.
bool supports(const CpuInfo& cpu, lower::Isa isa);

}  // namespace fusetune::backend::cpu
