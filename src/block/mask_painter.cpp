#include "block/mask_painter.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "block/mask_values.h"
#include "block/random.h"

namespace fusetune::block {
namespace {

/// Every `step`-th column of [0, S), one bit row per starting column: comb[r] holds r, r + step, ...
/// O(S) bits are set in total, and painting from a comb is word by word.
std::vector<std::vector<std::uint64_t>> make_combs(std::int64_t step, std::int64_t seq) {
  std::vector<std::vector<std::uint64_t>> combs(std::min(step, seq),
                                                std::vector<std::uint64_t>((seq + 63) / 64));
  for (std::int64_t j = 0; j < seq; ++j) combs[j % step][j / 64] |= std::uint64_t{1} << (j % 64);
  return combs;
}

std::int64_t floor_sqrt(std::int64_t value) {
  auto root = static_cast<std::int64_t>(std::sqrt(static_cast<double>(value)));
  while (root * root > value) --root;
  while ((root + 1) * (root + 1) <= value) ++root;
  return root;
}

/// Draws the key blocks of one query block after another; mask.h gives the exact rule.
class RandomBlocks {
 public:
  RandomBlocks(std::int64_t blocks, std::int64_t count, std::uint64_t seed)
      : order_(blocks), count_(std::min(count, blocks)), seed_(seed) {
    std::iota(order_.begin(), order_.end(), 0);
  }

  std::vector<std::int64_t> draw(std::int64_t query_block) {
    std::vector<std::int64_t> partners(count_);
    std::array<std::uint32_t, 4> words{};
    for (std::int64_t t = 0; t < count_; ++t) {
      if (t % 4 == 0) {
        words = philox(seed_, static_cast<std::uint32_t>(Stream::random_blocks), query_block,
                       static_cast<std::uint32_t>(t / 4));
      }
      partners[t] = t + to_below(words[t % 4], static_cast<std::uint32_t>(std::ssize(order_) - t));
      std::swap(order_[t], order_[partners[t]]);
    }
    std::vector<std::int64_t> drawn(order_.begin(), order_.begin() + count_);
    // Undo the swaps, so that the next draw starts from 0, 1, 2, ... without O(blocks) work.
    for (std::int64_t t = count_ - 1; t >= 0; --t) std::swap(order_[t], order_[partners[t]]);
    return drawn;
  }

 private:
  std::vector<std::int64_t> order_;
  std::int64_t count_;
  std::uint64_t seed_;
};

std::int64_t step_of(const MaskSpec& spec, std::int64_t seq) {
  return spec.parameters.contains("step") ? value_of(spec, "step") : floor_sqrt(seq);
}

Painter strided_painter(std::int64_t step, std::int64_t seq) {
  return [step, combs = make_combs(step, seq)](BitRow row, std::int64_t i) {
    row.set_from(combs[i % step], 0, i + 1);
    row.set(i - step + 1, i + 1);
  };
}

Painter fixed_painter(std::int64_t step, std::int64_t seq) {
  std::vector<std::uint64_t> block_ends((seq + 63) / 64);
  for (std::int64_t j = step - 1; j < seq; j += step) block_ends[j / 64] |= std::uint64_t{1} << (j % 64);
  return [step, block_ends = std::move(block_ends)](BitRow row, std::int64_t i) {
    row.set_from(block_ends, 0, i + 1);
    row.set(i - i % step, i + 1);  // of the blocks that start at i - step + 1 or later, the one that holds i
  };
}

Painter dilated_painter(std::int64_t window, std::int64_t rate, std::int64_t seq) {
  const std::int64_t step = rate + 1;
  const std::int64_t reach = std::min(window, seq) * std::min(step, seq);
  return [step, reach, combs = make_combs(step, seq)](BitRow row, std::int64_t i) {
    row.set_from(combs[i % step], i - reach, i + reach + 1);
  };
}

void paint_longformer(BitRow& row, std::int64_t i, std::int64_t global, std::int64_t window) {
  row.set(0, i < global ? INT64_MAX : global);
  row.set(i - window, i + window + 1);
}

Painter bigbird_painter(const MaskSpec& spec, std::int64_t seq) {
  const std::int64_t global = value_of(spec, "global"), window = value_of(spec, "window");
  const std::int64_t block = value_of(spec, "block");
  RandomBlocks blocks((seq + block - 1) / block, value_of(spec, "random"),
                      static_cast<std::uint64_t>(value_of(spec, "seed")));
  return [=, drawn = std::vector<std::int64_t>()](BitRow row, std::int64_t i) mutable {
    if (i % block == 0) drawn = blocks.draw(i / block);
    paint_longformer(row, i, global, window);
    for (const std::int64_t key_block : drawn) row.set(key_block * block, (key_block + 1) * block);
  };
}

}  // namespace

Painter make_painter(const MaskSpec& spec, std::int64_t seq) {
  if (spec.pattern == "full" || spec.pattern == "padding") {
    return [seq](BitRow row, std::int64_t) { row.set(0, seq); };
  }
  if (spec.pattern == "causal") return [](BitRow row, std::int64_t i) { row.set(0, i + 1); };
  if (spec.pattern == "strided") return strided_painter(step_of(spec, seq), seq);
  if (spec.pattern == "fixed") return fixed_painter(step_of(spec, seq), seq);
  if (spec.pattern == "sliding") {
    return [window = value_of(spec, "window")](BitRow row, std::int64_t i) {
      row.set(i - window, i + window + 1);
    };
  }
  if (spec.pattern == "dilated")
    return dilated_painter(value_of(spec, "window"), value_of(spec, "rate"), seq);
  if (spec.pattern == "longformer") {
    return [global = value_of(spec, "global"), window = value_of(spec, "window")](
               BitRow row, std::int64_t i) { paint_longformer(row, i, global, window); };
  }
  if (spec.pattern == "bigbird") return bigbird_painter(spec, seq);
  if (spec.pattern == "block_diagonal") {
    return [block = value_of(spec, "block")](BitRow row, std::int64_t i) {
      row.set(i - i % block, i - i % block + block);
    };
  }
  throw base::InternalError(fmt::format("mask pattern '{}' has no painter", spec.pattern));
}

}  // namespace fusetune::block
