#include "runtime/user_ref.h"

#include <gtest/gtest.h>

#include "base/status.h"

namespace sandboxd {
namespace {

TEST(UserRefTest, AcceptsNamesAndPlainNumbers) {
  const auto both = ParseUserRef("web:1000");
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->user_name, "web");
  EXPECT_EQ(both->gid, 1000u);

  const auto number = ParseUserRef("65535");
  ASSERT_TRUE(number.ok());
  EXPECT_EQ(number->uid, 65535u);
  EXPECT_EQ(number->gid, kNoId);
}

TEST(UserRefTest, NothingElseEverBecomesAUser) {
  for (const char* text : {"",      "0x10", "-1",    "4294967296",  "2147483648", "65536", "1000:",
                           ":5",    ":0",   "a:b:c", "99999999999", " 0",         "00",    "0x0",
                           "1000 ", "1a",   "\xff",  "a/b",         "+1",         "1:-1"}) {
    const auto parsed = ParseUserRef(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(DetailOf(parsed.status()).reason, "INVALID_USER") << text;
  }
}

}  // namespace
}  // namespace sandboxd
