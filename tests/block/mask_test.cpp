#include "block/mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "block/npy.h"
#include "block/random.h"

namespace fusetune::block {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kSizes[] = {1, 31, 33, 63, 64, 65, 127, 130};

using Predicate = std::function<bool(long i, long j)>;

std::string usage_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const base::UsageError& error) {
    return error.what();
  }
  return "no error";
}

std::string parse_error(std::string_view text) {
  return usage_error([&] { MaskSpec::parse(text); });
}

/// Compares every pair, the words past S, the count and the used keys of a one-entry mask with a predicate.
void expect_pattern(const std::string& text, std::int64_t seq, const Predicate& visible) {
  SCOPED_TRACE(text + " at S = " + std::to_string(seq));
  const Mask mask(MaskSpec::parse(text), 2, seq);
  ASSERT_EQ(mask.entries(), 1);
  std::int64_t count = 0;
  std::vector<bool> used(seq);
  for (std::int64_t i = 0; i < seq; ++i) {
    for (std::int64_t j = 0; j < seq; ++j) {
      ASSERT_EQ(mask.visible(1, i, j), visible(i, j)) << i << ", " << j;
      count += visible(i, j);
      if (visible(i, j)) used[j] = true;
    }
    if (seq % 64 != 0) {
      ASSERT_EQ(mask.row(0, i).back() >> (seq % 64), 0u) << "bits past S in row " << i;
    }
  }
  EXPECT_EQ(mask.visible_count(0), count);
  for (std::int64_t j = 0; j < seq; ++j) ASSERT_EQ(mask.key_used(0)[j], used[j]) << j;
}

TEST(MaskPattern, Full) {
  for (const auto seq : kSizes) expect_pattern("full", seq, [](long, long) { return true; });
}

TEST(MaskPattern, Causal) {
  for (const auto seq : kSizes) expect_pattern("causal", seq, [](long i, long j) { return j <= i; });
}

TEST(MaskPattern, Strided) {
  for (const auto seq : kSizes) {
    for (const long given : {0, 1, 2, 7, 64, 100, 1000}) {
      const long step = given ? given : static_cast<long>(std::floor(std::sqrt(double(seq))));
      expect_pattern(given ? "strided:step=" + std::to_string(given) : "strided", seq,
                     [step](long i, long j) { return j <= i && ((i - j) % step == 0 || j > i - step); });
    }
  }
}

TEST(MaskPattern, Fixed) {
  for (const auto seq : kSizes) {
    for (const long given : {0, 1, 2, 7, 64, 100, 1000}) {
      const long step = given ? given : static_cast<long>(std::floor(std::sqrt(double(seq))));
      expect_pattern(given ? "fixed:step=" + std::to_string(given) : "fixed", seq, [step](long i, long j) {
        return j <= i && (j % step == step - 1 || j - j % step > i - step);
      });
    }
  }
}

TEST(MaskPattern, Sliding) {
  for (const auto seq : kSizes) {
    for (const long window : {0, 1, 32, 63, 64, 2000}) {
      expect_pattern("sliding:window=" + std::to_string(window), seq,
                     [window](long i, long j) { return std::labs(i - j) <= window; });
    }
    expect_pattern("sliding", seq, [](long i, long j) { return std::labs(i - j) <= 32; });
  }
}

TEST(MaskPattern, Dilated) {
  for (const auto seq : kSizes) {
    for (const long window : {0, 3, 32, 500}) {
      for (const long rate : {0, 1, 4, 300}) {
        expect_pattern("dilated:window=" + std::to_string(window) + ",rate=" + std::to_string(rate), seq,
                       [=](long i, long j) {
                         return (i - j) % (rate + 1) == 0 && std::labs(i - j) <= window * (rate + 1);
                       });
      }
    }
  }
}

TEST(MaskPattern, Longformer) {
  for (const auto seq : kSizes) {
    for (const long global : {0, 1, 32, 64, 500}) {
      expect_pattern("longformer:window=5,global=" + std::to_string(global), seq,
                     [global](long i, long j) { return i < global || j < global || std::labs(i - j) <= 5; });
    }
  }
}

TEST(MaskPattern, BlockDiagonal) {
  for (const auto seq : kSizes) {
    for (const long block : {1, 7, 32, 64, 128, 5000}) {
      expect_pattern("block_diagonal:block=" + std::to_string(block), seq,
                     [block](long i, long j) { return i / block == j / block; });
    }
  }
}

TEST(MaskPattern, BigbirdDrawsTheDocumentedBlocks) {
  for (const auto seq : kSizes) {
    for (const long block : {8, 32, 64}) {
      for (const long random : {0, 3, 5, 99}) {
        const long blocks = (seq + block - 1) / block;
        std::vector<std::set<long>> drawn(blocks);
        for (long g = 0; g < blocks; ++g) {
          std::vector<long> order;
          for (long n = 0; n < blocks; ++n) order.push_back(n);
          for (long t = 0; t < std::min(random, blocks); ++t) {
            const unsigned long word = philox(11, 65, g, static_cast<std::uint32_t>(t / 4))[t % 4];
            std::swap(order[t],
                      order[t + static_cast<long>((word * static_cast<unsigned long>(blocks - t)) >> 32)]);
            drawn[g].insert(order[t]);
          }
          ASSERT_EQ(std::ssize(drawn[g]), std::min(random, blocks));
        }
        expect_pattern("bigbird:global=2,window=3,seed=11,block=" + std::to_string(block) +
                           ",random=" + std::to_string(random),
                       seq, [&](long i, long j) {
                         return i < 2 || j < 2 || std::labs(i - j) <= 3 ||
                                drawn[i / block].contains(j / block);
                       });
      }
    }
  }
}

TEST(MaskPattern, CausalCombinesWithAny) {
  for (const auto seq : kSizes) {
    expect_pattern("sliding:window=4,causal=1", seq, [](long i, long j) { return j <= i && i - j <= 4; });
    expect_pattern("block_diagonal:block=10,causal=1", seq,
                   [](long i, long j) { return j <= i && i / 10 == j / 10; });
  }
}

TEST(MaskPattern, CountsAt1024) {
  const auto count = [](const char* text) { return Mask(MaskSpec::parse(text), 1, 1024).visible_count(0); };
  EXPECT_EQ(count("full"), 1'048'576);
  EXPECT_EQ(count("causal"), 524'800);
  EXPECT_EQ(count("sliding:window=32"), 65'504);
}

TEST(MaskPattern, WindowEdgeIsExact) {
  const Mask mask(MaskSpec::parse("sliding:window=5"), 1, 100);
  EXPECT_TRUE(mask.visible(0, 50, 55));
  EXPECT_TRUE(mask.visible(0, 50, 45));
  EXPECT_FALSE(mask.visible(0, 50, 56));
  EXPECT_FALSE(mask.visible(0, 50, 44));
}

TEST(MaskPadding, ListedLengthsHideKeysAndRows) {
  for (const auto seq : kSizes) {
    const std::int64_t lengths[] = {seq, 0, (seq + 1) / 2, 1};
    const std::string list = std::to_string(seq) + "/0/" + std::to_string(lengths[2]) + "/1";
    for (const std::string& text : {"padding:lengths=" + list, "sliding:window=9,padding_lengths=" + list}) {
      const bool sliding = text.starts_with("sliding");
      const Mask mask(MaskSpec::parse(text), 4, seq);
      ASSERT_EQ(mask.entries(), 4);
      EXPECT_TRUE(mask.has_padding());
      for (std::int64_t b = 0; b < 4; ++b) {
        EXPECT_EQ(mask.length(b), lengths[b]);
        for (std::int64_t i = 0; i < seq; ++i) {
          for (std::int64_t j = 0; j < seq; ++j) {
            const bool want = i < lengths[b] && j < lengths[b] && (!sliding || std::labs(i - j) <= 9);
            ASSERT_EQ(mask.visible(b, i, j), want) << text << " " << b << " " << i << " " << j;
          }
        }
        for (std::int64_t j = 0; j < seq; ++j) ASSERT_EQ(mask.key_used(b)[j], j < lengths[b]);
      }
    }
  }
}

TEST(MaskPadding, DrawnLengthsStayInTheirInterval) {
  const Mask mask(MaskSpec::parse("padding:avg=70,seed=3"), 5000, 100);
  double sum = 0;
  std::set<std::int64_t> seen;
  for (std::int64_t b = 0; b < 5000; ++b) {
    const std::uint64_t word = philox(3, 64, b)[0];
    ASSERT_EQ(mask.length(b), 40 + static_cast<std::int64_t>((word * 61) >> 32));
    sum += static_cast<double>(mask.length(b));
    seen.insert(mask.length(b));
  }
  EXPECT_EQ(*seen.begin(), 40);
  EXPECT_EQ(*seen.rbegin(), 100);
  EXPECT_NEAR(sum / 5000, 70, 1);
}

TEST(MaskPadding, EqualEntriesAreStoredOnce) {
  const Mask equal(MaskSpec::parse("padding:lengths=7/7/7"), 3, 10);
  EXPECT_EQ(equal.entries(), 1);
  EXPECT_TRUE(equal.has_padding());
  EXPECT_EQ(equal.length(2), 7);
  EXPECT_FALSE(equal.visible(2, 0, 7));
  EXPECT_FALSE(equal.visible(2, 7, 0));
  const Mask none(MaskSpec::parse("padding:lengths=10/10/10"), 3, 10);
  EXPECT_FALSE(none.has_padding());
  EXPECT_EQ(none.visible_count(0), 100);
}

TEST(MaskPadding, IllegalLengthsAreNamed) {
  const auto build = [](const char* text, std::int64_t batch) {
    return usage_error([&] { Mask(MaskSpec::parse(text), batch, 10); });
  };
  EXPECT_THAT(build("padding:lengths=3/4", 3), HasSubstr("2 lengths for a batch of 3"));
  EXPECT_THAT(build("padding:lengths=11", 1), HasSubstr("length 11 exceeds"));
  EXPECT_THAT(build("padding:avg=4", 1), HasSubstr("from 5 to 10"));
  EXPECT_THAT(build("causal:padding_avg=11", 1), HasSubstr("from 5 to 10"));
  EXPECT_EQ(build("padding:avg=5", 1), "no error");
}

TEST(MaskSpecText, CanonicalFormFillsInDefaults) {
  const auto canonical = [](const char* text) { return MaskSpec::parse(text).to_string(); };
  EXPECT_EQ(canonical("full"), "full");
  EXPECT_EQ(canonical("sliding"), "sliding:window=32");
  EXPECT_EQ(canonical("sliding:causal=1,window=064"), "sliding:causal=1,window=64");
  EXPECT_EQ(canonical("sliding:causal=0"), "sliding:window=32");
  EXPECT_EQ(canonical("strided"), "strided");  // step depends on S
  EXPECT_EQ(canonical("bigbird"), "bigbird:block=32,global=32,random=3,seed=0,window=32");
  EXPECT_EQ(canonical("padding:avg=9"), "padding:avg=9,seed=0");
  EXPECT_EQ(canonical("padding:lengths=1/02/3"), "padding:lengths=1/2/3");
}

TEST(MaskSpecText, OneSpellingForOneMask) {
  const auto same = [](const char* a, const char* b) { return MaskSpec::parse(a) == MaskSpec::parse(b); };
  EXPECT_TRUE(same("full:causal=1", "causal"));
  EXPECT_TRUE(same("causal:causal=1", "causal"));
  EXPECT_TRUE(same("strided:causal=1", "strided"));
  EXPECT_TRUE(same("full:padding_avg=9", "padding:avg=9,seed=0"));
  EXPECT_TRUE(same("padding:lengths=5,causal=1", "causal:padding_lengths=5"));
  EXPECT_FALSE(same("sliding", "sliding:causal=1"));
  EXPECT_TRUE(same("sliding:window=5,causal", "sliding:causal=1,window=5"));
  EXPECT_THAT(parse_error("sliding:5"), HasSubstr("'5': expected parameter=value"));
}

TEST(MaskSpecText, EveryPatternRoundTrips) {
  for (const MaskPatternInfo& info : mask_patterns()) {
    if (info.name == "file") continue;
    std::string text(info.name);
    text += info.name == "padding" ? ":avg=70" : ":padding_avg=70,seed=2";
    const MaskSpec spec = MaskSpec::parse(text);
    EXPECT_EQ(MaskSpec::parse(spec.to_string()), spec) << text;
    EXPECT_EQ(spec.canonical(), spec) << text;
    Mask(spec, 2, 100);
  }
  EXPECT_EQ(mask_patterns().size(), 11u);
}

TEST(MaskSpecText, ErrorsNameWhatIsAccepted) {
  EXPECT_THAT(parse_error("slidding"), HasSubstr("did you mean sliding?"));
  EXPECT_THAT(parse_error(""), HasSubstr("block_diagonal"));
  EXPECT_THAT(parse_error("sliding:windw=3"),
              AllOf(HasSubstr("window, causal"), HasSubstr("did you mean window?")));
  EXPECT_THAT(parse_error("causal:window=3"), HasSubstr("unknown parameter 'window'"));
  EXPECT_THAT(parse_error("sliding:window"), HasSubstr("parameter=value"));
  EXPECT_THAT(parse_error("sliding:"), HasSubstr("parameter=value"));
  EXPECT_THAT(parse_error("sliding:window=1,"), HasSubstr("parameter=value"));
  EXPECT_THAT(parse_error("sliding:window=1,window=1"), HasSubstr("twice"));
  for (const char* value :
       {"", " 3", "3 ", "-1", "+1", "0x3", "3.0", "9999999999", "99999999999999999999", "a"}) {
    EXPECT_THAT(parse_error("sliding:window=" + std::string(value)), HasSubstr("window=")) << value;
  }
  EXPECT_THAT(parse_error("strided:step=0"), HasSubstr("from 1"));
  EXPECT_THAT(parse_error("block_diagonal:block=0"), HasSubstr("from 1"));
  EXPECT_THAT(parse_error("sliding:causal=yes"), HasSubstr("0 or 1"));
  EXPECT_THAT(parse_error("padding"), HasSubstr("expected avg=N or lengths"));
  EXPECT_THAT(parse_error("padding:avg=5,lengths=5"), HasSubstr("not both"));
  EXPECT_THAT(parse_error("padding:padding_avg=5"), HasSubstr("without padding_"));
  EXPECT_THAT(parse_error("padding:lengths=5//6"), HasSubstr("lengths="));
  EXPECT_THAT(parse_error("sliding:seed=5"), HasSubstr("seed has no effect"));
  EXPECT_THAT(parse_error("file"), HasSubstr("path=FILE.npy"));
}

TEST(MaskSpecText, ResearchIds) {
  EXPECT_EQ(MaskSpec::from_research_id(0).to_string(), "causal");
  EXPECT_EQ(MaskSpec::from_research_id(1).to_string(), "strided");
  EXPECT_EQ(MaskSpec::from_research_id(2).to_string(), "fixed");
  EXPECT_THAT(usage_error([] { MaskSpec::from_research_id(3); }), HasSubstr("--mask-id 3"));
  EXPECT_THAT(usage_error([] { MaskSpec::from_research_id(-1); }), HasSubstr("--mask-id -1"));
}

class FileMask : public testing::Test {
 protected:
  /// Booleans from a predicate of (b, i, j), as a file of shape [entries,seq,seq], or [seq,seq] for 0.
  MaskSpec write(std::int64_t entries, std::int64_t seq,
                 const std::function<bool(long, long, long)>& visible) {
    std::vector<std::uint8_t> values;
    for (long b = 0; b < std::max<long>(entries, 1); ++b) {
      for (long i = 0; i < seq; ++i) {
        for (long j = 0; j < seq; ++j) values.push_back(visible(b, i, j));
      }
    }
    std::vector<std::int64_t> shape{seq, seq};
    if (entries > 0) shape.insert(shape.begin(), entries);
    write_npy(path_, shape, std::span<const std::uint8_t>(values));
    return MaskSpec{"file", {{"path", path_.string()}}};
  }
  base::TemporaryDirectory directory_;
  std::filesystem::path path_ = directory_.path() / "a mask, escaped.npy";
};

TEST_F(FileMask, SharedAndPerEntryArrays) {
  for (const auto seq : kSizes) {
    const Mask shared(write(0, seq, [](long, long i, long j) { return (i * 7 + j * 3) % 5 < 2; }), 2, seq);
    EXPECT_EQ(shared.entries(), 1);
    const Mask each(write(2, seq, [](long b, long i, long j) { return (i * 7 + j * 3 + b) % 5 < 2; }), 2,
                    seq);
    EXPECT_EQ(each.entries(), seq > 1 ? 2 : 1);  // the two 1 x 1 arrays are equal
    for (long i = 0; i < seq; ++i) {
      for (long j = 0; j < seq; ++j) {
        ASSERT_EQ(shared.visible(1, i, j), (i * 7 + j * 3) % 5 < 2);
        ASSERT_EQ(each.visible(0, i, j), (i * 7 + j * 3) % 5 < 2);
        ASSERT_EQ(each.visible(1, i, j), (i * 7 + j * 3 + 1) % 5 < 2);
      }
    }
    EXPECT_EQ(Mask(write(2, seq, [](long, long i, long j) { return i == j; }), 2, seq).entries(), 1);
  }
}

TEST_F(FileMask, CombinesWithPaddingPerEntry) {
  MaskSpec spec = write(0, 70, [](long, long i, long j) { return (i + j) % 2 == 0; });
  spec.parameters["padding_lengths"] = "70/65";
  const Mask mask(spec, 2, 70);
  EXPECT_EQ(mask.entries(), 2);
  EXPECT_TRUE(mask.visible(0, 0, 68));
  EXPECT_FALSE(mask.visible(1, 0, 68));
  EXPECT_TRUE(mask.visible(1, 0, 64));
}

TEST_F(FileMask, ShapeMustBelongToTheProblem) {
  const MaskSpec spec = write(2, 10, [](long, long, long) { return true; });
  EXPECT_THAT(usage_error([&] { Mask(spec, 3, 10); }), HasSubstr("(2, 10, 10)"));
  EXPECT_THAT(usage_error([&] { Mask(spec, 2, 11); }), HasSubstr("(11, 11)"));
}

// What cannot be a mask is refused by its first bytes: without an end, or larger than any memory.
TEST_F(FileMask, NothingElseIsReadToItsEnd) {
  EXPECT_THAT(parse_error("file:path=/dev/zero"), HasSubstr("a device or a pipe"));
  EXPECT_THAT(parse_error("file:/dev/zero"), HasSubstr("a device or a pipe"));
  EXPECT_THAT(parse_error("file:a.npy,b.npy"), HasSubstr("'b.npy': expected parameter=value"));
  EXPECT_THAT(parse_error("file:path=/"), HasSubstr("directory"));
  const auto refused = [&] {
    return usage_error([&] { (void)MaskSpec{"file", {{"path", path_.string()}}}.canonical(); });
  };
  const std::uint64_t huge = std::uint64_t{1} << 40;
  base::write_file_atomic(path_, "text");
  std::filesystem::resize_file(path_, huge);
  EXPECT_THAT(refused(), HasSubstr("signature"));
  write(0, 10, [](long, long, long) { return true; });
  std::filesystem::resize_file(path_, huge);
  EXPECT_THAT(refused(), HasSubstr("bytes follow the data"));
  const std::vector<std::int64_t> flat{4}, wide{1, 65'537};
  write_npy(path_, flat, std::vector<std::uint8_t>(4));
  EXPECT_THAT(refused(), HasSubstr("shape (4); expected (S, S)"));
  write_npy(path_, wide, std::vector<std::uint8_t>(65'537));
  EXPECT_THAT(refused(), HasSubstr("at most 65536"));
}

TEST_F(FileMask, TextCarriesTheContentsDigest) {
  const MaskSpec spec = write(0, 10, [](long, long, long) { return true; }).canonical();
  EXPECT_EQ(MaskSpec::parse(spec.to_string()), spec);
  write(0, 10, [](long, long i, long j) { return i == j; });
  EXPECT_THAT(usage_error([&] { Mask(spec, 1, 10); }), HasSubstr("has changed"));
  EXPECT_NE(MaskSpec(MaskSpec{"file", {{"path", path_.string()}}}).to_string(), spec.to_string());
}

}  // namespace
}  // namespace fusetune::block
