// Two-level storage of a mask: MaskTiles::build.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "block/mask.h"
#include "block/mask_painter.h"

namespace fusetune::block {
namespace {

/// What one tile row holds, per word column: the union and the intersection of its existing rows.
struct TileRowSummary {
  std::vector<std::uint64_t> any, all;

  TileRowSummary(const Mask& mask, std::int64_t entry, std::int64_t first_row, std::int64_t last_row,
                 std::int64_t words)
      : any(words, 0), all(words, kAllBits) {
    for (std::int64_t i = first_row; i < last_row; ++i) {
      const std::span<const std::uint64_t> row = mask.row(entry, i);
      for (std::size_t w = 0; w < row.size(); ++w) {
        any[w] |= row[w];
        all[w] &= row[w];
      }
      // Words past the row's last one belong to no key.
      std::fill(all.begin() + std::ssize(row), all.end(), 0);
    }
  }
};

void append_bitmap(const Mask& mask, std::int64_t entry, std::int64_t first_row, std::int64_t first_word,
                   MaskTiles& tiles) {
  const std::int64_t tile_words = tiles.tile / 64;
  std::size_t at = tiles.bits.size();
  tiles.bits.resize(at + tiles.tile * tile_words, 0);
  for (std::int64_t i = first_row; i < std::min(first_row + tiles.tile, mask.seq()); ++i) {
    const std::span<const std::uint64_t> row = mask.row(entry, i);
    const std::int64_t count = std::min<std::int64_t>(tile_words, std::ssize(row) - first_word);
    std::copy_n(row.begin() + first_word, count, tiles.bits.begin() + at);
    at += tile_words;
  }
}

}  // namespace

MaskTiles MaskTiles::build(const Mask& mask, std::int64_t tile) {
  if (tile < 64 || tile % 64 != 0) {
    throw base::InternalError(fmt::format("mask tile {} is not a positive multiple of 64", tile));
  }
  const std::int64_t seq = mask.seq(), tile_words = tile / 64;
  MaskTiles tiles;
  tiles.tile = tile;
  tiles.tile_rows = (seq + tile - 1) / tile;
  tiles.entries = mask.entries();
  tiles.row_begin.push_back(0);
  std::int32_t bitmaps = 0;
  const auto is_set = [](std::uint64_t word) { return word != 0; };
  const auto is_full = [](std::uint64_t word) { return word == kAllBits; };
  for (std::int64_t r = 0; r < tiles.entries * tiles.tile_rows; ++r) {
    const std::int64_t entry = r / tiles.tile_rows, first_row = r % tiles.tile_rows * tile;
    const TileRowSummary summary(mask, entry, first_row, std::min(first_row + tile, seq),
                                 tiles.tile_rows * tile_words);
    for (std::int64_t c = 0; c < tiles.tile_rows; ++c) {
      const std::int64_t word = c * tile_words;
      if (std::none_of(summary.any.begin() + word, summary.any.begin() + word + tile_words, is_set)) continue;
      const bool full =
          std::all_of(summary.all.begin() + word, summary.all.begin() + word + tile_words, is_full);
      tiles.column.push_back(static_cast<std::int32_t>(c));
      tiles.bitmap.push_back(full ? -1 : bitmaps++);
      if (!full) append_bitmap(mask, entry, first_row, word, tiles);
    }
    tiles.row_begin.push_back(static_cast<std::int32_t>(tiles.column.size()));
  }
  return tiles;
}

}  // namespace fusetune::block
