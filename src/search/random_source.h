// The strategies' random numbers: a sequence that is the same with every standard library.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

namespace fusetune::search {

/// splitmix64 (S. Vigna, public domain).
class RandomSource {
 public:
  explicit RandomSource(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// [0, bound), bound > 0 and far below 2^64: its bias is then of no account.
  std::size_t below(std::size_t bound) { return next() % bound; }
  /// [0, 1) in steps of 2^-53.
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  /// Standard normal (Box and Muller, Annals of Mathematical Statistics 29, 1958; one of the two).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - unit()));
    return radius * std::cos(2 * std::numbers::pi * unit());
  }

  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  std::uint64_t state_;
};

}  // namespace fusetune::search
