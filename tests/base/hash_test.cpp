#include "base/hash.h"

#include <gtest/gtest.h>

#include <set>

namespace fusetune::base {
namespace {

// Fixed forever: stored measurements and cached kernels are found by these.
TEST(Hash, IsStable) {
  EXPECT_EQ(hash_hex(""), "2c0a8a99dc147d5445c3b49d035665b2");
  EXPECT_EQ(hash_hex("fusetune"), "4ec02087fea8d5a5008e278e928fbcff");
  EXPECT_EQ(Hasher().add("kernel").add(42).hex(), "edf0a543b61d2176281c7ff3459dd393");
}

TEST(Hash, FieldsHaveBorders) {
  const std::set<std::string> distinct = {
      Hasher().hex(),
      Hasher().add("").hex(),
      Hasher().add("").add("").hex(),
      Hasher().add("abc").hex(),
      Hasher().add("ab").add("c").hex(),
      Hasher().add("a").add("bc").hex(),
      Hasher().add(1).add(0).hex(),
      Hasher().add(0).add(1).hex(),
  };
  EXPECT_EQ(distinct.size(), 8u);
}

TEST(Hash, GoesOnAfterHex) {
  Hasher hasher;
  hasher.add("a");
  const auto first = hasher.hex();
  EXPECT_EQ(hasher.hex(), first);
  EXPECT_EQ(first, hash_hex("a"));
  EXPECT_EQ(hasher.add("b").hex(), Hasher().add("a").add("b").hex());
}

TEST(Hash, CountsBytesPastAZero) {
  using namespace std::string_view_literals;
  EXPECT_NE(hash_hex("a\0b"sv), hash_hex("a\0c"sv));
}

}  // namespace
}  // namespace fusetune::base
