// Generated kernels against the float64 oracle: every variant, odd sizes, every mask pattern, random plans.
//
// Sizes are constants of a kernel and masks are not, so that all masks of a problem share the kernels that
// one cache directory keeps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "block/npy.h"
#include "cli/program.h"

namespace fusetune::cli_test {
namespace {

using testing::HasSubstr;

struct Size {
  int batch, seq, heads, head_size, ffn;  // ffn 0: four times hidden
};

std::string options_of(const Size& size) {
  std::string text = " --batch " + std::to_string(size.batch) + " --seq " + std::to_string(size.seq) +
                     " --heads " + std::to_string(size.heads) + " --head-size " +
                     std::to_string(size.head_size) + " --layers 1";
  if (size.ffn > 0) text += " --ffn " + std::to_string(size.ffn);
  return text;
}

void PrintTo(const Size& size, std::ostream* out) { *out << options_of(size); }

std::string name_of(const Size& size) {
  return "B" + std::to_string(size.batch) + "S" + std::to_string(size.seq) + "H" +
         std::to_string(size.heads) + "W" + std::to_string(size.head_size);
}

/// verify of `what` (masks, variants); every kernel must be right.
void expect_right(const std::string& what, const std::string& options, int at_least,
                  const std::filesystem::path& directory = {}) {
  const Outcome run =
      shell("FUSETUNE_CACHE_DIR='" KERNEL_TEST_CACHE "' \"$FUSETUNE\" verify " + what + options, directory);
  EXPECT_EQ(run.exit_code, 0) << what << options << "\n" << run.out << run.err;
  EXPECT_THAT(run.err, HasSubstr(" 0 failed"));
  int right = 0;
  std::istringstream lines(run.out);
  for (std::string line; std::getline(lines, line);) right += line.starts_with("ok ");
  EXPECT_GE(right, at_least) << what << options << "\n" << run.out;
}

bool has_avx512() {
  std::ifstream file("/proc/cpuinfo");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  return text.find("avx512vl") != std::string::npos && text.find("avx512dq") != std::string::npos;
}

constexpr Size kSizes[] = {{1, 65, 2, 63, 0}, {2, 33, 3, 40, 0}, {1, 128, 12, 32, 0}};
/// Lengths from half of the sequence on, three quarters on average.
std::string padding(const Size& size) { return "padding_avg=" + std::to_string((3 * size.seq + 3) / 4); }

class EveryVariant : public testing::TestWithParam<std::tuple<Size, std::string>> {};

TEST_P(EveryVariant, IsRightUnderEveryMask) {
  const auto& [size, isa] = GetParam();
  if (isa == "avx2" && !has_avx512()) GTEST_SKIP() << "avx2 is the best instruction set here: see `best`";
  for (const std::string& mask :
       {std::string("full"), std::string("causal"), std::string("longformer:global=5,window=7"),
        "sliding:window=9," + padding(size)})
    expect_right("--all-segments",
                 options_of(size) + " --mask " + mask + (isa == "best" ? "" : " --isa " + isa), 147);
}

std::string name_of_case(const testing::TestParamInfo<EveryVariant::ParamType>& parameters) {
  return name_of(std::get<0>(parameters.param)) + "_" + std::get<1>(parameters.param);
}
INSTANTIATE_TEST_SUITE_P(Kernels, EveryVariant,
                         testing::Combine(testing::ValuesIn(kSizes), testing::Values("best", "generic")),
                         name_of_case);
// The other sizes are run with AVX2 where it is the best.
INSTANTIATE_TEST_SUITE_P(Avx2Kernels, EveryVariant,
                         testing::Combine(testing::Values(kSizes[1]), testing::Values("avx2")), name_of_case);

/// What GCC takes of vector extensions and templates is not all that clang takes.
TEST(Clang, CompilesEveryVariant) {
  const Outcome found = shell("command -v clang++ || command -v clang++-16 || command -v clang++-14");
  if (found.exit_code != 0) GTEST_SKIP() << "clang++ is not installed";
  const std::string compiler = found.out.substr(0, found.out.find('\n'));
  for (const char* isa : {"", " --isa generic"})
    expect_right("--all-segments", options_of(kSizes[1]) + isa + " --cxx " + compiler, 147);
}

/// One variant of each kind of loop, and the unfused plan.
const std::string kSample = "10922 48996 --variant '[0-14]' '[0-14]*' '[2-6]' '[1-6]*' '[6-9]' '[7-14]' ";

/// Sizes around vectors, register tiles and mask tiles; rows of 2880; a head of one column.
class OddSizes : public testing::TestWithParam<Size> {};

TEST_P(OddSizes, AreRight) {
  for (const std::string& mask : {std::string("full"), "causal:" + padding(GetParam())})
    expect_right(kSample, options_of(GetParam()) + " --mask " + mask, 20);
}

INSTANTIATE_TEST_SUITE_P(Kernels, OddSizes,
                         testing::Values(Size{2, 1, 1, 1, 1}, Size{1, 31, 2, 33, 17}, Size{3, 63, 1, 80, 0},
                                         Size{1, 127, 2, 40, 100}, Size{2, 65, 1, 128, 0},
                                         Size{1, 5, 36, 80, 24}, Size{1, 193, 3, 7, 50}),
                         [](const auto& parameters) { return name_of(parameters.param); });

/// Three mask tiles a side: empty, full and partial ones.
TEST(EveryMaskPattern, IsRight) {
  for (const char* mask : {"padding:lengths=130/70", "strided:step=11", "fixed:step=11", "sliding:window=40",
                           "dilated:window=20,rate=2", "longformer:global=10,window=20",
                           "bigbird:global=8,window=8,block=16,random=2", "block_diagonal:block=48",
                           "causal:padding_lengths=130/1", "full"})
    expect_right(
        "--variant '[0-14]' '[0-14]*' '[2-6]' '[2-6]*' '[2-3]' '[3]' '[3-4]' '[4-5]'",
        std::string(" --batch 2 --seq 130 --heads 2 --head-size 20 --ffn 96 --layers 1 --mask ") + mask, 8);
}

class MaskFile : public testing::Test {
 protected:
  /// A mask of rows of '.' (masked) and 'x' (visible).
  void write(const std::vector<std::string>& rows) {
    std::vector<std::uint8_t> visible;
    for (const std::string& row : rows)
      for (const char c : row) visible.push_back(c == 'x');
    const auto n = static_cast<std::int64_t>(rows.size());
    block::write_npy(directory_.path() / "mask.npy", std::vector<std::int64_t>{n, n},
                     std::span<const std::uint8_t>(visible));
  }
  void expect_kernels_right(int seq) {
    expect_right(
        "--variant '[0-14]' '[0-14]*' '[2-6]' '[2-6]*' '[4]' '[5]' '[2-4]'",
        " --seq " + std::to_string(seq) + " --heads 2 --head-size 16 --layers 1 --mask file:path=mask.npy", 7,
        directory_.path());
  }
  base::TemporaryDirectory directory_;
};

/// Rows without a visible key have a context of zero and leave the others alone.
TEST_F(MaskFile, RowsWithoutAVisibleKey) {
  std::vector<std::string> rows(8, "xxxxxxxx");
  for (std::size_t i = 4; i < 8; ++i) rows[i] = "........";
  write(rows);
  expect_kernels_right(8);
}

/// The only visible key is in the last, partial tile; the tiles before it are all masked.
TEST_F(MaskFile, OnlyTheLastTileIsVisible) {
  write(std::vector<std::string>(65, std::string(64, '.') + "x"));
  expect_kernels_right(65);
}

/// Whole plans, several kernels in sequence through the same buffers. The masks are printed when one fails.
TEST(RandomPlans, AreRightWhole) {
  std::mt19937 random(20261128);
  for (const char* mask : {"causal", "longformer:global=5,window=7"}) {
    std::string masks;
    for (int i = 0; i < 40; ++i) masks += std::to_string(random() % 65536) + " ";
    expect_right(masks, options_of(kSizes[1]) + " --mask " + mask, 40);
  }
}

}  // namespace
}  // namespace fusetune::cli_test
