#include "mutator.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace fusetune::fuzz {
namespace {

/// Where readers of numbers end, and what is hardly a number.
constexpr std::array<std::string_view, 28> kNumbers{"0",
                                                    "-0",
                                                    "1",
                                                    "-1",
                                                    "00",
                                                    "007",
                                                    "127",
                                                    "128",
                                                    "255",
                                                    "256",
                                                    "65535",
                                                    "65536",
                                                    "1000000",
                                                    "2147483647",
                                                    "2147483648",
                                                    "4294967295",
                                                    "4294967296",
                                                    "-2147483649",
                                                    "9223372036854775807",
                                                    "9223372036854775808",
                                                    "-9223372036854775808",
                                                    "18446744073709551615",
                                                    "18446744073709551616",
                                                    "1e308",
                                                    "1e-320",
                                                    "0.1",
                                                    "nan",
                                                    "-inf"};

constexpr std::array<std::uint64_t, 9> kWords{0,          1,          0x7f,       0xff,      0xffff,
                                              0x7fffffff, 0x80000000, 0xffffffff, UINT64_MAX};

/// A repetition makes deep nesting and long lists likely.
constexpr std::size_t kMostRepeats = 200;

bool is_digit(char c) { return '0' <= c && c <= '9'; }

}  // namespace

std::string Mutator::next(std::size_t longest) {
  constexpr std::size_t kMostChanges = 6;
  std::string text = corpus_[below(corpus_.size())];
  for (std::size_t left = 1 + below(kMostChanges); left > 0; --left) change(text);
  text.resize(std::min(text.size(), longest));
  return text;
}

std::pair<std::size_t, std::size_t> Mutator::piece_of(const std::string& text) {
  if (text.empty()) return {0, 0};
  const std::size_t begin = below(text.size()), rest = text.size() - begin;
  constexpr std::array<std::size_t, 4> kSizes{4, 16, 64, SIZE_MAX};
  return {begin, 1 + below(std::min(rest, kSizes[below(kSizes.size())]))};
}

void Mutator::change(std::string& text) {
  using Change = void (Mutator::*)(std::string&);
  constexpr std::array<Change, 6> kChanges{&Mutator::flip_bit,       &Mutator::cut,
                                           &Mutator::splice,         &Mutator::repeat,
                                           &Mutator::replace_number, &Mutator::replace_bytes};
  (this->*kChanges[below(kChanges.size())])(text);
}

void Mutator::flip_bit(std::string& text) {
  if (text.empty()) return;
  char& c = text[below(text.size())];
  c = static_cast<char>(static_cast<unsigned char>(c) ^ (1U << below(8)));
}

void Mutator::cut(std::string& text) {
  const auto [begin, size] = piece_of(text);
  if (below(4) == 0)
    text.resize(begin);
  else
    text.erase(begin, size);
}

void Mutator::splice(std::string& text) {
  const std::string& other = corpus_[below(corpus_.size())];
  const auto [from, size] = piece_of(other);
  text.insert(below(text.size() + 1), other, from, size);
}

void Mutator::repeat(std::string& text) {
  const auto [begin, size] = piece_of(text);
  const std::string piece = text.substr(begin, size);
  std::string more;
  for (std::size_t left = below(2) == 0 ? 1 : 1 + below(kMostRepeats); left > 0; --left) more += piece;
  text.insert(begin, more);
}

void Mutator::replace_number(std::string& text) {
  if (text.empty()) return;
  const auto start = text.begin() + static_cast<std::ptrdiff_t>(below(text.size()));
  auto digit = std::find_if(start, text.end(), is_digit);
  if (digit == text.end()) digit = std::find_if(text.begin(), text.end(), is_digit);
  const auto end = std::find_if_not(digit, text.end(), is_digit);
  text.replace(digit, end, kNumbers[below(kNumbers.size())]);
}

void Mutator::replace_bytes(std::string& text) {
  constexpr std::array<std::size_t, 4> kSizes{1, 2, 4, 8};
  const std::size_t size = std::min(kSizes[below(kSizes.size())], text.size());
  const std::uint64_t word = kWords[below(kWords.size())];
  const std::size_t at = below(text.size() - size + 1);
  for (std::size_t i = 0; i < size; ++i) text[at + i] = static_cast<char>((word >> (8 * i)) & 0xff);
}

}  // namespace fusetune::fuzz
