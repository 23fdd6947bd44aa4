// Where measurements are made: what a record says about its machine, and what makes two comparable.
#pragma once

#include <string>
#include <vector>

#include "backend/cpu/cpu_info.h"
#include "backend/cpu/kernel_compiler.h"
#include "backend/cuda/cuda_compiler.h"
#include "backend/cuda/driver.h"
#include "measure/session.h"

namespace fusetune::measure {

/// Of a CPU. Fields of the fingerprint: device, features, caches, isa, threads, compiler, flags, protocol.
/// Others are for the reader: os, cpus, governor and load at the start where readable, cache mode (a part of
/// every record's key by itself).
Environment describe_environment(const backend::cpu::CpuInfo& cpu, lower::Isa isa, int threads,
                                 const backend::cpu::Compiler& compiler, CacheMode cache);

/// Of a GPU. Fields of the fingerprint: backend, device (its name), compute, multiprocessors, caches, memory,
/// driver, compiler, flags (NVRTC's), protocol. For the reader: uuid, the highest clocks, os, cache mode.
Environment describe_environment(const backend::cuda::Driver& driver,
                                 const backend::cuda::DriverDevice& device,
                                 const backend::cuda::CompilerRelease& nvrtc,
                                 const std::vector<std::string>& flags, CacheMode cache);

/// What makes records of one GPU none of the other: "device A100 and H100, compute 80 and 90". Empty:
/// nothing, they are one environment.
std::string difference(const Environment& one, const Environment& other);

}  // namespace fusetune::measure
