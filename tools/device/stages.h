// The stages of a check. Each runs in a process of its own and writes what it finds at once.
#pragma once

#include <span>
#include <string_view>

#include "gpu.h"
#include "records.h"

namespace fusetune::device_check {

struct Stage {
  std::string_view name;
  int seconds;  // its limit
  void (*run)(Gpu& gpu, Records& records);
};
/// The most important first.
std::span<const Stage> stages();

// stage_probes.cpp
void describe_device(Gpu& gpu, Records& records);
void run_probes(Gpu& gpu, Records& records);
// stage_blocks.cpp
void stress_blocks(Gpu& gpu, Records& records);
// stage_families.cpp
void check_f16(Gpu& gpu, Records& records);
void check_bf16(Gpu& gpu, Records& records);
void check_f32(Gpu& gpu, Records& records);
// stage_plans.cpp
void check_plans(Gpu& gpu, Records& records);
// stage_times.cpp
void time_rates(Gpu& gpu, Records& records);
void time_gemm(Gpu& gpu, Records& records);
void time_attention(Gpu& gpu, Records& records);
void time_segments(Gpu& gpu, Records& records);

}  // namespace fusetune::device_check
