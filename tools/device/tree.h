// The folder with the kernels: what tools/device_check packs for another machine, and unpacks there.
//
//   sm_90a/<id>-<hash>.cubin       one folder for each architecture
//   cache/cubins/...               fusetune's own cache of kernels, with those that its searches begin with
//   answers/<name>.bin             what the emulator says for each probe
//   simt/<id>.so                   for rehearsal only: the kernels for the fake driver
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "backend/cuda/architecture.h"
#include "probes.h"

namespace fusetune::device_check {

/// Where a probe's answer is: named by all that decides it.
std::filesystem::path answer_file(const std::filesystem::path& tree, const Probe& probe);
/// Throws base::EnvironmentError when it is not there.
std::vector<std::uint32_t> read_answer(const std::filesystem::path& tree, const Probe& probe);

struct Preparation {
  std::filesystem::path tree;
  std::vector<backend::cuda::Architecture> architectures;
  std::vector<std::string> stages;  // what they run; empty: what all run
  bool quick = false;               // only what a rehearsal runs
  bool emulation = false;           // simt/ too
  int jobs = 0;                     // compilers at the same time; 0: one a CPU
};
/// Compiles every kernel, runs every probe in the emulator. Returns how many kernels did not compile. Throws
/// base::EnvironmentError without NVRTC or a C++ compiler.
int prepare(const Preparation& what);

}  // namespace fusetune::device_check
