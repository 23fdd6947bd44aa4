#include "cli/audit_calibration.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "cli/recorded_segments.h"
#include "search/replay.h"
#include "search/segment_model.h"

namespace fusetune::cli {
namespace {

/// Of some replays.
struct Calibration {
  std::int64_t replays = 0, kernels = 0;
  double timed = 0, regret = 0, worst = 0, chance = 0, lost = 0;  // sums, but for the worst

  void add(const Calibration& other) {
    replays += other.replays;
    kernels += other.kernels;
    timed += other.timed;
    regret += other.regret;
    worst = std::max(worst, other.worst);
    chance += other.chance;
    lost += other.lost;
  }
  void add_to(report::Table& table, const std::string& problem) const {
    const auto mean = [&](double sum) { return sum / static_cast<double>(replays); };
    table.add({problem, replays, kernels, mean(timed), mean(regret), worst, mean(chance), mean(lost)});
  }
};

/// The probability, by the search's own account, that what it did not time holds a plan more than 1 % faster.
double chance_of(const search::Strategy& strategy) {
  const auto report = strategy.pruning();
  if (report) return report->complete ? report->last.chance.value_or(1) : 1;
  return strategy.pruned() == 0 ? 0 : 1;
}

Calibration replay(const search::Replay& recorded, double least_us, const block::Problem& problem,
                   const model::Device& device, std::uint64_t seed) {
  search::FittedSegmentModel model(problem, device, seed);
  const auto strategy = search::make_strategy("guided", recorded.space(), seed, &model);
  const search::ReplayResult found = search::replay_search(*strategy, recorded);
  const double regret = found.best.best_sum_us() / least_us - 1;
  return {.replays = 1,
          .timed = static_cast<double>(found.trials),
          .regret = regret,
          .worst = regret,
          .chance = chance_of(*strategy),
          .lost = regret > search::PruningEstimate::kLoss ? 1.0 : 0.0};
}

/// No replays: the kernels make no plan.
Calibration replay_problem(const store::Contents& contents, const std::string& problem,
                           const std::string& source, int repeats, std::uint64_t seed) {
  const std::vector<search::Recording> recordings = recorded_segments(contents, source);
  const model::Device device = device_of(contents.environments.front().fields);
  const block::Problem parsed = block::Problem::parse(problem);
  const search::Replay recorded(recordings, device.target, search::segment_space(parsed, device.target).work);
  const double least_us = best_recorded(recordings, device.target).best_sum_us();
  Calibration calibration;
  calibration.kernels = static_cast<std::int64_t>(recordings.size());
  if (!std::isfinite(least_us)) return calibration;
  for (int i = 0; i < repeats; ++i)
    calibration.add(replay(recorded, least_us, parsed, device, seed + static_cast<std::uint64_t>(i)));
  return calibration;
}

}  // namespace

report::Table audit_calibration(const store::Contents& contents, const std::string& source, int repeats,
                                std::uint64_t seed) {
  report::Table table({{"problem", "problem"},
                       {"replays", "replays"},
                       {"kernels", "kernels"},
                       {"timed", "timed", 1},
                       {"regret", "regret", 4},
                       {"worst_regret", "worst", 4},
                       {"estimated_loss", "loss estimated"},
                       {"seen_loss", "loss seen"}});
  std::map<std::string, std::vector<store::TuningRecord>> by_problem;
  for (const store::TuningRecord& record : contents.segments)
    by_problem[record.key.problem].push_back(record);
  Calibration all;
  for (auto& [problem, segments] : by_problem) {
    store::Contents one;
    one.environments = contents.environments;
    one.segments = std::move(segments);
    const Calibration calibration = replay_problem(one, problem, source, repeats, seed);
    if (calibration.replays == 0) continue;
    calibration.add_to(table, problem);
    all.add(calibration);
  }
  if (table.size() > 1) all.add_to(table, "all");
  return table;
}

}  // namespace fusetune::cli
