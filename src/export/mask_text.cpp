#include "export/mask_text.h"

#include <fmt/format.h>

#include <cstdint>
#include <vector>

namespace fusetune::exporting {
namespace {

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

}  // namespace fusetune::exporting
