#include "cli/certificate_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "cli/final_times.h"
#include "search/certificate.h"
#include "search/roofline.h"

namespace fusetune::cli {
namespace {

/// What the certificate needs of the comparison. `drift`: the machine's speed at the comparison over that of
/// the screening, seen on the winner's segments, which both have timed.
struct Assumption {
  double alpha, alpha_seen;  // smallest lower limit of whole / sum, and smallest value
  int plans;                 // that have one
  double drift;
};
std::optional<Assumption> assumption(const FinalResult& result) {
  double alpha = std::numeric_limits<double>::infinity(), seen = alpha;
  int plans = 0;
  for (const store::ComparisonRecord& finalist : result.finalists) {
    if (!is_ok(finalist) || !finalist.whole_over_sum) continue;
    alpha = std::min(alpha, finalist.whole_over_sum->low);
    seen = std::min(seen, finalist.whole_over_sum->ratio);
    ++plans;
  }
  const store::ComparisonRecord& winner = result.winner();
  if (!std::isfinite(alpha) || !(alpha > 0) || !winner.whole_over_sum || !(winner.plan.sum_us > 0))
    return std::nullopt;
  const double sum_now = time_of(result, winner).us / winner.whole_over_sum->ratio;
  return Assumption{alpha, seen, plans, sum_now / winner.plan.sum_us};
}

/// How much faster a plan could be if one thing were known exactly: what would lower the gain.
struct Relaxed {
  const char* key;
  const char* what;
  double gain;
};

struct Claim {
  search::Certificate certificate;
  int alpha_plans = 0;           // whose whole over sum alpha is the least limit of
  double incumbent_high_us = 0;  // U, at the speed of the comparison
  std::size_t timed = 0, proved_timed = 0, proved_untimed = 0;
  std::vector<Relaxed> relaxed;
};

double gain_of(const std::optional<search::Certificate>& certificate) {
  return certificate ? certificate->gain : std::numeric_limits<double>::infinity();
}

std::vector<Relaxed> relax(const FinalResult& result, const Searcher& searcher, const Assumption& seen) {
  const FinalTime winner = time_of(result, result.winner());
  std::vector<search::BoundedEdge> exact;
  for (const search::TimedEdge& edge : searcher.edges()) exact.push_back({edge.variant, edge.median_us});
  return {{"segments", "exact times of the segments (more --samples, a quieter machine)",
           gain_of(search::certify_bounded(exact, winner.high_us / seen.drift, seen.alpha))},
          {"best_plan", "an exact time of the best plan (more --pairs)",
           gain_of(search::certify(searcher.edges(), winner.us / seen.drift, seen.alpha))},
          {"whole_over_sum", "an exact whole over sum (a quieter machine)",
           gain_of(search::certify(searcher.edges(), winner.high_us / seen.drift, seen.alpha_seen))}};
}

/// Counts what the certificate's rule proves, of kernels timed and of others, under what was seen at the end.
void count_proved(Claim& claim, const Searcher& searcher, double high_us) {
  std::vector<search::BoundedEdge> edges = search::limits(searcher.edges());
  claim.timed = edges.size();
  const std::vector<search::UntimedCandidate> untimed = searcher.untimed_kernels();
  for (const search::UntimedCandidate& one : untimed) edges.push_back({one.candidate.variant, one.least_us});
  const std::vector<bool> proved = search::proved_irrelevant(edges, high_us, claim.certificate.alpha);
  const auto middle = proved.begin() + static_cast<std::ptrdiff_t>(claim.timed);
  claim.proved_timed = static_cast<std::size_t>(std::count(proved.begin(), middle, true));
  for (std::size_t i = 0; i < untimed.size(); ++i)
    claim.proved_untimed += untimed[i].proved && proved[claim.timed + i] ? 1 : 0;
}

std::optional<Claim> claim_of(const FinalResult& result, const Searcher& searcher) {
  const std::optional<Assumption> seen = assumption(result);
  if (!seen) return std::nullopt;
  Claim claim;
  claim.incumbent_high_us = time_of(result, result.winner()).high_us;
  const double high_us = claim.incumbent_high_us / seen->drift;
  const auto certificate = search::certify(searcher.edges(), high_us, seen->alpha);
  if (!certificate) return std::nullopt;
  claim.certificate = *certificate;
  claim.alpha_plans = seen->plans;
  claim.relaxed = relax(result, searcher, *seen);
  count_proved(claim, searcher, high_us);
  return claim;
}

/// Why there is no certificate.
std::string no_certificate(const FinalResult& result, const Searcher& searcher) {
  if (searcher.edges().empty()) return "segments were not timed";
  if (!assumption(result)) return "the best plan was not timed beside its segments";
  return "the segments' times are too uncertain for a limit above 0, more --samples make them surer";
}

/// The plan next to the winner, with its time over the winner's. Only ratios to the baseline were measured:
/// where a tie made another plan the winner, the baseline is the one it can be set beside.
struct RunnerUp {
  std::uint16_t mask;
  double ratio, low, high;
};
std::optional<RunnerUp> runner_up(const FinalResult& result) {
  const store::ComparisonRecord &baseline = result.finalists.front(), &winner = result.winner();
  if (&winner != &baseline)
    return RunnerUp{baseline.plan.mask, 1 / winner.ratio, 1 / winner.high, 1 / winner.low};
  std::optional<RunnerUp> next;
  for (const store::ComparisonRecord& other : result.finalists) {
    if (&other == &winner || !is_ok(other) || (next && other.ratio >= next->ratio)) continue;
    next = RunnerUp{other.plan.mask, other.ratio, other.low, other.high};
  }
  return next;
}

std::string runner_up_line(const FinalResult& result) {
  const std::optional<RunnerUp> next = runner_up(result);
  if (!next) return {};
  return fmt::format("  next to the best: mask {}, {:.3f} ({:.3f} – {:.3f}) times its time\n", next->mask,
                     next->ratio, next->low, next->high);
}

std::string counts_line(const Claim& claim, const Searcher& searcher) {
  const auto [pruned, left, proved] = searcher.untimed();
  std::string text = fmt::format(
      "  of {} kernels timed ({} variants) {} are in no plan that could be faster; outside the claim: {} "
      "failed",
      claim.timed, searcher.timed_count(), claim.proved_timed, searcher.counts().failed());
  if (pruned > 0) text += fmt::format(", {} pruned by the model", pruned);
  const std::int64_t not_timed =
      left + searcher.counts().skipped() + proved - static_cast<std::int64_t>(claim.proved_untimed);
  if (not_timed > 0) text += fmt::format(", {} not timed", not_timed);
  text += "\n";
  if (claim.proved_untimed > 0)
    text += fmt::format(
        "  {} not timed are in no plan that could be faster, if no kernel computes over {:.2f} times as fast "
        "as "
        "the fastest one timed\n",
        claim.proved_untimed, search::Roofline::kHeadroom);
  return text;
}

std::string relaxed_line(const Claim& claim) {
  std::string text;
  for (const Relaxed& one : claim.relaxed) {
    if (one.gain > claim.certificate.gain - 5e-4) continue;  // the same, as it is printed
    text +=
        fmt::format("{}{:.1f} % with {}", text.empty() ? "  it would be " : ", ", 100 * one.gain, one.what);
  }
  return text.empty() ? text : text + "\n";
}

}  // namespace

std::string describe_certificate(const FinalResult& result, const Searcher& searcher, double epsilon) {
  const std::optional<Claim> claim = claim_of(result, searcher);
  if (!claim) return "no certificate: " + no_certificate(result, searcher) + "\n" + runner_up_line(result);
  const search::Certificate& certificate = claim->certificate;
  const bool closed = certificate.closed(epsilon);
  std::string text = fmt::format(
      "certificate: if every plan takes at least {:.3f} of the sum of its segments (the least limit of all "
      "{} plan{} so timed), no plan over the {} kernels timed is more than {:.1f} % faster than {:.1f} us, "
      "the best one's upper limit. {} (limit {:.1f} %)\n",
      certificate.alpha, claim->alpha_plans, claim->alpha_plans == 1 ? "" : "s", claim->timed,
      100 * certificate.gain, claim->incumbent_high_us, closed ? "Closed" : "Open", 100 * epsilon);
  text += counts_line(*claim, searcher) + runner_up_line(result);
  if (closed) return text;
  return text +
         fmt::format("  the plan that could be: mask {} {}\n", certificate.rival.canonical_mask().value,
                     certificate.rival.to_string()) +
         relaxed_line(*claim);
}

void add_certificate(nlohmann::json& json, const FinalResult& result, const Searcher& searcher,
                     double epsilon) {
  json["runner_up"] = nlohmann::json();
  if (const std::optional<RunnerUp> next = runner_up(result))
    json["runner_up"] = {{"mask", next->mask},
                         {"ratio", next->ratio},
                         {"ratio_low", next->low},
                         {"ratio_high", number_or_null(next->high)}};
  json["certificate"] = nlohmann::json();
  const std::optional<Claim> claim = claim_of(result, searcher);
  if (!claim) {
    json["no_certificate"] = no_certificate(result, searcher);
    return;
  }
  const auto [pruned, left, proved] = searcher.untimed();
  const auto proved_untimed = static_cast<std::int64_t>(claim->proved_untimed);
  nlohmann::json relaxed = nlohmann::json::object();
  for (const Relaxed& one : claim->relaxed) relaxed[one.key] = number_or_null(one.gain);
  const search::Certificate& certificate = claim->certificate;
  json["certificate"] = {{"alpha", certificate.alpha},
                         {"alpha_plans", claim->alpha_plans},
                         {"incumbent_high_us", claim->incumbent_high_us},
                         {"gain", certificate.gain},
                         {"epsilon", epsilon},
                         {"closed", certificate.closed(epsilon)},
                         {"rival", certificate.rival.canonical_mask().value},
                         {"variants", searcher.timed_count()},
                         {"kernels", claim->timed},
                         {"proved_timed", claim->proved_timed},
                         {"proved_untimed", proved_untimed},
                         {"pruned", pruned},
                         {"left", left + searcher.counts().skipped() + proved - proved_untimed},
                         {"failed", searcher.counts().failed()},
                         {"gain_if_exact", relaxed}};
}

}  // namespace fusetune::cli
