#include "export/mask_text.h"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace fusetune::exporting {
namespace {

constexpr std::int64_t kGpuTile = 64;  // kernels/cuda/abi.h

struct Run {
  std::uint32_t count;
  std::uint64_t word;
};

std::vector<Run> runs_of(const block::Mask& mask) {
  std::vector<Run> runs;
  for (std::int64_t entry = 0; entry < mask.entries(); ++entry)
    for (std::int64_t i = 0; i < mask.seq(); ++i)
      for (const std::uint64_t word : mask.row(entry, i)) {
        if (!runs.empty() && runs.back().word == word && runs.back().count < UINT32_MAX)
          ++runs.back().count;
        else
          runs.push_back({1, word});
      }
  return runs;
}

/// A C array; one of nothing, which C has not, gets a zero.
template <class Value>
std::string array_text(std::string_view type, std::string_view name, const std::vector<Value>& values) {
  constexpr int kOnLine = 16;
  std::string text = fmt::format("static const {} {}[] = {{", type, name);
  int on_line = kOnLine;
  for (const Value& value : values) {
    text += on_line == kOnLine ? "\n    " : " ";
    if (on_line == kOnLine) on_line = 0;
    if constexpr (sizeof(Value) == sizeof(std::uint64_t))
      text += fmt::format("0x{:x},", value);
    else
      text += fmt::format("{},", value);
    ++on_line;
  }
  return text + (values.empty() ? "0};\n" : "};\n");
}

}  // namespace

block::MaskSpec without_padding(const block::MaskSpec& spec) {
  block::MaskSpec bare = spec.canonical();
  const bool draws_lengths = bare.parameters.contains("padding_avg") || bare.parameters.contains("avg");
  // A seed without anything drawn is refused; bigbird draws its blocks with the same one.
  if (draws_lengths && bare.pattern != "bigbird") bare.parameters.erase("seed");
  for (const char* name : {"padding_avg", "padding_lengths"}) bare.parameters.erase(name);
  if (bare.pattern == "padding") {
    for (const char* name : {"avg", "lengths"}) bare.parameters.erase(name);
    bare.pattern = "full";
  }
  return bare.canonical();
}

std::string mask_data_text(const block::Mask& mask) {
  std::string text = fmt::format(
      "// Which key each query sees, padding aside: [entries][SEQ][ceil(SEQ / 64)] words, bit j % 64 of "
      "word\n"
      "// j / 64 for key j, as runs of equal words.\n"
      "struct MaskRun {{\n  unsigned count;\n  unsigned long long word;\n}};\n"
      "constexpr long kMaskEntries = {};\nconstexpr MaskRun kMaskRuns[] = {{\n",
      mask.entries());
  int on_line = 0;
  for (const Run& run : runs_of(mask)) {
    text += fmt::format("{}{{{}, 0x{:x}}},", on_line == 0 ? "    " : " ", run.count, run.word);
    if (++on_line == 4) text += '\n';
    if (on_line == 4) on_line = 0;
  }
  return text + (on_line == 0 ? "};\n" : "\n};\n");
}

std::string mask_tiles_text(const block::Mask& mask) {
  const block::MaskTiles tiles = block::MaskTiles::build(mask, kGpuTile);
  std::vector<int> used, lengths;
  for (std::int64_t entry = 0; entry < mask.entries(); ++entry)
    used.insert(used.end(), mask.key_used(entry).begin(), mask.key_used(entry).end());
  for (std::int64_t b = 0; b < mask.batch(); ++b) lengths.push_back(static_cast<int>(mask.length(b)));
  return fmt::format(
             "/* Which key each query sees: tiles of {0} x {0} in CSR form, as abi.h describes them. */\n"
             "enum {{ mask_entries = {1}, mask_has_padding = {2} }};\n",
             kGpuTile, mask.entries(), mask.has_padding() ? 1 : 0) +
         array_text("int", "mask_row_begin", tiles.row_begin) +
         array_text("int", "mask_column", tiles.column) + array_text("int", "mask_bitmap", tiles.bitmap) +
         array_text("unsigned long long", "mask_bits", tiles.bits) +
         array_text("unsigned char", "mask_key_used", used) + array_text("int", "mask_length", lengths);
}

}  // namespace fusetune::exporting
