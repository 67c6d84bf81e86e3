#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "sandboxd/wire/bytes.h"
#include "sandboxd/wire/error.h"
#include "sandboxd/wire/frame.h"
#include "sandboxd/wire/json.h"

namespace sandboxd::wire {
namespace {

std::string Reason(const absl::Status& status) { return DetailOf(status).reason; }

std::string Header(uint32_t size, uint8_t type, uint8_t flags, uint64_t stream) {
  const auto bytes = EncodeHeader({size, static_cast<FrameType>(type), flags, stream});
  return std::string(bytes.data(), bytes.size());
}

TEST(FrameTest, EveryRuleOfTheHeaderIsEnforced) {
  std::string reserved = Header(2, 2, 0, 1);
  reserved[6] = 1;
  for (const std::string& bad :
       {Header(2, 0, 0, 1), Header(2, 12, 0, 1), Header(0xffffffff, 2, 0, 1),
        Header(kMaxControlBytes + 1, 2, 0, 1), Header(0, 5, 1, 1),
        Header(kMaxDataBytes + 1, 5, 1, 1), Header(1, 5, 5, 1), Header(1, 5, 1, 0),
        Header(1, 6, 1, 1), Header(7, 9, 1, 1), Header(2, 3, 0, 1), Header(2, 7, 0, 1),
        Header(9, 11, 0, 0), Header(1, 11, 2, 0), Header(2, 2, 0, 0), Header(0, 2, 0, 1),
        reserved}) {
    EXPECT_EQ(Reason(DecodeHeader(bad, Direction::kToServer).status()), "PROTOCOL_ERROR")
        << absl::BytesToHexString(bad);
  }
}

TEST(FrameTest, FramesAreTheSameHoweverTheyArrive) {
  const std::string bytes = EncodeFrame(FrameType::kRequest, 0, 7, "{\"op\":\"x\"}") +
                            EncodeFrame(FrameType::kData, 1, 7, std::string("\0\xff", 2)) +
                            EncodeFrame(FrameType::kEnd, 1, 7, "");
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    FrameReader reader(Direction::kToServer);
    std::vector<std::string> payloads;
    const auto collect = [&](const FrameHeader& header, absl::Span<const char> payload) {
      EXPECT_EQ(header.stream, 7u);
      payloads.emplace_back(payload.data(), payload.size());
      return absl::OkStatus();
    };
    ASSERT_TRUE(reader.Feed(absl::MakeConstSpan(bytes).subspan(0, cut), collect).ok());
    ASSERT_TRUE(reader.Feed(absl::MakeConstSpan(bytes).subspan(cut), collect).ok());
    EXPECT_EQ(payloads,
              (std::vector<std::string>{"{\"op\":\"x\"}", std::string("\0\xff", 2), ""}));
    EXPECT_FALSE(reader.mid_frame());
  }
}

TEST(FrameTest, TheExamplesOfTheSpecificationHold) {
  std::ifstream file(PROTOCOL_DOCUMENT);
  std::stringstream text;
  text << file.rdbuf();
  const std::string document = text.str();
  int examples = 0;
  for (size_t at = document.find("```frame\n"); at != std::string::npos;
       at = document.find("```frame\n", at + 1)) {
    const size_t begin = at + 9;
    const size_t equals = document.find("\n= ", begin);
    const std::string bytes = absl::HexStringToBytes(absl::StrReplaceAll(
        document.substr(begin, equals - begin), {{" ", ""}, {"\n", ""}}));
    const std::string says = document.substr(equals + 3, document.find('\n', equals + 3) - equals - 3);
    const std::vector<std::string> words = absl::StrSplit(says, absl::MaxSplits(' ', 3));
    const auto header = DecodeHeader(bytes, Direction::kToServer);
    ASSERT_TRUE(header.ok()) << says;
    EXPECT_EQ(words[1], "stream=" + std::to_string(header->stream));
    EXPECT_EQ(words[2], "flags=" + std::to_string(header->flags));
    EXPECT_EQ(bytes.size(), kHeaderBytes + header->size);
    const std::string payload = bytes.substr(kHeaderBytes);
    EXPECT_EQ(EncodeFrame(header->type, header->flags, header->stream, payload), bytes);
    if (words.size() > 3 && absl::StartsWith(words[3], "{")) {
      EXPECT_EQ(payload, words[3]);
    }
    ++examples;
  }
  EXPECT_GE(examples, 5);
}

TEST(JsonTest, OnlySpecifiedObjectsPass) {
  EXPECT_TRUE(ParseObject("{\"a\":[1,{\"b\":null}]}").ok());
  const std::string deep = "{\"a\":" + std::string(40, '[') + std::string(40, ']') + "}";
  std::string many = "{\"a\":[0";
  for (int i = 0; i < 70'000; ++i) many += ",0";
  many += "]}";
  for (const std::string& bad :
       {std::string(""), std::string("[]"), std::string("1"), std::string("{"),
        std::string("{\"a\":1,\"a\":2}"), std::string("{\"a\":1.5}"), std::string("{\"a\":1e3}"),
        std::string("{\"a\":9007199254740993}"), std::string("{\"a\":-9007199254740993}"),
        std::string("{\"a\":\"\xff\"}"), std::string("{}x"), std::string("{\"a\":NaN}"), deep,
        many, std::string(100'000, '[')}) {
    EXPECT_EQ(Reason(ParseObject(bad).status()), "PROTOCOL_ERROR") << bad.substr(0, 40);
  }
}

TEST(JsonTest, FieldErrorsNameTheField) {
  const nlohmann::json object = {{"a", 1}, {"b", "x"}};
  FieldReader reader(object, "params");
  reader.String("a");
  EXPECT_EQ(DetailOf(reader.Finish()).object, "params.a");

  FieldReader unknown(object, "params");
  unknown.Integer("a", 0, 0, 5);
  EXPECT_EQ(Reason(unknown.Finish()), "UNKNOWN_FIELD");
}

TEST(BytesTest, AnyBytesButNulRoundTrip) {
  for (const std::string& bytes : {std::string("plain"), std::string("\xff\xfe"), std::string("é"),
                                   std::string("\xed\xa0\x80"), std::string("")}) {
    const auto back = BytesFromJson(BytesToJson(bytes), "x");
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(*back, bytes);
  }
  EXPECT_EQ(Reason(BytesFromJson(std::string("a\0b", 3), "x").status()), "EMBEDDED_NUL");
  EXPECT_FALSE(BytesFromJson({{"base64", "YQ"}}, "x").ok());
}

TEST(ErrorTest, AStatusSurvivesTheWire) {
  const absl::Status status = WithDetail(
      ReasonError(absl::StatusCode::kNotFound, "CWD_NOT_FOUND", "cwd /x", "no /x"),
      {.stage = "working_directory", .error = "ENOENT"});

  const absl::Status back = StatusFromBody(ErrorBody(status));

  EXPECT_EQ(back.code(), status.code());
  EXPECT_EQ(back.message(), status.message());
  EXPECT_EQ(DetailOf(back).stage, "working_directory");
  EXPECT_EQ(Reason(StatusFromBody(ErrorBody(absl::InternalError("x")))), "INTERNAL");
}

}  // namespace
}  // namespace sandboxd::wire
