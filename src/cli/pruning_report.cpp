#include "cli/pruning_report.h"

#include <fmt/format.h>

namespace fusetune::cli {
namespace {

constexpr double kLossPercent = 100 * search::PruningEstimate::kLoss;

bool pruned_any(const Searcher& searcher) {
  if (searcher.pruning()) return true;
  return !searcher.edges().empty() && searcher.untimed().pruned > 0;  // else they are plans
}

std::string threshold_line(const search::PruningThreshold& threshold) {
  return fmt::format(
      "pruning: kernels less probable than {:.3f} of the fast class; of that class {:.1f} % are pruned at "
      "most, "
      "by {} held out\n",
      threshold.probability, 100 * threshold.chance, threshold.fast);
}

std::string chance_text(const search::PruningEstimate& estimate) {
  if (!estimate.chance) return "how likely it is that the others hold one cannot be said";
  return fmt::format("the others hold one with an estimated probability of {:.0f} %", 100 * *estimate.chance);
}

std::string audit_line(const search::PruningReport& report) {
  const search::PruningEstimate& last = report.last;
  return fmt::format(
      "audit: {} of {} pruned kernels timed all the same, {} would have made the best plan more than {:.0f} "
      "% "
      "faster: at most {:.0f} % of all would (at 95 %); {}\n",
      last.audited, last.left_out, last.losses, kLossPercent, 100 * last.share_at_most, chance_text(last));
}

/// What became of audits that failed.
std::string widened_line(const search::PruningReport& report) {
  std::string text;
  if (report.widened > 0)
    text += fmt::format(
        "  {} audit{} failed, {} kernel{} that mattered found: what is pruned was halved each time\n",
        report.widened, report.widened == 1 ? "" : "s", report.losses, report.losses == 1 ? "" : "s");
  if (!report.complete) {
    text += "  the audit was cut short: too little was timed to trust the pruning\n";
  } else if (!report.last.passed() && !report.settled) {
    text += "  it failed, and the search was stopped before it could time more of them\n";
  }
  return text;
}

}  // namespace

std::string describe_pruning(const std::optional<search::PruningThreshold>& threshold,
                             const Searcher& searcher) {
  if (!pruned_any(searcher)) return {};
  std::string text = threshold ? threshold_line(*threshold) : "";
  const std::optional<search::PruningReport> report = searcher.pruning();
  if (!report) return text + "no audit of what is pruned: the search was stopped before it\n";
  return text + audit_line(*report) + widened_line(*report);
}

nlohmann::json pruning_json(const std::optional<search::PruningThreshold>& threshold,
                            const Searcher& searcher) {
  if (!pruned_any(searcher)) return {};
  nlohmann::json json = {{"threshold", nullptr}, {"audit", nullptr}};
  if (threshold)
    json["threshold"] = {{"probability", threshold->probability},
                         {"chance", threshold->chance},
                         {"held_out", threshold->fast}};
  const std::optional<search::PruningReport> report = searcher.pruning();
  if (!report) return json;
  const search::PruningEstimate& last = report->last;
  json["audit"] = {{"pruned", last.left_out},
                   {"audited", last.audited},
                   {"losses", last.losses},
                   {"loss", search::PruningEstimate::kLoss},
                   {"share_at_most", last.share_at_most},
                   {"chance", last.chance ? nlohmann::json(*last.chance) : nlohmann::json()},
                   {"passed", last.passed()},
                   {"complete", report->complete},
                   {"audits", report->audits},
                   {"audited_in_all", report->audited},
                   {"losses_in_all", report->losses},
                   {"widened", report->widened}};
  return json;
}

}  // namespace fusetune::cli
