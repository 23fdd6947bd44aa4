#include "measure/outcome.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "measure/session.h"

namespace fusetune::measure {
namespace {

TEST(Outcome, NamesReadBack) {
  for (int i = 0; i <= static_cast<int>(Outcome::skipped); ++i) {
    const auto outcome = static_cast<Outcome>(i);
    EXPECT_EQ(parse_outcome(name(outcome)), outcome);
  }
  EXPECT_EQ(name(Outcome::ok), "ok");
  EXPECT_EQ(name(Outcome::launch_failed), "launch_failed");
  EXPECT_EQ(name(Outcome::skipped), "skipped");
}

TEST(Outcome, UnknownWordsAreNamed) {
  for (const char* text : {"", "OK", "ok ", "wrong"}) {
    EXPECT_THROW(parse_outcome(text), base::UsageError) << text;
  }
}

TEST(CacheMode, NamesReadBack) {
  for (const CacheMode mode : {CacheMode::model, CacheMode::warm, CacheMode::cold}) {
    EXPECT_EQ(parse_cache_mode(name(mode)), mode);
  }
  EXPECT_THROW(parse_cache_mode("hot"), base::UsageError);
}

}  // namespace
}  // namespace fusetune::measure
