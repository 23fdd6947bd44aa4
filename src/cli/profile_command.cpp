// profile: what each kernel of a plan takes, as a table and as a trace.
#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/number.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/mask_arguments.h"
#include "cli/output.h"
#include "cli/plan_kernels.h"
#include "cli/problem_options.h"
#include "cli/session_options.h"
#include "lower/program.h"
#include "measure/statistics.h"
#include "report/chrome_trace.h"

namespace fusetune::cli {
namespace {

constexpr int kDefaultPasses = 50, kMostPasses = 10000;

struct ProfiledKernel {
  const backend::cpu::CompiledKernel& kernel;
  lower::StaticCosts costs;
  std::vector<double> times_us;  // of each pass
};

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

std::vector<ProfiledKernel> kernels_of(const measure::PlanKernels& kernels,
                                       const measure::PlanProfile& profile, const block::Problem& problem) {
  std::vector<ProfiledKernel> result;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    result.push_back({kernels[i], lower::static_costs(kernels[i].source.variant.segment, problem), {}});
    for (const std::vector<double>& pass : profile.passes_us)
      result.back().times_us.push_back(pass[i + 1] - pass[i]);
  }
  return result;
}

report::Table rows(const std::vector<ProfiledKernel>& kernels) {
  report::Table table({{"kernel", "kernel"},
                       {"calls", "calls"},
                       {"total_us", "total us", 1},
                       {"mean_us", "mean us", 2},
                       {"median_us", "median us", 2},
                       {"min_us", "min us", 2},
                       {"max_us", "max us", 2},
                       {"share_percent", "share %", 1},
                       {"gflop_per_s", "GFLOP/s", 1},
                       {"gbyte_per_s", "GB/s", 1},
                       {"schedule", "schedule"}});
  double whole = 0;
  for (const ProfiledKernel& kernel : kernels) whole += sum(kernel.times_us);
  for (const auto& [kernel, costs, times] : kernels) {
    const double total = sum(times), mean = total / static_cast<double>(times.size());
    const auto [least, most] = std::minmax_element(times.begin(), times.end());
    table.add({kernel.source.variant.to_string(), static_cast<std::int64_t>(times.size()), total, mean,
               measure::median(times), *least, *most, 100 * (total / whole), costs.flops / mean * 1e-3,
               (costs.bytes_read + costs.bytes_written) / mean * 1e-3, kernel.source.schedule.to_string()});
  }
  return table;
}

std::vector<double> pass_times(const measure::PlanProfile& profile) {
  std::vector<double> times;
  for (const std::vector<double>& pass : profile.passes_us) times.push_back(pass.back() - pass.front());
  return times;
}

std::string summary(const measure::PlanProfile& profile) {
  const measure::TimingSummary time = measure::summarize(pass_times(profile));
  return fmt::format(
      "{} passes, median {} us, MAD {} us, fastest {} us; {} dropped, as other processes ran\n", time.count,
      base::format_fixed(time.median_us, 1), base::format_fixed(time.mad_us, 1),
      base::format_fixed(time.min_us, 1), profile.dropped);
}

std::string trace_of(const plan::FusionPlan& plan, const std::vector<ProfiledKernel>& kernels,
                     const measure::PlanProfile& profile, const std::string& heading) {
  report::TraceTrack passes{"passes", {}}, launches{"kernels", {}};
  for (std::size_t p = 0; p < profile.passes_us.size(); ++p) {
    const std::vector<double>& times = profile.passes_us[p];
    passes.events.push_back({fmt::format("pass {}", p + 1), times.front(), times.back() - times.front(), {}});
    for (std::size_t k = 0; k < kernels.size(); ++k) {
      const codegen::KernelSource& source = kernels[k].kernel.source;
      launches.events.push_back({source.variant.to_string(),
                                 times[k],
                                 times[k + 1] - times[k],
                                 {{"symbol", source.symbol},
                                  {"schedule", source.schedule.to_string()},
                                  {"flops", kernels[k].costs.flops},
                                  {"bytes_read", kernels[k].costs.bytes_read},
                                  {"bytes_written", kernels[k].costs.bytes_written}}});
    }
  }
  return report::chrome_trace(fmt::format("plan {}: {}", plan.to_string(), heading), {passes, launches});
}

}  // namespace

int run_profile(Options& options) {
  MaskArguments mask_arguments;
  ScheduleOption schedule;
  SessionArguments session_arguments;
  ProblemOptions problem_options;
  RowsOutput output;
  int passes = kDefaultPasses;
  std::string trace;
  mask_arguments.declare(options, false);
  options.integer("--passes", passes, "N", "passes over the plan", 1, kMostPasses);
  options.text("--trace", trace, "FILE", "every launch as a Chrome trace: open it at ui.perfetto.dev");
  output.declare(options);
  schedule.declare(options);
  session_arguments.declare(options);
  problem_options.declare(options);
  options.footnote(
      "A kernel's time includes the barrier of all threads behind it. GFLOP/s and GB/s count the operations "
      "and "
      "the bytes that its operators need at least.");
  options.parse();
  output.check();

  const std::vector<plan::FusionMask> masks = mask_arguments.at_least_one();
  if (masks.size() > 1) throw base::UsageError("profile takes one MASK: bench compares several plans");
  const plan::FusionPlan plan = plan::FusionPlan::from_mask(masks.front());
  const block::Problem problem = problem_options.problem();
  const measure::SessionOptions session_options = session_arguments.session(problem_options);
  catch_interrupts();
  measure::Session session(problem, session_options);
  const ScheduleTable schedules = schedule.table(session, session_options);
  const measure::PlanKernels kernels = PlanCompiler(session, {&plan, 1}, schedules).kernels(plan);
  stop_if_interrupted();
  const std::string heading = fmt::format("{}   {}   {}", describe(problem), describe(session.environment()),
                                          describe(schedules, distinct_variants({&plan, 1})));
  base::note(heading);
  const measure::PlanProfile profile = session.profile_plan(kernels, passes);
  stop_if_interrupted();
  if (profile.outcome != measure::Outcome::ok) {
    base::note(
        fmt::format("plan {}: {}: {}", plan.to_string(), measure::name(profile.outcome), profile.message));
    return kBadAnswer;
  }

  const std::vector<ProfiledKernel> profiled = kernels_of(kernels, profile, problem);
  if (!trace.empty()) base::write_file_atomic(trace, trace_of(plan, profiled, profile, heading));
  const report::Table table = rows(profiled);
  if (!output.write(table)) print(table.to_text() + summary(profile));
  return kDone;
}

}  // namespace fusetune::cli
