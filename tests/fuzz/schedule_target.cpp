// A schedule's text: what reads as a schedule reads back from its own text, and is refused or lowered, no
// more.
#include "lower/schedule.h"
#include "target.h"

namespace fusetune::fuzz {

std::vector<std::string> fuzz_seeds() {
  lower::Schedule schedule;
  std::vector<std::string> seeds{schedule.to_string(), "", "tile=8x32 rows=17"};
  schedule.hand_off = lower::HandOff::pipeline;
  schedule.qkv_per_head = true;
  seeds.push_back(schedule.to_string());
  return seeds;
}

}  // namespace fusetune::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace fusetune;
  const auto schedule = fuzz::accepted([&] { return lower::Schedule::parse(fuzz::text_of(data, size)); });
  if (!schedule) return 0;
  const std::string text = schedule->to_string();
  const auto again = fuzz::accepted([&] { return lower::Schedule::parse(text); });
  fuzz::require(again && *again == *schedule, "a schedule reads back from its text: " + text);
  static const block::Problem problem;
  for (const plan::SegmentVariant& variant : plan::all_variants()) {
    const lower::Schedule canonical = lower::canonical(*schedule, variant, problem);
    fuzz::require(lower::canonical(canonical, variant, problem) == canonical,
                  "canonical() changes nothing twice");
    lower::refuse(*schedule, variant, problem, {});
  }
  return 0;
}
