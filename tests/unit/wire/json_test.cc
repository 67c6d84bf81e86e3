#include "sandboxd/wire/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sandboxd::wire {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// "" where the text is taken.
std::string RefusalOf(absl::string_view text) {
  const auto object = ParseObject(text);
  if (object.ok()) return "";
  EXPECT_EQ(object.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(DetailOf(object.status()).reason, "PROTOCOL_ERROR");
  return std::string(object.status().message());
}

std::string Repeat(absl::string_view text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) absl::StrAppend(&all, text);
  return all;
}

TEST(ParseObjectTest, BuildsTheSameDocumentAsTheLibrary) {
  for (const char* text :
       {"{}", " { } ", R"({"a":1})",
        R"({"a":[1,-2,[],{}],"b":{"c":null,"d":true,"e":"x\u00e9\n"}})",
        R"({"":{"":[[["deep"]]]},"z":[{"a":1},{"a":2}]})", R"({"zero":-0,"a":[false]})"}) {
    const auto object = ParseObject(text);
    ASSERT_TRUE(object.ok()) << object.status();
    EXPECT_EQ(*object, json::parse(text));
  }
}

TEST(ParseObjectTest, TheTopMustBeAnObject) {
  for (const char* text : {"", " ", "1", "\"x\"", "null", "true", "[]", "[{}]"}) {
    EXPECT_NE(RefusalOf(text), "") << text;
  }
}

TEST(ParseObjectTest, TextThatIsNotJsonIsRefused) {
  for (const char* text :
       {"{", "}", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{'a':1}", "{}{}", "{} x",
        "{\"a\":01}", "{\"a\":+1}", "{\"a\":NaN}", "{\"a\":Infinity}", "{\"a\":0x1}", "{/**/}",
        "{\"a\":\"\n\"}", "{\"a\":\"\\x\"}"}) {
    EXPECT_THAT(RefusalOf(text), HasSubstr("not JSON")) << text;
  }
}

TEST(ParseObjectTest, ByteOrderMarksAndNulBytesAreRefused) {
  EXPECT_THAT(RefusalOf("\xef\xbb\xbf{}"), HasSubstr("byte order mark"));
  EXPECT_THAT(RefusalOf(absl::string_view("{}\0", 3)), HasSubstr("byte 3"));
  EXPECT_THAT(RefusalOf(absl::string_view("{}\0{", 4)), HasSubstr("not JSON"));
}

TEST(ParseObjectTest, StringsMustBeUtf8AndWholeSurrogatePairs) {
  EXPECT_EQ(RefusalOf("{\"a\":\"\xc3\xa9\"}"), "");
  EXPECT_EQ(RefusalOf(R"({"a":"\ud83d\ude00"})"), "");
  for (const char* text : {"{\"a\":\"\xff\"}", "{\"a\":\"\xc0\x80\"}", "{\"a\":\"\xed\xa0\x80\"}",
                           "{\"\xff\":1}", R"({"a":"\ud83d"})", R"({"a":"\ude00"})"}) {
    EXPECT_THAT(RefusalOf(text), HasSubstr("not JSON")) << text;
  }
}

TEST(ParseObjectTest, DuplicateKeysAreRefusedAtAnyDepth) {
  EXPECT_THAT(RefusalOf(R"({"a":1,"a":1})"), HasSubstr("occurs twice"));
  EXPECT_THAT(RefusalOf(R"({"x":[{"a":1,"b":2,"a":3}]})"), HasSubstr("occurs twice"));
  EXPECT_THAT(RefusalOf(R"({"a":1,"\u0061":2})"), HasSubstr("occurs twice"));
  EXPECT_EQ(RefusalOf(R"({"a":{"a":{"a":1}}})"), "");
}

TEST(ParseObjectTest, ThirtyTwoLevelsAreTakenAndOneMoreIsNot) {
  const auto nested = [](size_t depth) {
    return absl::StrCat("{\"a\":", Repeat("[", depth - 1), Repeat("]", depth - 1), "}");
  };

  EXPECT_EQ(RefusalOf(nested(32)), "");
  EXPECT_THAT(RefusalOf(nested(33)), HasSubstr("nested deeper than 32"));
}

TEST(ParseObjectTest, AMegabyteOfOpenBracketsCostsNoStack) {
  EXPECT_THAT(RefusalOf("{\"a\":" + std::string(1 << 20, '[')), HasSubstr("nested deeper"));
  EXPECT_THAT(RefusalOf(Repeat("{\"a\":", 200000)), HasSubstr("nested deeper"));
}

TEST(ParseObjectTest, ValuesOfAllKindsAreCounted) {
  // The object and the array are two of them.
  const auto list = [](size_t values, absl::string_view value) {
    return absl::StrCat("{\"a\":[", value, Repeat(absl::StrCat(",", value), values - 1), "]}");
  };

  EXPECT_EQ(RefusalOf(list(kMaxJsonValues - 2, "0")), "");
  EXPECT_THAT(RefusalOf(list(kMaxJsonValues - 1, "0")), HasSubstr("more than 65536 values"));
  EXPECT_THAT(RefusalOf(list(kMaxJsonValues - 1, "[]")), HasSubstr("more than 65536 values"));
  EXPECT_THAT(RefusalOf(list(kMaxJsonValues - 1, "\"\"")), HasSubstr("more than 65536 values"));
}

TEST(ParseObjectTest, NumbersAreIntegersThatADoubleHoldsExactly) {
  for (const char* text : {"0", "-1", "9007199254740992", "-9007199254740992"}) {
    EXPECT_EQ(RefusalOf(absl::StrCat("{\"a\":", text, "}")), "") << text;
  }
  for (const char* text :
       {"9007199254740993", "-9007199254740993", "9223372036854775807", "18446744073709551615",
        "18446744073709551616", "-9223372036854775809", "1.0", "1e3", "-0.5", "1e400"}) {
    EXPECT_NE(RefusalOf(absl::StrCat("{\"a\":", text, "}")), "") << text;
  }
}

TEST(DumpObjectTest, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(DumpObject({{"a", "\xff"}}), "{\"a\":\"\xef\xbf\xbd\"}");
}

}  // namespace
}  // namespace sandboxd::wire
