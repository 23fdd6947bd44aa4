// The 16-bit formats of platform_simt.h, bit for bit, against definitions written out in double precision.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/simt/test_support.h"

namespace fusetune::backend::simt {
namespace {

using testing::compile;
using testing::message_of;

const std::string kKernels = R"(
FT_KERNEL(widen, 256) {
  const u16* in = static_cast<const u16*>(args.tensor[0]);
  float* out = static_cast<float*>(args.tensor[1]);
  const int n = 65536;
  for (int i = block_index() * 256 + thread_index(); i < n; i += grid_blocks() * 256) {
    out[i] = to_float(f16{in[i]});
    out[n + i] = software::half_to_float(in[i]);
    out[2 * n + i] = to_float(bf16{in[i]});
  }
}
FT_KERNEL(narrow, 256) {
  const float* in = static_cast<const float*>(args.tensor[0]);
  u32* out = static_cast<u32*>(args.tensor[1]);
  for (int i = block_index() * 256 + thread_index(); i < args.batch; i += grid_blocks() * 256) {
    out[3 * i] = from_float<f16>(in[i]).bits | u32(from_float<bf16>(in[i]).bits) << 16;
    out[3 * i + 1] = in[i] == in[i] ? software::float_to_half(in[i]) : 0x7fff;
    out[3 * i + 2] = pack_pair<f16>(in[i], 1.0f) ^ pack_pair<bf16>(0.0f, in[i]);
  }
}
)";

std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

float float_of(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

/// The value of a format with `exponent_bits` and `mantissa_bits`, from its definition.
double value_of(int bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
  const double sign = bits >> 15 != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

/// Nearest, ties to even, by looking at the two neighbours.
int nearest(float x, int exponent_bits, int mantissa_bits) {
  if (std::isnan(x)) return 0x7fff;
  const int sign = std::signbit(x) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(x));
  const int infinity = ((1 << exponent_bits) - 1) << mantissa_bits;
  int below = 0;  // the largest value that is not above
  for (int step = infinity; step > 0; step /= 2) {
    while (below + step <= infinity - 1 &&
           value_of(below + step, exponent_bits, mantissa_bits) <= magnitude) {
      below += step;
    }
  }
  const double low = value_of(below, exponent_bits, mantissa_bits);
  // Beyond the largest value, rounding goes on as if the exponent range did.
  const double unit = below == 0 ? value_of(1, exponent_bits, mantissa_bits)
                                 : low - value_of(below - 1, exponent_bits, mantissa_bits);
  const double high = below + 1 == infinity ? low + unit : value_of(below + 1, exponent_bits, mantissa_bits);
  const double down = magnitude - low, up = high - magnitude;
  const bool take_high = up < down || (up == down && below % 2 != 0);
  return sign | (take_high ? below + 1 : below);
}

/// Floats at and around everything that matters: each half, the middle between neighbours, one bit beside.
std::vector<float> interesting_floats() {
  std::vector<float> floats;
  const auto add_around = [&floats](std::uint32_t bits) {
    for (const std::uint32_t neighbour : {bits - 1, bits, bits + 1}) {
      floats.push_back(float_of(neighbour));
      floats.push_back(float_of(neighbour ^ 0x80000000u));
    }
  };
  for (std::uint32_t half = 0; half < 0x7c00; half += 3) {
    const auto low = static_cast<float>(value_of(static_cast<int>(half), 5, 10));
    const auto high =
        static_cast<float>(value_of(static_cast<int>(half + 1 == 0x7c00 ? half : half + 1), 5, 10));
    add_around(bits_of(low));
    add_around(bits_of((low + high) / 2));
  }
  for (std::uint32_t top = 0; top < 0x7f80; top += 5) {
    add_around(top << 16);
    add_around(top << 16 | 0x8000);
  }
  for (const float x : {65504.0f, 65519.0f, 65520.0f, 65536.0f, INFINITY}) add_around(bits_of(x));
  floats.push_back(std::numeric_limits<float>::quiet_NaN());
  floats.push_back(-std::numeric_limits<float>::quiet_NaN());
  std::uint32_t random = 12345;
  for (int i = 0; i < 50000; ++i) floats.push_back(float_of(random = random * 1664525u + 1013904223u));
  return floats;
}

class Conversions : public ::testing::Test {
 protected:
  void SetUp() override {
    FT_SKIP_WITHOUT_EMULATOR();
    library_ = compile(kKernels, Mode::fast);
  }
  std::shared_ptr<const KernelLibrary> library_;
  DeviceMemory memory_;
  ft_gpu_args args_ = {};
};

TEST_F(Conversions, WidensAllHalves) {
  constexpr int n = 65536;
  auto* in = memory_.allocate_array<std::uint16_t>(n, "in", Access::read_only);
  for (int i = 0; i < n; ++i) in[i] = static_cast<std::uint16_t>(i);
  float* out = memory_.allocate_array<float>(3 * n, "out");
  args_.tensor[0] = in;
  args_.tensor[1] = out;
  ASSERT_EQ(message_of(launch(library_->kernel("widen"), args_, memory_, {})), "no finding");
  for (int i = 0; i < n; ++i) {
    const double half = value_of(i, 5, 10);
    if (std::isnan(half)) {
      ASSERT_TRUE(std::isnan(out[i])) << i;
    } else {
      ASSERT_EQ(bits_of(out[i]), bits_of(static_cast<float>(half))) << i;
    }
    ASSERT_EQ(bits_of(out[n + i]), bits_of(out[i])) << i;  // software, NaNs too
    ASSERT_EQ(bits_of(out[2 * n + i]), static_cast<std::uint32_t>(i) << 16) << i;
  }
}

TEST_F(Conversions, RoundsFloatsToNearestEven) {
  const std::vector<float> floats = interesting_floats();
  const int n = static_cast<int>(floats.size());
  float* in = memory_.allocate_array<float>(n, "in", Access::read_only);
  std::copy(floats.begin(), floats.end(), in);
  auto* out = memory_.allocate_array<std::uint32_t>(3 * n, "out");
  args_.tensor[0] = in;
  args_.tensor[1] = out;
  args_.batch = n;
  ASSERT_EQ(message_of(launch(library_->kernel("narrow"), args_, memory_, {})), "no finding");
  for (int i = 0; i < n; ++i) {
    const std::uint32_t f16 = static_cast<std::uint32_t>(nearest(in[i], 5, 10));
    const std::uint32_t bf16 = static_cast<std::uint32_t>(nearest(in[i], 8, 7));
    ASSERT_EQ(out[3 * i] & 0xffff, f16) << std::hexfloat << in[i];
    ASSERT_EQ(out[3 * i] >> 16, bf16) << std::hexfloat << in[i];
    ASSERT_EQ(out[3 * i + 1], f16) << std::hexfloat << in[i];
    ASSERT_EQ(out[3 * i + 2], (f16 | 0x3c000000u) ^ (bf16 << 16)) << std::hexfloat << in[i];
  }
}

}  // namespace
}  // namespace fusetune::backend::simt
