// Inputs that are nearly right: valid ones, changed a little.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace fusetune::fuzz {

/// The same seed and corpus give the same inputs, in the same order, everywhere.
class Mutator {
 public:
  /// `corpus` holds at least one input; of them, those that are empty are fine.
  Mutator(std::vector<std::string> corpus, std::uint64_t seed) : corpus_(std::move(corpus)), random_(seed) {}

  /// One of the corpus after one to six changes, at most `longest` bytes.
  std::string next(std::size_t longest);

 private:
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(random_() % count); }
  /// [begin, begin + size) of `text`; short ones are as likely as long ones.
  std::pair<std::size_t, std::size_t> piece_of(const std::string& text);
  void change(std::string& text);
  void flip_bit(std::string& text);
  void cut(std::string& text);
  void splice(std::string& text);
  void repeat(std::string& text);
  void replace_number(std::string& text);
  void replace_bytes(std::string& text);

  std::vector<std::string> corpus_;
  std::mt19937_64 random_;
};

}  // namespace fusetune::fuzz
