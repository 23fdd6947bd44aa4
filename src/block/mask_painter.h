// Painting the rows of a mask's bitmap, word by word.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "block/mask.h"

namespace fusetune::block {

constexpr std::uint64_t kAllBits = ~std::uint64_t{0};

/// One row of the bitmap. Columns outside [0, S) are clipped.
class BitRow {
 public:
  BitRow(std::uint64_t* words, std::int64_t seq) : words_(words), seq_(seq) {}

  /// Sets columns [begin, end).
  void set(std::int64_t begin, std::int64_t end) {
    visit(begin, end, [this](std::int64_t word, std::uint64_t bits) { words_[word] |= bits; });
  }
  /// Sets those of columns [begin, end) that are set in `other`.
  void set_from(const std::vector<std::uint64_t>& other, std::int64_t begin, std::int64_t end) {
    visit(begin, end, [&](std::int64_t word, std::uint64_t bits) { words_[word] |= bits & other[word]; });
  }
  /// Clears columns [begin, S).
  void clear_from(std::int64_t begin) {
    visit(begin, seq_, [this](std::int64_t word, std::uint64_t bits) { words_[word] &= ~bits; });
  }

 private:
  template <typename Action>
  void visit(std::int64_t begin, std::int64_t end, Action action) {
    begin = std::max<std::int64_t>(begin, 0);
    end = std::min(end, seq_);
    for (std::int64_t word = begin / 64; word * 64 < end && begin < end; ++word) {
      const std::int64_t low = std::max<std::int64_t>(begin - word * 64, 0);
      const std::int64_t high = std::min<std::int64_t>(end - word * 64, 64);
      action(word, (kAllBits << low) & (kAllBits >> (64 - high)));
    }
  }

  std::uint64_t* words_;
  std::int64_t seq_;
};

/// Paints the visible columns of query row i. Called with i = 0, 1, ... in order.
using Painter = std::function<void(BitRow row, std::int64_t i)>;

/// The painter of a canonical spec's pattern (any but `file`) for sequence length `seq`, without causal=1
/// and padding, which Mask applies afterwards.
Painter make_painter(const MaskSpec& spec, std::int64_t seq);

}  // namespace fusetune::block
