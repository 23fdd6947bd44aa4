// bench: plans side by side, interleaved, each against the first.
#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/mask_arguments.h"
#include "cli/output.h"
#include "cli/plan_kernels.h"
#include "cli/problem_options.h"
#include "cli/session_options.h"

namespace fusetune::cli {
namespace {

std::string verdict(const measure::PairedComparison& comparison, bool baseline) {
  if (comparison.outcome != measure::Outcome::ok) return comparison.message;
  if (baseline) return "baseline";
  if (comparison.tied()) return "tied";
  return comparison.ratio < 1 ? "faster" : "slower";
}

report::Table rows(const std::vector<plan::FusionMask>& masks,
                   const std::vector<measure::PairedComparison>& results) {
  report::Table table({{"mask", "mask"},
                       {"plan", "plan"},
                       {"outcome", "outcome"},
                       {"median_us", "median us", 1},
                       {"mad_us", "MAD us", 1},
                       {"min_us", "min us", 1},
                       {"ratio", "time ratio", 4},
                       {"ratio_low", "95 % from", 4},
                       {"ratio_high", "to", 4},
                       {"pairs", "pairs"},
                       {"verdict", ""}});
  for (std::size_t i = 0; i < masks.size(); ++i) {
    const measure::PairedComparison& result = results[i];
    const bool ok = result.outcome == measure::Outcome::ok;
    const measure::TimingSummary& time = i == 0 ? result.time_a : result.time_b;
    const auto if_ok = [ok](double value) { return ok ? report::Cell(value) : report::Cell(); };
    table.add({std::int64_t{masks[i].value}, plan::FusionPlan::from_mask(masks[i]).to_string(),
               std::string(measure::name(result.outcome)), if_ok(time.median_us), if_ok(time.mad_us),
               if_ok(time.min_us), if_ok(result.ratio), if_ok(result.low), if_ok(result.high),
               std::int64_t{result.pairs}, verdict(result, i == 0)});
  }
  return table;
}

}  // namespace

int run_bench(Options& options) {
  MaskArguments mask_arguments;
  ScheduleOption schedule;
  SessionArguments session_arguments;
  ProblemOptions problem_options;
  RowsOutput output;
  int pairs = 40;
  mask_arguments.declare(options, true);
  options.integer("--pairs", pairs, "N",
                  "alternating pairs per plan, in up to eight processes; 40 screen, 160 compare", 20, 100000);
  output.declare(options);
  schedule.declare(options);
  session_arguments.declare(options);
  problem_options.declare(options);
  options.parse();
  output.check();

  const std::vector<plan::FusionMask> masks = mask_arguments.at_least_one();
  std::vector<plan::FusionPlan> plans;
  for (const plan::FusionMask mask : masks) plans.push_back(plan::FusionPlan::from_mask(mask));
  const block::Problem problem = problem_options.problem();
  const measure::SessionOptions session_options = session_arguments.session(problem_options);
  catch_interrupts();
  measure::Session session(problem, session_options);
  const ScheduleTable schedules = schedule.table(session, session_options);
  const PlanCompiler compiler(session, plans, schedules);
  stop_if_interrupted();

  std::vector<measure::PlanKernels> kernels;
  for (const plan::FusionPlan& plan : plans) kernels.push_back(compiler.kernels(plan));
  base::note(fmt::format("{}   {}   {}", describe(problem), describe(session.environment()),
                         describe(schedules, distinct_variants(plans))));
  const std::vector<measure::PairedComparison> results = session.compare_plans(kernels, pairs);
  stop_if_interrupted();

  const report::Table table = rows(masks, results);
  if (!output.write(table)) print(table.to_text());
  for (const measure::PairedComparison& result : results)
    if (result.outcome != measure::Outcome::ok) return kBadAnswer;
  return kDone;
}

}  // namespace fusetune::cli
