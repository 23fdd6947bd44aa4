#include "search/space.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "lower/program.h"

namespace fusetune::search {

GemmTile gemm_tile(const lower::AnySchedule& schedule) {
  if (const lower::Schedule* cpu = schedule.cpu())
    return {.rows = cpu->tile_rows, .columns = cpu->tile_columns, .depth = cpu->k_chunk};
  const lower::GpuSchedule& gpu = *schedule.gpu();
  if (gpu.product == lower::GpuProduct::library) return {};
  return {gpu.tile_rows, gpu.tile_columns, gpu.tile_depth, gpu.warps, gpu.stages};
}

namespace {

lower::Target tuned_target(lower::Target target, const GemmTile& tile) {
  if (auto* cpu = std::get_if<lower::CpuTarget>(&target)) {
    cpu->tile_rows = tile.rows;
    cpu->tile_columns = tile.columns;
    cpu->k_chunk = tile.depth;
  } else if (tile != GemmTile{}) {
    std::get<lower::GpuTarget>(target).tile =
        lower::GpuTile{tile.rows, tile.columns, tile.depth, tile.warps, tile.stages};
  }
  return target;
}

}  // namespace

Space segment_space(const block::Problem& problem, const lower::Target& target) {
  const auto schedules = [problem, target](int variant, const GemmTile& tile) {
    return lower::schedule_space(plan::all_variants()[static_cast<std::size_t>(variant)], problem,
                                 tuned_target(target, tile));
  };
  // Once for all: strategies ask for it in every round, of every candidate.
  std::array<Work, plan::kVariantCount> work;
  std::transform(plan::all_variants().begin(), plan::all_variants().end(), work.begin(),
                 [&](const plan::SegmentVariant& variant) {
                   const lower::StaticCosts costs = lower::static_costs(variant.segment, problem);
                   return Work{costs.flops, costs.bytes_read + costs.bytes_written};
                 });
  return {schedules, [work](int variant) { return work[static_cast<std::size_t>(variant)]; }};
}

namespace {

bool improve(std::optional<Incumbents::Best>& best, const lower::AnySchedule& schedule, double time_us) {
  const bool better =
      !best || time_us < best->time_us || (time_us == best->time_us && schedule < best->schedule);
  if (better) best = Incumbents::Best{schedule, time_us};
  return better;
}

}  // namespace

bool Incumbents::tell(const Candidate& candidate, const Trial& trial) {
  if (!trial.ok || !std::isfinite(trial.time_us) || trial.time_us <= 0) return false;
  const auto variant = static_cast<std::size_t>(candidate.variant);
  if (gemm_tile(candidate.schedule) != GemmTile{})
    improve(tiled_[variant], candidate.schedule, trial.time_us);
  return improve(best_[variant], candidate.schedule, trial.time_us);
}

int Incumbents::count() const {
  return static_cast<int>(
      std::count_if(best_.begin(), best_.end(), [](const auto& best) { return best.has_value(); }));
}

plan::VariantCosts Incumbents::costs() const {
  plan::VariantCosts costs;
  std::transform(best_.begin(), best_.end(), costs.begin(), [](const std::optional<Best>& best) {
    return best ? best->time_us : std::numeric_limits<double>::infinity();
  });
  return costs;
}

double Incumbents::best_sum_us() const {
  const auto cheapest = plan::cheapest_plans(costs(), 1);
  return cheapest.empty() ? std::numeric_limits<double>::infinity() : cheapest.front().cost;
}

}  // namespace fusetune::search
