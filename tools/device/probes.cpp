#include "probes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "block/rounding.h"
#include "records.h"

namespace fusetune::device_check {
namespace {

using Words = std::vector<std::uint32_t>;
using Kind = ProbeBound::Kind;

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }
float value(std::uint32_t word) { return std::bit_cast<float>(word); }

// ------------------------------------------------------------------------------------------- what goes in

Probe to_float() {
  constexpr int kHalves = 1 << 16;
  return {.name = "to_float",
          .file = "numbers.cu",
          .symbol = "probe_to_float",
          .out_words = 2 * kHalves,
          .count = kHalves,
          .bound = {Kind::exact_or_nan}};
}

/// Every upper half of a float32, each with lower halves around the ties of both formats.
Probe from_float() {
  Words in;
  for (const std::uint32_t lower : {0x0000u, 0x0fffu, 0x1000u, 0x1001u, 0x3000u, 0x7fffu, 0x8000u, 0x8001u})
    for (std::uint32_t upper = 0; upper < 1u << 16; ++upper) in.push_back(upper << 16 | lower);
  const int count = static_cast<int>(in.size());
  return {.name = "from_float and pack_pair",
          .file = "numbers.cu",
          .symbol = "probe_from_float",
          .in = std::move(in),
          .out_words = 3 * count,
          .count = count};
}

Probe exp2() {
  Words in;
  for (int i = 0; i < 1 << 16; ++i) in.push_back(bits(static_cast<float>(-160.0 + 300.0 * i / (1 << 16))));
  for (int i = 0; i < 1 << 12; ++i) in.push_back(bits(std::ldexp(1.0f, -i % 30) * (i % 2 == 0 ? 1 : -1)));
  for (const float special : {0.0f, -0.0f, 1.0f, -126.0f, 127.0f, 128.0f, -150.0f})
    in.push_back(bits(special));
  for (const std::uint32_t special : {0x7f800000u, 0xff800000u, 0x7fc00000u, 0x00000001u, 0x80000001u})
    in.push_back(special);
  const int count = static_cast<int>(in.size());
  return {.name = "exp2_fast",
          .file = "numbers.cu",
          .symbol = "probe_exp2",
          .in = std::move(in),
          .out_words = count,
          .count = count,
          .bound = {Kind::ulp, 2}};
}

Probe square_root() {
  Words in;
  for (std::uint32_t i = 0; i < 1u << 16; ++i) in.push_back(i * 32749u & 0x7fffffffu);
  for (const std::uint32_t special : {0u, 0x80000000u, 0x7f800000u, 0xff800000u, 0xbf800000u, 1u})
    in.push_back(special);
  const int count = static_cast<int>(in.size());
  return {.name = "square_root",
          .file = "numbers.cu",
          .symbol = "probe_square_root",
          .in = std::move(in),
          .out_words = count,
          .count = count,
          .bound = {Kind::exact_or_nan}};
}

Probe shuffles() {
  Words in;
  for (int lane = 0; lane < 32; ++lane) in.push_back(bits(1.0f + static_cast<float>(lane) / 64));
  return {.name = "shuffle_xor and shuffle",
          .file = "warp.cu",
          .symbol = "probe_shuffles",
          .in = std::move(in),
          .out_words = 3 * 32 * 32,
          .count = 1};
}

/// `next`: an element; `sum`: one of d.
Probe matrix_product(const std::string& name, block::Dtype dtype, const std::function<float()>& next,
                     const std::function<float()>& sum, const ProbeBound& bound) {
  constexpr int kProducts = 128;
  const auto half = [&]() -> std::uint32_t {
    return dtype == block::Dtype::f16 ? block::to_f16(next()) : block::to_bf16(next());
  };
  Words in;
  for (int lane = 0; lane < kProducts * 32; ++lane) {
    for (int fragment = 0; fragment < 6; ++fragment) {
      const std::uint32_t low = half();
      in.push_back(low | half() << 16);
    }
    for (int e = 0; e < 4; ++e) in.push_back(bits(sum()));
  }
  return {.name = name,
          .file = "warp.cu",
          .symbol = dtype == block::Dtype::f16 ? "probe_mma_f16" : "probe_mma_bf16",
          .in = std::move(in),
          .out_words = kProducts * 32 * 4,
          .count = kProducts,
          .bound = bound};
}

void add_matrix_products(std::vector<Probe>& probes) {
  std::mt19937 random(1);
  const auto integer = [&] { return static_cast<float>(static_cast<int>(random() % 33) - 16); };
  const auto fraction = [&] { return static_cast<float>(random()) / 2147483648.0f - 1; };
  // Sixteen products of at most 1 and a sum of at most 1. Tensor cores cut off where float32 would round,
  // below the unit 2^-19 of a sum of 16, a few times a product; a wrong element would be far beyond this.
  constexpr double kSumError = 1.0 / (1 << 15);
  for (const block::Dtype dtype : {block::Dtype::f16, block::Dtype::bf16}) {
    const std::string suffix = " " + std::string(block::name(dtype));
    probes.push_back(matrix_product("mma_16x8x16 integers" + suffix, dtype, integer, integer, {Kind::exact}));
    probes.push_back(matrix_product("mma_16x8x16 fractions" + suffix, dtype, fraction, fraction,
                                    {Kind::absolute, kSumError}));
  }
}

Probe ldmatrix() {
  constexpr int kRounds = 64, kWords = 2048;
  std::mt19937 random(2);
  Probe probe{.name = "ldmatrix_x4 and ldmatrix_x4_transposed",
              .file = "shared.cu",
              .symbol = "probe_ldmatrix",
              .out_words = kRounds * 32 * 8,
              .count = kRounds,
              .shared_bytes = 4 * kWords};
  for (std::uint32_t i = 0; i < kWords; ++i) probe.in.push_back(2 * i | (2 * i + 1) << 16);
  for (std::uint32_t lane = 0; lane < kRounds * 32; ++lane)
    probe.more.push_back(lane < 32 ? 8 * lane : static_cast<std::uint32_t>(random() % 512 * 8));
  return probe;
}

Probe copy_async(int bytes) {
  constexpr int kRounds = 32, kWords = 4096, kCopies = kRounds * 3 * 32;
  std::mt19937 random(3);
  const auto words = static_cast<std::uint32_t>(bytes / 4);
  Probe probe{.name = "copy_async<" + std::to_string(bytes) + ">, commit and wait",
              .file = "shared.cu",
              .symbol = "probe_copy_async_" + std::to_string(bytes),
              .out_words = kCopies * bytes / 4,
              .count = kRounds,
              .shared_bytes = 3 * 32 * bytes};
  for (int i = 0; i < kWords; ++i) probe.in.push_back(static_cast<std::uint32_t>(random()));
  for (int i = 0; i < kCopies; ++i) {
    const auto from = static_cast<std::uint32_t>(random() % (kWords / words) * words);
    probe.more.push_back(random() % 5 == 0 ? 0xffffffffu : from);
  }
  return probe;
}

/// One word more than the 48 KiB that a block has without opting in.
Probe large_shared() {
  constexpr int kWords = (48 << 10) / 4 + 1;
  std::mt19937 random(4);
  Probe probe{.name = "more than 48 KiB of shared memory",
              .file = "shared.cu",
              .symbol = "probe_large_shared",
              .out_words = kWords,
              .count = kWords,
              .shared_bytes = 4 * kWords};
  for (int i = 0; i < kWords; ++i) probe.in.push_back(static_cast<std::uint32_t>(random()));
  return probe;
}

// --------------------------------------------------------------------------------------------- comparison

/// Distance of two finite floats of the same sign in representable numbers; subnormal ones are zeros.
double ulps(float got, float want) {
  const auto place = [](float x) {
    if (std::abs(x) < std::numeric_limits<float>::min()) return std::int64_t{0x007fffff};
    return std::int64_t{bits(std::abs(x))};
  };
  if (std::signbit(got) != std::signbit(want) && got != want) return std::numeric_limits<double>::infinity();
  return static_cast<double>(std::abs(place(got) - place(want)));
}

/// 0 where both are as good as equal; infinity for what no bound allows.
double difference(Kind kind, std::uint32_t got, std::uint32_t want) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (got == want) return 0;
  if (kind == Kind::exact) return kInfinity;
  const float x = value(got), y = value(want);
  if (std::isnan(x) && std::isnan(y)) return 0;
  if (kind == Kind::exact_or_nan || !std::isfinite(x) || !std::isfinite(y)) return kInfinity;
  return kind == Kind::ulp ? ulps(x, y) : std::abs(double{x} - double{y});
}

}  // namespace

std::vector<Probe> all_probes() {
  std::vector<Probe> probes = {to_float(), from_float(), exp2(), square_root(), shuffles()};
  add_matrix_products(probes);
  probes.push_back(ldmatrix());
  for (const int bytes : {4, 8, 16}) probes.push_back(copy_async(bytes));
  probes.push_back(large_shared());
  return probes;
}

nlohmann::ordered_json compare_answers(const Probe& probe, const Words& got, const Words& want) {
  constexpr std::size_t kShown = 5;
  nlohmann::ordered_json shown = nlohmann::ordered_json::array();
  std::int64_t wrong = 0, other_bits = 0;
  double largest = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double error = difference(probe.bound.kind, got[i], want[i]);
    other_bits += got[i] != want[i];
    if (std::isfinite(error)) largest = std::max(largest, error);
    if (error <= probe.bound.limit) continue;
    ++wrong;
    if (shown.size() < kShown) shown.push_back({{"index", i}, {"got", got[i]}, {"want", want[i]}});
  }
  nlohmann::ordered_json result = {
      {"ok", wrong == 0}, {"words", want.size()}, {"wrong", wrong}, {"other_bits", other_bits}};
  if (probe.bound.kind == Kind::ulp) result["max_ulp"] = largest;
  if (probe.bound.kind == Kind::absolute) result["max_error"] = rounded(largest);
  if (wrong > 0) result["first_wrong"] = shown;
  return result;
}

}  // namespace fusetune::device_check
