#include "cli/verify_findings.h"

#include <fmt/format.h>

#include <cmath>

#include "base/log.h"
#include "cli/command.h"

namespace fusetune::cli {
namespace {

std::string coordinates(const std::vector<std::int64_t>& at) {
  return fmt::format("[{}]", fmt::join(at, ","));
}

/// The largest error of its tensors; NaN beats every number, so that it cannot hide.
double largest(const measure::CheckResult& check, double measure::TensorCheck::*error) {
  double worst = 0;
  for (const measure::TensorCheck& tensor : check.tensors)
    if (std::isnan(tensor.*error) || tensor.*error > worst) worst = tensor.*error;
  return worst;
}

std::string complaint(const measure::TensorCheck& tensor) {
  std::string text = fmt::format("      {} at {}: got {}, want {}", tensor.tensor,
                                 coordinates(tensor.worst_at), tensor.got, tensor.want);
  if (tensor.not_finite > 0)
    text += fmt::format("; {} elements not finite or never written", tensor.not_finite);
  if (!tensor.note.empty()) text += "; " + tensor.note;
  return text + "\n";
}

std::string explanation(const measure::CheckResult& check) {
  std::string text;
  for (const measure::TensorCheck& tensor : check.tensors)
    if (!tensor.passed) text += complaint(tensor);
  if (text.empty() && !check.message.empty()) text = "      " + check.message + "\n";
  return text;
}

}  // namespace

void Findings::add(const std::string& what, const std::string& schedule, const measure::CheckResult& check,
                   const std::string& repeat) {
  const bool ok = check.outcome == measure::Outcome::ok;
  report::Cell norm, worst;  // empty for what did not run
  std::string errors;
  if (!check.tensors.empty()) {
    norm = largest(check, &measure::TensorCheck::norm_error);
    worst = largest(check, &measure::TensorCheck::worst_error);
    errors = fmt::format("norm {:.2e}  worst {:.2e}  ", std::get<double>(norm), std::get<double>(worst));
  }
  failed_ += !ok;
  ++count_;
  rows_.add({what, schedule, std::string(measure::name(check.outcome)), norm, worst, check.message,
             ok ? report::Cell() : report::Cell(repeat)});
  if (quiet_) return;
  std::string text =
      fmt::format("{:<14} {:<10} {}{}\n", measure::name(check.outcome), what, errors, schedule);
  if (!ok) text += explanation(check) + "      repeat: " + repeat + "\n";
  print(text);
  flush_output();
}

void Findings::add_failure(const std::string& what, const std::string& schedule, measure::Outcome outcome,
                           const std::string& message, const std::string& repeat) {
  measure::CheckResult check;
  check.outcome = outcome;
  check.message = message;
  add(what, schedule, check, repeat);
}

void Findings::add_refusal(const plan::SegmentVariant& variant, const std::string& schedule,
                           const std::string& reason) {
  ++refused_;
  base::note(fmt::format("refused {} {}: {}", variant.to_string(), schedule, reason));
}

int Findings::finish(const RowsOutput& output) const {
  base::note(fmt::format("{} checked, {} failed, {} schedules refused", count_, failed_, refused_));
  output.write(rows_);
  if (count_ == 0) base::note("nothing could be checked");
  return failed_ == 0 && count_ > 0 ? kDone : kBadAnswer;
}

}  // namespace fusetune::cli
