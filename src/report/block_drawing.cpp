#include "report/block_drawing.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "report/text_width.h"

namespace fusetune::report {
namespace {

constexpr int kBoxWidth = 76;  // between the box's vertical lines

std::string repeat(std::string_view text, std::size_t count) {
  std::string result;
  for (std::size_t i = 0; i < count; ++i) result += text;
  return result;
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, text_width(text)), ' ');
}

std::string join(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

std::string segment_words(const plan::SegmentVariant& variant) {
  std::string text;
  for (int op = variant.segment.first; op <= variant.segment.last; ++op) {
    if (!text.empty()) text += "─";
    text += block::name(static_cast<block::Operator>(op));
    if (op == plan::kCoreLast && variant.hand_written) text += "*";
  }
  return text;
}

/// Tensors for which `wanted(tensor)` holds, in the order of the table.
template <typename Predicate>
std::vector<std::string_view> tensors(Predicate wanted) {
  std::vector<std::string_view> names;
  for (int i = 0; i < block::kTensorCount; ++i)
    if (const auto tensor = static_cast<block::Tensor>(i); wanted(tensor))
      names.push_back(block::name(tensor));
  return names;
}

std::string operator_line(int op) {
  const block::OperatorInfo& info = block::info(static_cast<block::Operator>(op));
  const std::string text = fmt::format(" {:>2}  {:<19} {}", op + 1, info.name, info.formula);
  return "│" + padded(text, kBoxWidth) + "│\n";
}

std::string box(const plan::SegmentVariant& variant, int kernel) {
  const plan::Segment& segment = variant.segment;
  const std::string title = fmt::format("─ kernel {}  {}{} ", kernel, variant.to_string(),
                                        variant.hand_written ? "  hand-written attention" : "");
  std::string text = "┌" + title + repeat("─", kBoxWidth - text_width(title)) + "┐\n";
  for (int op = segment.first; op <= segment.last; ++op) text += operator_line(op);
  const auto kept = tensors([&](block::Tensor tensor) {
    const int producer = block::producer(tensor);
    return segment.contains(producer) && !block::is_live_out(tensor, segment.first, segment.last);
  });
  text += "└" + repeat("─", kBoxWidth) + "┘\n";
  if (!kept.empty()) text += "     inside: " + join(kept) + "\n";
  const auto written =
      tensors([&](block::Tensor tensor) { return block::is_live_out(tensor, segment.first, segment.last); });
  return text + "     writes: " + join(written) + "\n";
}

}  // namespace

std::string draw_line(const plan::FusionPlan& plan, int width, int indent) {
  const std::string margin(static_cast<std::size_t>(indent), ' ');
  std::string text;
  std::string line = margin;
  for (const plan::SegmentVariant& variant : plan.variants()) {
    const std::string words = segment_words(variant);
    const bool first_in_line = line == margin;
    if (!first_in_line && text_width(line) + 3 + text_width(words) > static_cast<std::size_t>(width)) {
      text += line + " │\n";
      line = margin + words;
    } else {
      line += (first_in_line ? "" : " │ ") + words;
    }
  }
  return text + line + "\n";
}

std::string draw_block(const plan::FusionPlan& plan) {
  std::string text = "     reads:  hidden, weights, parameters\n";
  int kernel = 0;
  for (const plan::SegmentVariant& variant : plan.variants()) text += box(variant, ++kernel);
  return text;
}

}  // namespace fusetune::report
