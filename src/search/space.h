// What a search chooses from: schedules of segment variants. No device, no clock, no file in this folder.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "lower/any_schedule.h"
#include "plan/fusion_plan.h"
#include "plan/shortest_path.h"

namespace fusetune::search {

/// One kernel to try: a segment variant (index into plan::all_variants()) with a schedule.
struct Candidate {
  int variant = 0;
  lower::AnySchedule schedule;
  auto operator<=>(const Candidate&) const = default;
};

/// What became of a candidate, as far as a search cares.
struct Trial {
  bool ok = false;     // right and timed
  double time_us = 0;  // ok only: finite, > 0
  /// Of two measurements that share no noise; 0: not known.
  double first_half_us = 0, second_half_us = 0;
  /// How sure the time is: median absolute deviation and number of samples; 0 and 0: exact.
  double mad_us = 0;
  int samples = 0;
};

/// What a variant needs at least, whatever its schedule.
struct Work {
  double flops = 0;
  double bytes = 0;  // to and from memory
};

/// How a GEMM divides its matrices, tuned once per matrix shape; all zero: not tuned.
struct GemmTile {
  int rows = 0;
  int columns = 0;
  int depth = 0;              // of k: a CPU's k_chunk, a GPU's tile_depth
  int warps = 0, stages = 0;  // a GPU's
  bool operator==(const GemmTile&) const = default;
};
/// None where a library computes the product.
GemmTile gemm_tile(const lower::AnySchedule& schedule);

struct Space {
  /// Schedules worth timing for a variant whose GEMMs use `tile`, default first; empty: the variant cannot
  /// run. An untuned tile leaves the choice to the space, which lists several for a lone GEMM.
  std::function<std::vector<lower::AnySchedule>(int variant, const GemmTile& tile)> schedules;
  /// Empty: not known.
  std::function<Work(int variant)> work = {};
};

/// The space of a problem on a device, from lower::schedule_space().
Space segment_space(const block::Problem& problem, const lower::Target& target);

/// Fastest schedule of each variant so far.
class Incumbents {
 public:
  struct Best {
    lower::AnySchedule schedule;
    double time_us = 0;
  };
  /// Takes a trial in. A failed or meaningless time (NaN, 0) never counts; of equal times the smaller
  /// schedule stays, so that the order of trials does not matter. True when the variant's best changed.
  bool tell(const Candidate& candidate, const Trial& trial);
  const std::optional<Best>& operator[](int variant) const {
    return best_[static_cast<std::size_t>(variant)];
  }
  /// The same of kernels whose tile is known: not those of a library.
  const std::optional<Best>& tiled(int variant) const { return tiled_[static_cast<std::size_t>(variant)]; }
  /// Number of variants with a time.
  int count() const;
  /// Times by variant, +infinity where there is none.
  plan::VariantCosts costs() const;
  /// Of the cheapest plan's variants; +infinity where no plan has a time for each.
  double best_sum_us() const;

 private:
  std::array<std::optional<Best>, plan::kVariantCount> best_, tiled_;
};

}  // namespace fusetune::search
