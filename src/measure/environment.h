// Where measurements are made: what a record says about its machine, and what makes two comparable.
#pragma once

#include <string>
#include <vector>

#include "backend/cpu/cpu_info.h"
#include "backend/cpu/kernel_compiler.h"
#include "measure/session.h"

namespace fusetune::measure {

/// Fields of the fingerprint: device, features, caches, isa, threads, compiler, flags, protocol. Others are
/// for the reader: os, cpus, governor and load at the start where readable, cache mode (a part of every
/// record's key by itself).
Environment describe_environment(const backend::cpu::CpuInfo& cpu, lower::Isa isa, int threads,
                                 const backend::cpu::Compiler& compiler, CacheMode cache);

}  // namespace fusetune::measure
