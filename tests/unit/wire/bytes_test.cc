#include "sandboxd/wire/bytes.h"

#include <gtest/gtest.h>

#include "base/status.h"

namespace sandboxd::wire {
namespace {

using nlohmann::json;

std::string ReasonOf(const json& value) {
  return DetailOf(BytesFromJson(value, "params.cwd").status()).reason;
}

TEST(Utf8Test, WellFormedSequencesOfEveryLengthAreAccepted) {
  for (const char* text : {"", "a", "plain text of some length", "\xc2\x80", "\xdf\xbf",
                           "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf",
                           "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "12345678\xc3\xa9", "é€😀"}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
}

TEST(Utf8Test, EveryKindOfIllFormedSequenceIsRefused) {
  for (const char* text : {"\x80",
                           "\xbf",
                           "\xc0\x80",
                           "\xc1\xbf",
                           "\xc2",
                           "\xc2\x41",
                           "\xe0\x80\x80",
                           "\xe0\x9f\xbf",
                           "\xed\xa0\x80",
                           "\xed\xbf\xbf",
                           "\xe2\x82",
                           "\xe2\x82\x41",
                           "\xf0\x80\x80\x80",
                           "\xf0\x8f\xbf\xbf",
                           "\xf4\x90\x80\x80",
                           "\xf5\x80\x80\x80",
                           "\xff",
                           "\xfe",
                           "\xf0\x9f\x98",
                           "12345678\xc3",
                           "1234567\xffxyz"}) {
    EXPECT_FALSE(IsUtf8(text)) << testing::PrintToString(text);
  }
}

TEST(BytesTest, TextTravelsAsTextAndOtherBytesAsBase64) {
  EXPECT_EQ(BytesToJson("/tmp/é"), json("/tmp/é"));
  EXPECT_EQ(BytesToJson("\xff\xfe"), json::object({{"base64", "//4="}}));
}

TEST(BytesTest, EveryByteValueButNulRoundTrips) {
  std::string all;
  for (int byte = 1; byte < 256; ++byte) all.push_back(static_cast<char>(byte));

  const auto back = BytesFromJson(json::parse(BytesToJson(all).dump()), "x");

  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, all);
}

TEST(BytesTest, BothFormsAreAcceptedForAnyBytes) {
  EXPECT_EQ(*BytesFromJson(json::object({{"base64", "YWJj"}}), "x"), "abc");
  EXPECT_EQ(*BytesFromJson(json::object({{"base64", ""}}), "x"), "");
  EXPECT_EQ(*BytesFromJson(json("abc"), "x"), "abc");
}

TEST(BytesTest, Base64MustBePaddedAndCanonical) {
  for (const char* text :
       {"YWI", "YW I=", "YWI=\n", "YWJ=", "YWI.", "Y", "====", "YW==YW==", "_-8="}) {
    EXPECT_EQ(ReasonOf(json::object({{"base64", text}})), "INVALID_FIELD") << text;
  }
}

TEST(BytesTest, OtherShapesAreInvalid) {
  for (const json& value : {json(1), json(true), json(), json::array({"a"}), json::object(),
                            json::object({{"base64", 1}}), json::object({{"Base64", "YWJj"}}),
                            json::object({{"base64", "YWJj"}, {"more", 1}})}) {
    EXPECT_EQ(ReasonOf(value), "INVALID_FIELD") << value;
  }
}

TEST(BytesTest, NulIsRefusedInEitherFormAndTheFieldIsNamed) {
  EXPECT_EQ(ReasonOf(json(std::string("a\0b", 3))), "EMBEDDED_NUL");
  EXPECT_EQ(ReasonOf(json::object({{"base64", "AA=="}})), "EMBEDDED_NUL");

  const auto status = BytesFromJson(json(std::string(1, '\0')), "params.argv[2]").status();
  EXPECT_EQ(DetailOf(status).object, "params.argv[2]");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sandboxd::wire
