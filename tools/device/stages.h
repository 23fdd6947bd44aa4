// The stages of a check. Each runs in a process of its own and writes what it finds at once.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "gpu.h"
#include "records.h"

namespace fusetune::device_check {

/// Where a stage of the program itself runs.
struct Place {
  std::string stage;
  std::filesystem::path tree, out, work, program;  // out: the results' folder; work: for what is no result
  bool quick = false;
  int seconds = 0;  // its limit
};

struct Stage {
  std::string_view name;
  std::string_view limit;                      // seconds, or a share of what is left: "25%"
  void (*on_gpu)(Gpu& gpu, Records& records);  // null: it runs the program
  void (*of_program)(const Place& place, Records& records) = nullptr;
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
// stage_tuning.cpp
void tune(const Place& place, Records& records);

}  // namespace fusetune::device_check
