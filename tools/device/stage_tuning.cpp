// One problem tuned by fusetune itself: a search, then the unfused plan, ByteTransformer's and the best one
// timed in turn, beside what the device can do, measured just before.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "block/rounding.h"
#include "command_lines.h"
#include "rates.h"
#include "stages.h"
#include "tuning.h"

namespace fusetune::device_check {
namespace {

using nlohmann::ordered_json;

constexpr double kSearchShare =
    0.55;  // of the stage's time; the finalists' comparison, bench and run have the rest
constexpr double kCertainSeconds = 3;  // for the rates, and to end by itself before the stage's limit

class Tuning {
 public:
  Tuning(const Place& place, Records& records)
      : place_(place),
        records_(records),
        tuned_(tuned_problem(place.stage, place.quick)),
        work_(place.work / place.stage),
        lines_(tuned_, place.work / "fusetune.db", place.quick) {
    std::filesystem::create_directories(work_);
  }

  void run() {
    const Rates rates = rates_now();
    const std::optional<std::uint16_t> best = search();
    bench(rates, best);
    save_data(best.value_or(plan::FusionPlan::byte_transformer().canonical_mask().value));
  }

 private:
  /// The device is given back at once: some are set to have one process at a time.
  Rates rates_now() {
    Gpu gpu(place_.tree, place_.quick);
    return measure_rates(gpu, records_);
  }

  double seconds_left() const {
    const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - begin_;
    return std::max(1.0, place_.seconds - gone.count() - kCertainSeconds);
  }

  /// A command of the program; what it prints goes to the log. Adds a record where it fails.
  void fusetune(std::vector<std::string> words) {
    const std::string command = words.front();
    words.insert(words.begin(), place_.program.string());
    base::ProcessOptions options;
    options.timeout_seconds = seconds_left();
    const base::ProcessResult result = base::run_process(words, options);
    fmt::print("-- fusetune {} ({:.1f} s)\n{}\n", command, result.seconds, result.output);
    if (result.exit_code == 0) return;
    constexpr std::size_t kTail = 600;
    records_.add(
        "fusetune " + command, false,
        {{"exit_code", result.exit_code},
         {"timed_out", result.timed_out},
         {"finding", result.output.substr(result.output.size() - std::min(kTail, result.output.size()))}});
  }

  /// The best plan's mask, if one was found.
  std::optional<std::uint16_t> search() {
    const std::filesystem::path file = work_ / "search.json";
    fusetune(lines_.search(kSearchShare * seconds_left(), file));
    if (!std::filesystem::exists(file)) return std::nullopt;  // else it says what went wrong
    const ordered_json found = ordered_json::parse(base::read_file(file));
    keep(found);
    return record_search(found);
  }

  /// The whole answer, a line of one of the results' files.
  void keep(const ordered_json& found) {
    std::ofstream(place_.out / "searches.jsonl", std::ios::app) << found.dump() << std::endl;
  }

  std::optional<std::uint16_t> record_search(const ordered_json& found) {
    const ordered_json& search = found.at("search");
    ordered_json fields = {{"problem", found.at("problem")}, {"state", found.at("state")}};
    for (const char* name : {"timed", "left", "measured", "compiled", "median_compile_seconds", "outcomes"})
      fields[name] = search.at(name);
    fields["took"] = found.at("took");
    // Candidates that fail are what a search is for; only a wrong result is a finding of this check.
    const bool ok = !search.at("outcomes").contains("wrong_result") && found.contains("best");
    for (const ordered_json& failure : search.at("failures"))
      if (failure.at("outcome") == "wrong_result" && !fields.contains("finding"))
        fields["finding"] =
            failure.at("repeat").get<std::string>() + ": " + failure.at("message").get<std::string>();
    if (found.contains("best")) {
      const ordered_json& best = found.at("best");
      for (const char* name : {"mask", "plan", "schedules", "time_us", "ratio_high"})
        fields[name] = best.at(name);
    } else if (!fields.contains("finding")) {
      fields["finding"] = "no plan was found in the time: not every operator has a valid kernel";
    }
    records_.add("search", ok, fields);
    if (!found.contains("best")) return std::nullopt;
    return found.at("best").at("mask").get<std::uint16_t>();
  }

  /// The unfused plan first: the others are compared with it.
  void bench(const Rates& rates, std::optional<std::uint16_t> best) {
    const std::filesystem::path file = work_ / "bench.json";
    std::vector<std::uint16_t> masks;
    const auto add = [&](std::uint16_t mask) {
      if (std::find(masks.begin(), masks.end(), mask) == masks.end()) masks.push_back(mask);
    };
    add(plan::FusionPlan::unfused().canonical_mask().value);
    add(plan::FusionPlan::byte_transformer().canonical_mask().value);
    if (best) add(*best);
    fusetune(lines_.bench(masks, file));
    if (!std::filesystem::exists(file)) return;  // else plans that did not fail have their times in it
    for (const ordered_json& row : ordered_json::parse(base::read_file(file))) record_time(rates, row, best);
  }

  void record_time(const Rates& rates, const ordered_json& row, std::optional<std::uint16_t> best) {
    const bool ok = row.at("outcome") == "ok";
    ordered_json fields = {{"plan", row.at("plan")}, {"best", best && row.at("mask") == *best}};
    if (ok) {
      const double us = row.at("median_us").get<double>();
      fields["us"] = rounded(us);
      for (const char* name : {"ratio", "ratio_low", "ratio_high"}) fields[name] = row.at(name);
      fields.update(shares(rates, us, block_flops(), block_bytes(), true));
    } else {
      fields["finding"] = row.at("verdict");
    }
    records_.add(fmt::format("plan {}", row.at("mask").get<int>()), ok, fields);
  }

  double block_flops() const {
    const block::Problem& problem = tuned_.problem;
    const plan::SegmentVariant whole{{0, block::kOperatorCount - 1}};
    return flops_of(whole, problem, block::Mask(problem.mask, problem.batch, problem.seq));
  }

  /// What any plan reads and writes at least: input, weights, output.
  double block_bytes() const {
    const block::Problem& problem = tuned_.problem;
    std::int64_t elements = problem.elements(block::Tensor::hidden) + problem.elements(block::Tensor::output);
    for (int weight = 0; weight < block::kWeightCount; ++weight) {
      const auto [rows, columns] = problem.shape(static_cast<block::Weight>(weight));
      elements += rows * columns;
    }
    return static_cast<double>(elements * block::element_size(problem.dtype));
  }

  /// Input, weights, mask and this plan's output, for PyTorch.
  void save_data(std::uint16_t mask) { fusetune(lines_.run(mask, work_)); }

  const Place& place_;
  Records& records_;
  TunedProblem tuned_;
  std::filesystem::path work_;
  CommandLines lines_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

void tune(const Place& place, Records& records) { Tuning(place, records).run(); }

}  // namespace fusetune::device_check
