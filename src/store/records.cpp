#include "store/records.h"

#include "base/error.h"
#include "base/number.h"

namespace fusetune::store {
namespace {

constexpr int kNoisyAttempts = 3;
constexpr Sampled kSampled[] = {Sampled::uniform, Sampled::guided, Sampled::finalist};

}  // namespace

std::string settings_text(int samples, double min_time_s, const std::string& reference) {
  return "samples=" + std::to_string(samples) + " min_time=" + base::format_shortest(min_time_s) +
         (reference.empty() ? "" : " reference=" + reference);
}

bool may_retry(const Trial& trial, const Limits& now) {
  switch (trial.measurement.outcome) {
    case measure::Outcome::noisy:
      return trial.attempts < kNoisyAttempts;
    case measure::Outcome::crashed:
      return trial.abandoned == 1 && trial.attempts == 1;
    case measure::Outcome::timeout:
      return now.compile_s > trial.limits.compile_s || now.run_s > trial.limits.run_s;
    default:
      return false;
  }
}

std::string_view name(Sampled sampled) {
  switch (sampled) {
    case Sampled::uniform:
      return "uniform";
    case Sampled::guided:
      return "guided";
    case Sampled::finalist:
      return "finalist";
  }
  throw base::InternalError("unknown way of sampling");
}

Sampled parse_sampled(std::string_view text) {
  for (const Sampled sampled : kSampled) {
    if (text == name(sampled)) return sampled;
  }
  throw base::UsageError("'" + std::string(text) + "': expected uniform, guided or finalist");
}

std::string_view name(RunState state) {
  switch (state) {
    case RunState::running:
      return "running";
    case RunState::finished:
      return "finished";
    case RunState::interrupted:
      return "interrupted";
    case RunState::failed:
      return "failed";
  }
  throw base::InternalError("unknown run state");
}

}  // namespace fusetune::store
