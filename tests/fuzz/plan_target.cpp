// Masks as people write them, the notes' translation, and segments encoded to a mask.
#include <algorithm>
#include <sstream>

#include "plan/fusion_plan.h"
#include "target.h"

namespace fusetune::fuzz {
namespace {

std::vector<plan::Segment> fused(const plan::FusionPlan& plan) {
  std::vector<plan::Segment> segments = plan.segments();
  std::erase_if(segments, [](const plan::Segment& segment) { return segment.size() < 2; });
  return segments;
}

void check_mask(std::string_view text) {
  const auto mask = accepted([&] { return plan::parse_mask(text); });
  if (!mask) return;
  require(plan::parse_mask(std::to_string(mask->value)) == *mask, "a mask reads back from its decimal");
  require(plan::parse_mask(mask->to_binary()) == *mask, "a mask reads back from its binary digits");
  require(plan::parse_mask("0b" + mask->to_binary()) == *mask, "a mask reads back from 0b and its digits");
  const plan::FusionPlan plan = plan::FusionPlan::from_mask(*mask);
  require(plan::FusionPlan::from_mask(plan.canonical_mask()) == plan, "a canonical mask names its plan");
  require(plan::encode(fused(plan), plan.hand_written()) == plan.canonical_mask(),
          "segments name their plan");
}

/// translate()'s line, read by an independent reader, is the plan.
void check_translation(std::string_view text) {
  const auto mask = accepted([&] { return plan::parse_mask(text); });
  if (!mask) return;
  std::istringstream line(plan::translate(*mask));
  unsigned value = 0, attention = 0, count = 0;
  line >> value >> attention >> count;
  std::vector<plan::Segment> segments(count);
  for (plan::Segment& segment : segments) {
    line >> segment.first >> segment.last;
    --segment.first, --segment.last;  // from positions to operators
  }
  std::string rest;
  require(!line.fail() && !(line >> rest), "a translation has the segments it says");
  require(value == mask->value && attention == static_cast<unsigned>(mask->bit(0)),
          "a translation names its mask");
  require(segments == fused(plan::FusionPlan::from_mask(*mask)), "a translation has the plan's segments");
}

/// Bytes as a list of segments: whatever encode() takes comes out of the mask again.
void check_encode(std::string_view bytes) {
  std::vector<plan::Segment> segments;
  for (std::size_t i = 1; i + 1 < std::min<std::size_t>(bytes.size(), 64); i += 2)
    segments.push_back({static_cast<signed char>(bytes[i]), static_cast<signed char>(bytes[i + 1])});
  const bool hand_written = !bytes.empty() && (bytes[0] & 1) != 0;
  const auto mask = accepted([&] { return plan::encode(segments, hand_written); });
  if (!mask) return;
  std::sort(segments.begin(), segments.end());
  const plan::FusionPlan plan = plan::FusionPlan::from_mask(*mask);
  require(fused(plan) == segments, "encoded segments come out of the mask");
  require(plan.canonical_mask() == *mask, "encode() gives the canonical mask");
  require(hand_written || !plan.hand_written(), "the attention flag is not made up");
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  using namespace std::string_literals;
  return {"0",      "48996",       "65535",    "0x7fff",  "0b1011111101100100", "1011111101100100",
          "0xBF64", "\1\0\1\2\6"s, "\0\7\16"s, "\1\0\16"s};
}

}  // namespace fusetune::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fusetune::fuzz::text_of(data, size);
  fusetune::fuzz::check_mask(text);
  fusetune::fuzz::check_translation(text);
  fusetune::fuzz::check_encode(text);
  return 0;
}
