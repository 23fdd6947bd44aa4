// profile: what each kernel of a plan takes, as a table, a trace and an SQLite file.
#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

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
#include "store/profile_file.h"

namespace fusetune::cli {
namespace {

constexpr int kDefaultPasses = 50, kMostPasses = 10000;

store::ProfileRecord record_of(plan::FusionMask mask, const measure::Session& session,
                               const measure::SessionOptions& options, const measure::PlanKernels& kernels,
                               measure::PlanProfile profile) {
  store::ProfileRecord record;
  record.problem = session.problem().key();
  record.mask = mask.value;
  record.plan = plan::FusionPlan::from_mask(mask).to_string();
  record.environment = {session.environment().fingerprint, session.environment().fields};
  record.program = FUSETUNE_VERSION;
  record.cache_mode = measure::name(options.cache);
  for (const backend::CompiledKernel& kernel : kernels) {
    const codegen::AnyKernel& source = kernel.source;
    const lower::StaticCosts costs = lower::static_costs(source.variant().segment, session.problem());
    record.kernels.push_back({source.variant().to_string(), source.symbol(), source.schedule().to_string(),
                              source.hash(), costs.flops, costs.bytes_read, costs.bytes_written});
  }
  record.passes_us = std::move(profile.passes_us);
  for (measure::ProfiledCall& call : profile.calls)
    record.host_calls.push_back({std::move(call.name), call.begin_us, call.duration_us});
  record.dropped = profile.dropped;
  return record;
}

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

/// Microseconds of a kernel in each pass.
std::vector<double> times_of(const store::ProfileRecord& record, std::size_t kernel) {
  std::vector<double> times;
  for (const std::vector<double>& pass : record.passes_us) times.push_back(pass[kernel + 1] - pass[kernel]);
  return times;
}

std::vector<double> pass_times(const store::ProfileRecord& record) {
  std::vector<double> times;
  for (const std::vector<double>& pass : record.passes_us) times.push_back(pass.back() - pass.front());
  return times;
}

report::Table rows(const store::ProfileRecord& record) {
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
  const double whole = sum(pass_times(record));
  for (std::size_t i = 0; i < record.kernels.size(); ++i) {
    const store::ProfiledKernel& kernel = record.kernels[i];
    const std::vector<double> times = times_of(record, i);
    const double total = sum(times), mean = total / static_cast<double>(times.size());
    const auto [least, most] = std::minmax_element(times.begin(), times.end());
    table.add({kernel.name, static_cast<std::int64_t>(times.size()), total, mean, measure::median(times),
               *least, *most, 100 * (total / whole), kernel.flops / mean * 1e-3,
               (kernel.bytes_read + kernel.bytes_written) / mean * 1e-3, kernel.schedule});
  }
  return table;
}

std::string summary(const store::ProfileRecord& record) {
  const measure::TimingSummary time = measure::summarize(pass_times(record));
  return fmt::format(
      "{} passes, median {} us, MAD {} us, fastest {} us; {} dropped, as other processes ran\n", time.count,
      base::format_fixed(time.median_us, 1), base::format_fixed(time.mad_us, 1),
      base::format_fixed(time.min_us, 1), record.dropped);
}

std::string trace_of(const store::ProfileRecord& record, const std::string& heading) {
  report::TraceTrack passes{"passes", {}}, launches{"kernels", {}}, host{"host calls", {}};
  for (std::size_t p = 0; p < record.passes_us.size(); ++p) {
    const std::vector<double>& times = record.passes_us[p];
    passes.events.push_back({fmt::format("pass {}", p + 1), times.front(), times.back() - times.front(), {}});
    for (std::size_t k = 0; k < record.kernels.size(); ++k) {
      const store::ProfiledKernel& kernel = record.kernels[k];
      launches.events.push_back({kernel.name,
                                 times[k],
                                 times[k + 1] - times[k],
                                 {{"symbol", kernel.symbol},
                                  {"schedule", kernel.schedule},
                                  {"flops", kernel.flops},
                                  {"bytes_read", kernel.bytes_read},
                                  {"bytes_written", kernel.bytes_written}}});
    }
  }
  for (const store::ProfiledHostCall& call : record.host_calls)
    host.events.push_back({call.name, call.begin_us, call.duration_us, {}});
  std::vector<report::TraceTrack> tracks = {passes, launches};
  if (!host.events.empty()) tracks.push_back(host);
  return report::chrome_trace(fmt::format("plan {}: {}", record.plan, heading), tracks);
}

struct ProfileArguments {
  int passes = kDefaultPasses;
  std::string trace, sqlite;

  void declare(Options& options) {
    options.integer("--passes", passes, "N", "passes over the plan", 1, kMostPasses);
    options.text("--trace", trace, "FILE",
                 "every launch and host call as a Chrome trace: open it at ui.perfetto.dev");
    options.text("--sqlite", sqlite, "FILE", "every launch and host call as a new SQLite file");
  }
  /// Before long work.
  void check() const {
    if (!sqlite.empty()) store::require_new_profile_file(sqlite);
  }
  void write(const store::ProfileRecord& record, const std::string& heading) const {
    if (!trace.empty()) base::write_file_atomic(trace, trace_of(record, heading));
    if (!sqlite.empty()) store::write_profile_file(sqlite, record);
  }
};

}  // namespace

int run_profile(Options& options) {
  MaskArguments mask_arguments;
  ProfileArguments arguments;
  ScheduleOption schedule;
  SessionArguments session_arguments;
  ProblemOptions problem_options;
  RowsOutput output;
  mask_arguments.declare(options, false);
  arguments.declare(options);
  output.declare(options);
  schedule.declare(options);
  session_arguments.declare(options);
  problem_options.declare(options);
  options.footnote(
      "A kernel's time includes the barrier of all threads behind it; on a GPU, the gap before its launch. "
      "GFLOP/s and GB/s count what its operators need at least.");
  options.parse();
  output.check();
  arguments.check();

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
  measure::PlanProfile profile = session.profile_plan(kernels, arguments.passes);
  stop_if_interrupted();
  if (profile.outcome != measure::Outcome::ok) {
    base::note(
        fmt::format("plan {}: {}: {}", plan.to_string(), measure::name(profile.outcome), profile.message));
    return kBadAnswer;
  }

  const store::ProfileRecord record =
      record_of(masks.front(), session, session_options, kernels, std::move(profile));
  arguments.write(record, heading);
  const report::Table table = rows(record);
  if (!output.write(table)) print(table.to_text() + summary(record));
  return kDone;
}

}  // namespace fusetune::cli
