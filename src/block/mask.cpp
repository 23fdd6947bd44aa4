#include "block/mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "block/mask_painter.h"
#include "block/mask_values.h"
#include "block/npy.h"
#include "block/random.h"

namespace fusetune::block {
namespace {

std::vector<std::int64_t> listed_lengths(const std::string& text, std::int64_t batch, std::int64_t seq) {
  std::vector<std::int64_t> lengths;
  for (const std::string& length : base::split(text, '/')) lengths.push_back(number_of(length));
  if (std::ssize(lengths) != batch) {
    fail_mask("padding", fmt::format("{} lengths for a batch of {}", lengths.size(), batch));
  }
  for (const std::int64_t length : lengths) {
    if (length > seq)
      fail_mask("padding", fmt::format("length {} exceeds the sequence length {}", length, seq));
  }
  return lengths;
}

std::vector<std::int64_t> drawn_lengths(std::int64_t average, std::uint64_t seed, std::int64_t batch,
                                        std::int64_t seq) {
  if (2 * average < seq || average > seq) {
    fail_mask("padding", fmt::format("average length {}: expected from {} to {} for a sequence length of {}",
                                     average, (seq + 1) / 2, seq, seq));
  }
  const std::int64_t low = std::max<std::int64_t>(1, 2 * average - seq);
  std::vector<std::int64_t> lengths(batch);
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::uint32_t word = philox(seed, static_cast<std::uint32_t>(Stream::padding_lengths), b)[0];
    lengths[b] = low + to_below(word, static_cast<std::uint32_t>(seq - low + 1));
  }
  return lengths;
}

/// Empty where nothing is padded.
std::vector<std::int64_t> padding_lengths(const MaskSpec& spec, std::int64_t batch, std::int64_t seq) {
  std::vector<std::int64_t> lengths;
  if (const std::string* listed = find_length_parameter(spec, "lengths")) {
    lengths = listed_lengths(*listed, batch, seq);
  } else if (const std::string* average = find_length_parameter(spec, "avg")) {
    lengths =
        drawn_lengths(number_of(*average), static_cast<std::uint64_t>(value_of(spec, "seed")), batch, seq);
  }
  if (std::all_of(lengths.begin(), lengths.end(), [seq](std::int64_t length) { return length == seq; }))
    lengths.clear();
  return lengths;
}

/// The array of a `file` mask: [S,S] or [B,S,S] booleans.
NpyArray<std::uint8_t> read_file_mask(const MaskSpec& spec, std::int64_t batch, std::int64_t seq) {
  const std::string& path = spec.parameters.at("path");
  if (mask_file_digest(path) != spec.parameters.at("digest")) {
    fail_mask("file",
              fmt::format("{} has changed: its digest is no longer {}", path, spec.parameters.at("digest")));
  }
  NpyArray<std::uint8_t> array = read_npy_booleans(path);
  const std::vector<std::int64_t> shared{seq, seq}, each{batch, seq, seq};
  if (array.shape != shared && array.shape != each) {
    fail_mask("file",
              fmt::format("{} has shape ({}); expected ({}) or ({})", path, fmt::join(array.shape, ", "),
                          fmt::join(shared, ", "), fmt::join(each, ", ")));
  }
  return array;
}

bool all_equal(std::span<const std::int64_t> values) {
  return std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
}

}  // namespace

Mask::Mask(const MaskSpec& spec, std::int64_t batch, std::int64_t seq)
    : batch_(batch), seq_(seq), entries_(1), words_((seq + 63) / 64) {
  if (batch < 1 || seq < 1)
    fail_mask(spec.pattern, fmt::format("batch {} and sequence length {} must be positive", batch, seq));
  const MaskSpec canonical = spec.canonical();
  lengths_ = padding_lengths(canonical, batch, seq);

  std::optional<NpyArray<std::uint8_t>> file;
  if (canonical.pattern == "file") file = read_file_mask(canonical, batch, seq);
  const bool one_per_entry = (file && file->shape.size() == 3) || !all_equal(lengths_);
  if (one_per_entry) entries_ = batch;

  // A pattern is painted once and copied; what differs between entries is applied to the copies.
  const std::int64_t entry_words = seq_ * words_;
  bits_.resize(entries_ * entry_words);
  if (file) {
    pack_file(file->values);
  } else {
    const Painter paint = make_painter(canonical, seq);
    for (std::int64_t i = 0; i < seq_; ++i) paint(BitRow(bits_.data() + i * words_, seq_), i);
    for (std::int64_t e = 1; e < entries_; ++e)
      std::copy_n(bits_.begin(), entry_words, bits_.begin() + e * entry_words);
  }
  restrict_rows(canonical.parameters.contains("causal"));
  share_equal_entries();
  find_used_keys();
}

void Mask::pack_file(std::span<const std::uint8_t> booleans) {
  const std::int64_t stored = std::ssize(booleans) / seq_;  // rows in the file: S or B*S
  for (std::int64_t r = 0; r < entries_ * seq_; ++r) {
    const std::uint8_t* source = booleans.data() + (r % stored) * seq_;
    std::uint64_t* words = bits_.data() + r * words_;
    for (std::int64_t j = 0; j < seq_; ++j) words[j / 64] |= std::uint64_t{source[j]} << (j % 64);
  }
}

void Mask::restrict_rows(bool causal) {
  for (std::int64_t e = 0; e < entries_; ++e) {
    const std::int64_t tokens = length(e);
    if (!causal && tokens == seq_) continue;
    for (std::int64_t i = 0; i < seq_; ++i) {
      const std::int64_t end = i >= tokens ? 0 : std::min(tokens, causal ? i + 1 : seq_);
      BitRow(bits_.data() + (e * seq_ + i) * words_, seq_).clear_from(end);
    }
  }
}

void Mask::share_equal_entries() {
  const std::int64_t entry_words = seq_ * words_;
  for (std::int64_t e = 1; e < entries_; ++e) {
    if (!std::equal(bits_.begin(), bits_.begin() + entry_words, bits_.begin() + e * entry_words)) return;
  }
  bits_.resize(entry_words);
  entries_ = 1;
}

void Mask::find_used_keys() {
  key_used_.assign(entries_ * seq_, 0);
  std::vector<std::uint64_t> any(words_);
  for (std::int64_t e = 0; e < entries_; ++e) {
    std::fill(any.begin(), any.end(), 0);
    for (std::int64_t i = 0; i < seq_; ++i) {
      const std::span<const std::uint64_t> words = row(e, i);
      for (std::int64_t w = 0; w < words_; ++w) any[w] |= words[w];
    }
    for (std::int64_t j = 0; j < seq_; ++j) key_used_[e * seq_ + j] = (any[j / 64] >> (j % 64)) & 1;
  }
}

std::int64_t Mask::batch() const { return batch_; }
std::int64_t Mask::seq() const { return seq_; }
std::int64_t Mask::entries() const { return entries_; }

bool Mask::visible(std::int64_t b, std::int64_t i, std::int64_t j) const {
  const std::int64_t entry = entries_ == 1 ? 0 : b;
  return (bits_[(entry * seq_ + i) * words_ + j / 64] >> (j % 64)) & 1;
}

std::span<const std::uint64_t> Mask::row(std::int64_t entry, std::int64_t i) const {
  return {bits_.data() + (entry * seq_ + i) * words_, static_cast<std::size_t>(words_)};
}

std::int64_t Mask::visible_count(std::int64_t entry) const {
  const auto begin = bits_.begin() + entry * seq_ * words_;
  return std::accumulate(begin, begin + seq_ * words_, std::int64_t{0},
                         [](std::int64_t sum, std::uint64_t word) { return sum + std::popcount(word); });
}

std::int64_t Mask::length(std::int64_t b) const { return lengths_.empty() ? seq_ : lengths_[b]; }
bool Mask::has_padding() const { return !lengths_.empty(); }

std::span<const std::uint8_t> Mask::key_used(std::int64_t entry) const {
  return {key_used_.data() + entry * seq_, static_cast<std::size_t>(seq_)};
}

}  // namespace fusetune::block
