#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "block/mask.h"

namespace fusetune::block {
namespace {

using testing::ElementsAre;

/// Unpacks the tiles and compares every pair with the mask; checks the invariants kernels rely on.
void expect_reconstructs(const Mask& mask, std::int64_t tile) {
  const MaskTiles tiles = MaskTiles::build(mask, tile);
  const std::int64_t seq = mask.seq(), rows = (seq + tile - 1) / tile;
  ASSERT_EQ(tiles.tile_rows, rows);
  ASSERT_EQ(tiles.entries, mask.entries());
  ASSERT_EQ(std::ssize(tiles.row_begin), tiles.entries * rows + 1);
  ASSERT_EQ(tiles.row_begin.back(), std::ssize(tiles.column));
  ASSERT_EQ(tiles.bitmap.size(), tiles.column.size());

  std::vector<char> unpacked(tiles.entries * seq * seq, 0);
  for (std::int64_t r = 0; r < tiles.entries * rows; ++r) {
    for (std::int32_t at = tiles.row_begin[r]; at < tiles.row_begin[r + 1]; ++at) {
      const std::int64_t column = tiles.column[at];
      if (at > tiles.row_begin[r]) {
        ASSERT_LT(tiles.column[at - 1], column);
      }
      const bool cut = seq % tile != 0 && column == rows - 1;
      if (cut) {
        ASSERT_GE(tiles.bitmap[at], 0) << "a tile that S cuts carries its bitmap";
      }
      std::int64_t hidden = 0, shown = 0;
      for (std::int64_t i = 0; i < tile; ++i) {
        for (std::int64_t j = 0; j < tile; ++j) {
          const std::int64_t word = (std::int64_t{tiles.bitmap[at]} * tile + i) * (tile / 64) + j / 64;
          const bool bit = tiles.bitmap[at] < 0 || (tiles.bits[word] >> (j % 64)) & 1;
          const std::int64_t row = r % rows * tile + i, key = column * tile + j;
          if (row < seq && key < seq) {
            unpacked[(r / rows * seq + row) * seq + key] = bit;
            ++(bit ? shown : hidden);
          } else if (key >= seq || tiles.bitmap[at] >= 0) {
            ASSERT_FALSE(bit) << "bits past S are zero";
          }
        }
      }
      EXPECT_GT(shown, 0) << "empty tiles are absent";
      if (!cut) {
        EXPECT_EQ(tiles.bitmap[at] < 0, hidden == 0) << "full tiles carry no bitmap";
      }
    }
  }
  for (std::int64_t e = 0; e < tiles.entries; ++e) {
    for (std::int64_t i = 0; i < seq; ++i) {
      for (std::int64_t j = 0; j < seq; ++j)
        ASSERT_EQ(unpacked[(e * seq + i) * seq + j], mask.visible(e, i, j));
    }
  }
}

TEST(MaskTiles, ReconstructEveryPattern) {
  for (const std::int64_t seq : {1, 31, 33, 63, 64, 65, 127, 128, 130, 257}) {
    for (const char* text :
         {"full", "causal", "strided", "fixed", "sliding:window=3", "dilated:window=2,rate=40",
          "longformer:global=2,window=3", "bigbird:global=1,window=1,random=2", "block_diagonal:block=64",
          "padding:avg=200,seed=1", "causal:padding_avg=200"}) {
      MaskSpec spec = MaskSpec::parse(text);
      for (const char* average : {"avg", "padding_avg"}) {
        if (spec.parameters.contains(average)) spec.parameters[average] = std::to_string((seq + 1) / 2);
      }
      for (const std::int64_t tile : {64, 128, 192}) {
        SCOPED_TRACE(std::string(text) + " S " + std::to_string(seq) + " tile " + std::to_string(tile));
        expect_reconstructs(Mask(spec, 3, seq), tile);
      }
    }
  }
}

TEST(MaskTiles, CausalIsTopLeftAligned) {
  const MaskTiles tiles = MaskTiles::build(Mask(MaskSpec::parse("causal"), 1, 192));
  EXPECT_THAT(tiles.row_begin, ElementsAre(0, 1, 3, 6));
  EXPECT_THAT(tiles.column, ElementsAre(0, 0, 1, 0, 1, 2));
  EXPECT_THAT(tiles.bitmap, ElementsAre(0, -1, 1, -1, -1, 2));
  EXPECT_EQ(tiles.bits[0], 1u);
  EXPECT_EQ(tiles.bits[63], ~std::uint64_t{0});
}

TEST(MaskTiles, FullMaskOfWholeTilesHasNoBitmap) {
  const MaskTiles tiles = MaskTiles::build(Mask(MaskSpec{}, 4, 256));
  EXPECT_EQ(tiles.entries, 1);
  EXPECT_EQ(tiles.column.size(), 16u);
  EXPECT_TRUE(tiles.bits.empty());
}

TEST(MaskTiles, TileMustBeAMultipleOf64) {
  const Mask mask(MaskSpec{}, 1, 10);
  for (const std::int64_t tile : {0, -64, 32, 96})
    EXPECT_THROW(MaskTiles::build(mask, tile), base::InternalError);
}

}  // namespace
}  // namespace fusetune::block
