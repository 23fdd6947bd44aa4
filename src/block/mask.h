// Attention masks: the pattern (a predicate), its text form, and the two-level storage kernels read.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fusetune::block {

/// A pattern and its parameters: "sliding:window=64,causal=1".
///
/// Besides its own parameters (mask_patterns()) any pattern takes causal=1 (intersect with j <= i) and
/// padding_avg=N or padding_lengths=a/b/... (combine with padding; `seed` goes with padding_avg).
struct MaskSpec {
  std::string pattern = "full";
  std::map<std::string, std::string> parameters;

  /// Grammar: PATTERN[:key=value,...]; a backslash takes the next character of a value literally. The
  /// result is canonical(). Throws base::UsageError naming the pattern's parameters.
  static MaskSpec parse(std::string_view text);
  /// The research code's --mask-id: 0 causal, 1 strided, 2 fixed. Throws base::UsageError for others.
  static MaskSpec from_research_id(int id);
  /// The checked form that equal masks share: numbers without leading zeros, defaults filled in where
  /// they do not depend on S, one spelling (full:causal=1 is causal, full:padding_avg=9 is
  /// padding:avg=9), and for `file` the digest of the file's content, which is read if no digest is given.
  /// Throws base::UsageError.
  MaskSpec canonical() const;
  /// Text of canonical(); parse() reads it back. Commas, backslashes and spaces in a path are escaped.
  std::string to_string() const;
  bool operator==(const MaskSpec&) const = default;
};

/// One row of the pattern table, for --help and documentation.
struct MaskPatternInfo {
  std::string_view name;
  std::string_view parameters;  // "window=32"
  std::string_view visible_when;
};
std::span<const MaskPatternInfo> mask_patterns();

/// Visibility of one block's (query, key) pairs for every batch entry, as a dense bitmap with 64-bit
/// words: the source of the tiles and of the oracle. `entries` is 1 where no batch entry differs.
class Mask {
 public:
  /// Builds the bitmap of `spec` for sequence length `seq` and `batch` entries, word by word in O(S^2/64);
  /// only `file` is read element by element. Throws base::UsageError for illegal parameters.
  ///
  /// Generated parts are functions of `seed` (random.h names the streams):
  /// - padding by avg: length[b] = low + to_below(word 0 of index b, S - low + 1), low = max(1, 2*avg - S);
  /// - bigbird: with n = ceil(S/block) key blocks in order 0..n-1, step t = 0..random-1 of query block g
  ///   swaps entry t with entry t + to_below(w, n - t), w = word t%4 of (index g, extra t/4); the first
  ///   `random` entries (all n where random > n) are the blocks drawn.
  Mask(const MaskSpec& spec, std::int64_t batch, std::int64_t seq);

  std::int64_t batch() const;
  std::int64_t seq() const;
  /// Stored entries: 1 (shared by the whole batch) or batch().
  std::int64_t entries() const;
  /// True when query i of batch entry b may attend to key j.
  bool visible(std::int64_t b, std::int64_t i, std::int64_t j) const;
  /// The 64-bit words of row i: bit (j % 64) of word (j / 64). Bits past S are zero.
  std::span<const std::uint64_t> row(std::int64_t entry, std::int64_t i) const;
  /// Number of visible pairs of one entry.
  std::int64_t visible_count(std::int64_t entry) const;
  /// Tokens of batch entry b; seq() where the mask has no padding.
  std::int64_t length(std::int64_t b) const;
  bool has_padding() const;
  /// For each key of an entry: 1 if any query sees it. Keys with 0 must be zeroed when K and V are loaded.
  std::span<const std::uint8_t> key_used(std::int64_t entry) const;

 private:
  /// Sets bits from row-major booleans of S or B*S rows.
  void pack_file(std::span<const std::uint8_t> booleans);
  /// Takes away what causal=1 and padding hide.
  void restrict_rows(bool causal);
  /// Keeps one entry where all are equal.
  void share_equal_entries();
  void find_used_keys();

  std::int64_t batch_, seq_, entries_, words_;
  std::vector<std::uint64_t> bits_;     // [entries][S][words]
  std::vector<std::int64_t> lengths_;   // [batch]; empty without padding
  std::vector<std::uint8_t> key_used_;  // [entries][S]
};

/// Two-level storage: outer tiles of `tile` x `tile` in CSR form, a bitmap per partial tile.
/// Empty tiles are absent. A tile in a column that S cuts (S % tile != 0) is never full: it always
/// carries its bitmap, so that kernels need no separate test for columns past S.
struct MaskTiles {
  std::int64_t tile = 64;      // multiple of 64
  std::int64_t tile_rows = 0;  // ceil(S / tile)
  std::int64_t entries = 1;
  std::vector<std::int32_t> row_begin;  // [entries * tile_rows + 1], offsets into column and bitmap
  std::vector<std::int32_t> column;     // tile column of each stored tile, ascending within a row
  std::vector<std::int32_t> bitmap;     // index of the tile's bitmap, -1: full tile
  std::vector<std::uint64_t> bits;      // [bitmaps][tile][tile / 64]

  static MaskTiles build(const Mask& mask, std::int64_t tile = 64);
};

}  // namespace fusetune::block
