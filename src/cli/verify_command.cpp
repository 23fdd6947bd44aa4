// verify: every kernel of a plan, and the plan as a whole, against the float64 reference.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/mask_arguments.h"
#include "cli/output.h"
#include "cli/plan_job.h"
#include "cli/plan_kernels.h"
#include "cli/problem_options.h"
#include "cli/segment_argument.h"
#include "cli/session_options.h"
#include "cli/verify_findings.h"
#include "cli/verify_simt.h"

namespace fusetune::cli {
namespace {

struct VerifyArguments {
  MaskArguments masks;
  bool all_segments = false;
  std::vector<std::string> variants;
  std::string schedules = "chosen";
  ScheduleOption schedule;
  SessionArguments session;
  SimtOptions simt;
  ProblemOptions problem;
  RowsOutput output;

  void declare(Options& options) {
    masks.declare(options, true);
    options.flag("--all-segments", all_segments, "all 147 segment variants");
    options.texts("--variant", variants, "VARIANT",
                  "single kernels, e.g. '[7-14]' or '[2-6]*' (operators 0 to 14)");
    options.choice("--schedules", schedules, {"chosen", "all"},
                   "check the chosen schedule or all that are tried");
    output.declare(options);
    schedule.declare(options, true);
    session.declare(options);
    simt.declare(options);
    problem.declare(options);
  }
};

class Verifier {
 public:
  Verifier(const VerifyArguments& arguments, measure::Session& session)
      : arguments_(arguments),
        session_(session),
        schedules_(arguments.schedule.table(session)),
        findings_(arguments.output.to_stdout()) {}

  int run(const std::vector<plan::FusionMask>& masks, const std::vector<plan::SegmentVariant>& variants) {
    const auto candidates = list(variants);
    const auto compiled = compile(session_, candidates);
    for (std::size_t i = 0; i < candidates.size(); ++i) check(candidates[i], compiled[i]);
    for (const plan::FusionMask mask : masks) check_plan(mask, candidates, compiled);
    return findings_.finish(arguments_.output);
  }

 private:
  std::vector<Candidate> list(const std::vector<plan::SegmentVariant>& variants) {
    std::vector<Candidate> candidates;
    const std::string text = arguments_.schedule.text_of_every_variant();
    for (const plan::SegmentVariant& variant : variants) {
      if (!text.empty()) {
        candidates.push_back({variant, schedules_.parse(text)});
      } else {
        candidates.push_back({variant, schedules_(variant)});
        if (arguments_.schedules == "all") add_others(candidates, variant);
      }
    }
    std::erase_if(candidates, [this](const Candidate& candidate) { return refuse(candidate); });
    return candidates;
  }

  /// Behind the chosen one, which is the last candidate.
  void add_others(std::vector<Candidate>& candidates, const plan::SegmentVariant& variant) {
    const lower::AnySchedule chosen = candidates.back().schedule;
    std::vector<lower::Refused<lower::AnySchedule>> refused;
    for (const auto& schedule :
         lower::program_space(variant, session_.problem(), session_.target(), &refused))
      if (schedule != chosen) candidates.push_back({variant, schedule});
    for (const auto& [schedule, reason] : refused)
      findings_.add_refusal(variant, schedule.to_string(), reason);
  }

  bool refuse(const Candidate& candidate) {
    const std::string reason =
        lower::refuse(candidate.schedule, candidate.variant, session_.problem(), session_.target());
    if (reason.empty()) return false;
    findings_.add_refusal(candidate.variant, candidate.schedule.to_string(), reason);
    return true;
  }

  void check(const Candidate& candidate, const backend::CompileResult& compiled) {
    stop_if_interrupted();
    if (compiled.status != backend::CompileResult::Status::ok) {
      findings_.add_failure(candidate.variant.to_string(), candidate.schedule.to_string(),
                            outcome_of(compiled.status), compiled.log, repeat(candidate));
      return;
    }
    findings_.add(candidate.variant.to_string(), candidate.schedule.to_string(),
                  session_.check_segment(compiled.kernel), repeat(candidate));
  }

  /// The whole plan, with the first schedule of each variant, unless one of its kernels did not compile.
  void check_plan(plan::FusionMask mask, const std::vector<Candidate>& candidates,
                  const std::vector<backend::CompileResult>& compiled) {
    stop_if_interrupted();
    measure::PlanKernels kernels;
    std::string schedule_options;
    for (const plan::SegmentVariant& variant : plan::FusionPlan::from_mask(mask).variants()) {
      const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
        return candidate.variant == variant;
      });
      if (found == candidates.end()) return;
      const auto& result = compiled[static_cast<std::size_t>(found - candidates.begin())];
      if (result.status != backend::CompileResult::Status::ok) return;
      kernels.push_back(result.kernel);
      schedule_options += schedule_text_option(variant, found->schedule.to_string());
    }
    findings_.add(std::to_string(mask.value), plan::FusionPlan::from_mask(mask).to_string(),
                  session_.check_plan(kernels),
                  fmt::format("fusetune verify {}{}{}", mask.value, schedule_options, options_text()));
  }

  std::string repeat(const Candidate& candidate) const {
    return fmt::format("fusetune verify --variant '{}' --schedule-text '{}'{}", candidate.variant.to_string(),
                       candidate.schedule.to_string(), options_text());
  }
  std::string options_text() const {
    return arguments_.session.command_line() + arguments_.problem.command_line();
  }

  const VerifyArguments& arguments_;
  measure::Session& session_;
  ScheduleTable schedules_;
  Findings findings_;
};

std::vector<plan::SegmentVariant> wanted_variants(const VerifyArguments& arguments,
                                                  const std::vector<plan::FusionMask>& masks) {
  const auto all = plan::all_variants();
  if (arguments.all_segments) return {all.begin(), all.end()};
  std::vector<plan::FusionPlan> plans;
  for (const plan::FusionMask mask : masks) plans.push_back(plan::FusionPlan::from_mask(mask));
  std::vector<plan::SegmentVariant> variants = distinct_variants(plans);
  for (const std::string& text : arguments.variants) {
    const plan::SegmentVariant variant = parse_variant(text);
    if (std::find(variants.begin(), variants.end(), variant) == variants.end()) variants.push_back(variant);
  }
  if (variants.empty())
    throw base::UsageError("what is to be checked? Give a MASK, --variant or --all-segments");
  return variants;
}

int verify_simt(const VerifyArguments& arguments, const Options& options,
                const std::vector<plan::FusionMask>& masks,
                const std::vector<plan::SegmentVariant>& variants) {
  for (const char* name : {"--schedule", "--db"})
    if (options.given(name))
      throw base::UsageError(
          fmt::format("{} means nothing to --backend simt: nothing is recorded for GPUs yet", name));
  SimtVerification what;
  what.masks = masks;
  what.variants = variants;
  arguments.schedule.refuse_named_variants("--backend simt");
  what.schedule_text = arguments.schedule.text_of_every_variant();
  what.all_schedules = arguments.schedules == "all";
  what.problem = arguments.problem.problem();
  what.emulation = arguments.simt.emulation();
  what.emulation.run.timeout_seconds = arguments.session.run_timeout();
  what.data = block::generate_data(what.problem);
  if (!arguments.problem.weights().empty())
    block::load_weights(arguments.problem.weights(), arguments.problem.layer(), what.problem, what.data);
  what.target = arguments.simt.target();
  what.cxx = arguments.session.cxx();
  what.jobs = arguments.session.jobs();
  what.compile_timeout = arguments.session.compile_timeout();
  what.output = arguments.output;
  what.options_text =
      arguments.simt.command_line() + arguments.session.command_line() + arguments.problem.command_line();
  return verify_in_emulator(what);
}

}  // namespace

int run_verify(Options& options) {
  VerifyArguments arguments;
  arguments.declare(options);
  options.parse();
  arguments.output.check();
  const std::vector<plan::FusionMask> masks = arguments.masks.masks();
  const std::vector<plan::SegmentVariant> variants = wanted_variants(arguments, masks);
  if (!arguments.schedule.text_of_every_variant().empty() && arguments.variants.empty())
    throw base::UsageError("--schedule-text goes with --variant, or names one: '[7-14]: SCHEDULE'");

  if (arguments.session.emulated()) return verify_simt(arguments, options, masks, variants);
  arguments.simt.refuse_elsewhere(options);
  const block::Problem problem = arguments.problem.problem();
  const measure::SessionOptions session_options = arguments.session.session(arguments.problem);
  catch_interrupts();
  measure::Session session(problem, session_options);
  Verifier verifier(arguments, session);
  base::note(fmt::format("{}   {}", describe(problem), describe(session.environment())));
  return verifier.run(masks, variants);
}

}  // namespace fusetune::cli
