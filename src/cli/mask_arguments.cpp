#include "cli/mask_arguments.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "model/json_rows.h"

namespace fusetune::cli {
namespace {

/// One mask per line; blank lines and '#' comments are skipped, a byte order mark and "\r\n" are fine.
void read_lines(const std::string& file, std::string_view content, std::vector<plan::FusionMask>& masks) {
  int number = 0;
  for (const std::string& line : base::split(base::without_byte_order_mark(content), '\n')) {
    ++number;
    const std::string_view text = base::trim(std::string_view(line).substr(0, line.find('#')));
    if (text.empty()) continue;
    try {
      masks.push_back(plan::parse_mask(text));
    } catch (const base::UsageError& error) {
      throw base::UsageError(fmt::format("{}:{}: {}", file, number, error.what()));
    }
  }
}

void read_masks(const std::string& file, std::vector<plan::FusionMask>& masks) {
  const std::string content = base::read_file(file);
  const std::size_t before = masks.size();
  if (model::is_json(content)) {
    for (const model::JsonRow& row : model::parse_json_rows(content, file)) masks.push_back(row.mask);
  } else {
    read_lines(file, content, masks);
  }
  if (masks.size() == before) throw base::UsageError(fmt::format("--file {}: no mask in it", file));
}

}  // namespace

void MaskArguments::declare(Options& options, bool with_file) {
  options.positionals("MASK", words_, "fusion masks: decimal, sixteen binary digits, 0b..., or 0x...", false);
  if (with_file) options.text("--file", file_, "FILE", "more masks, one per line or as JSON");
}

std::vector<plan::FusionMask> MaskArguments::masks() const {
  std::vector<plan::FusionMask> masks;
  for (const std::string& word : words_) masks.push_back(plan::parse_mask(word));
  if (!file_.empty()) read_masks(file_, masks);
  return masks;
}

std::vector<plan::FusionMask> MaskArguments::at_least_one() const {
  std::vector<plan::FusionMask> result = masks();
  if (result.empty())
    throw base::UsageError("which MASK? For example 48996 or 0b0010101010101010; see --help");
  return result;
}

}  // namespace fusetune::cli
