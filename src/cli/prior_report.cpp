#include "cli/prior_report.h"

#include <fmt/core.h>

#include <cmath>

#include "cli/final_times.h"

namespace fusetune::cli {
namespace {

std::string figure(double value) { return std::isfinite(value) ? fmt::format("{:.3f}", value) : "not known"; }

/// "shipped: Spearman 0.981 on the 20 kernels timed first, the roofline's 0.962"
std::string test_text(const search::PriorTest& test) {
  return fmt::format("{} {}: Spearman {} on {} kernels timed first, the roofline's {}", test.kind, test.name,
                     figure(test.spearman), test.probes, figure(test.roofline));
}

}  // namespace

std::string describe_priors(std::span<const search::PriorTest> tests) {
  if (tests.empty()) return {};
  std::string text;
  for (const search::PriorTest& test : tests)
    text += fmt::format("prior {}: {}\n", test.trusted ? "used" : "refused", test_text(test));
  if (tests.back().trusted) return text;
  return text + fmt::format(
                    "  at least {:.2f} on {} kernels and no less than the roofline's is needed: the roofline "
                    "was used\n",
                    search::kTrustedSpearman, search::kFewestProbes);
}

nlohmann::json priors_json(std::span<const search::PriorTest> tests) {
  if (tests.empty()) return nullptr;
  nlohmann::json list = nlohmann::json::array();
  for (const search::PriorTest& test : tests)
    list.push_back({{"kind", test.kind},
                    {"name", test.name},
                    {"trusted", test.trusted},
                    {"probes", test.probes},
                    {"spearman", number_or_null(test.spearman)},
                    {"roofline_spearman", number_or_null(test.roofline)}});
  return {{"used", tests.back().trusted ? tests.back().kind : "roofline"},
          {"needed_spearman", search::kTrustedSpearman},
          {"needed_probes", search::kFewestProbes},
          {"tests", list}};
}

}  // namespace fusetune::cli
