#include "sandboxd/wire/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sandboxd::wire {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Direction kBothDirections[] = {Direction::kToServer, Direction::kToClient};

struct Received {
  FrameHeader header;
  std::string payload;
};

absl::Status FeedAll(FrameReader& reader, absl::string_view bytes, std::vector<Received>& frames) {
  return reader.Feed(absl::MakeConstSpan(bytes.data(), bytes.size()),
                     [&](const FrameHeader& header, absl::Span<const char> payload) {
                       frames.push_back({header, std::string(payload.data(), payload.size())});
                       return absl::OkStatus();
                     });
}

std::string Describe(const std::vector<Received>& frames) {
  std::string text;
  for (const Received& frame : frames) {
    absl::StrAppend(&text, FrameTypeName(frame.header.type), " ", frame.header.stream, "/",
                    frame.header.flags, " ", frame.payload, "\n");
  }
  return text;
}

bool Taken(FrameHeader header, Direction direction) { return CheckHeader(header, direction).ok(); }

// One header of each type that is right in `direction`, where there is one.
std::map<FrameType, FrameHeader> RightHeaders(Direction direction) {
  const bool to_server = direction == Direction::kToServer;
  const uint8_t input = static_cast<uint8_t>(Channel::kStdin);
  const uint8_t output = static_cast<uint8_t>(Channel::kStdout);
  std::map<FrameType, FrameHeader> headers;
  for (const FrameHeader& header :
       std::initializer_list<FrameHeader>{{2, FrameType::kHello, 0, 0},
                                          {2, FrameType::kRequest, 0, 1},
                                          {2, FrameType::kReply, 0, 1},
                                          {2, FrameType::kError, 0, 0},
                                          {1, FrameType::kData, to_server ? input : output, 1},
                                          {0, FrameType::kEnd, to_server ? input : output, 1},
                                          {2, FrameType::kExit, 0, 1},
                                          {2, FrameType::kEvent, 0, 0},
                                          {8, FrameType::kCredit, to_server ? output : input, 1},
                                          {0, FrameType::kCancel, 0, 1},
                                          {0, FrameType::kPing, 0, 0}}) {
    const std::set<FrameType> from_client = {FrameType::kRequest, FrameType::kCancel};
    const std::set<FrameType> from_server = {FrameType::kReply, FrameType::kError, FrameType::kExit,
                                             FrameType::kEvent};
    if (to_server ? from_server.contains(header.type) : from_client.contains(header.type)) continue;
    headers[header.type] = header;
  }
  return headers;
}

TEST(CheckHeaderTest, EveryTypeIsTakenInItsDirectionsOnly) {
  for (const Direction direction : kBothDirections) {
    const auto right = RightHeaders(direction);
    const auto other = RightHeaders(direction == Direction::kToServer ? Direction::kToClient
                                                                      : Direction::kToServer);
    for (const auto& [type, header] : right) {
      EXPECT_TRUE(Taken(header, direction)) << CheckHeader(header, direction);
    }
    for (const auto& [type, header] : other) {
      if (right.contains(type)) continue;
      EXPECT_FALSE(Taken(header, direction)) << FrameTypeName(type);
    }
  }
}

TEST(CheckHeaderTest, NumbersThatAreNoTypeAreRefused) {
  for (const Direction direction : kBothDirections) {
    for (const int type : {0, 12, 13, 127, 128, 255}) {
      const FrameHeader header{.size = 2, .type = static_cast<FrameType>(type), .stream = 1};
      EXPECT_FALSE(Taken(header, direction)) << type;
      EXPECT_EQ(FrameTypeName(header.type), "");
    }
  }
}

TEST(CheckHeaderTest, EveryTypeHasItsLargestAndSmallestSize) {
  const std::map<FrameType, std::pair<uint32_t, uint32_t>> sizes = {
      {FrameType::kHello, {2, 1 << 20}}, {FrameType::kRequest, {2, 1 << 20}},
      {FrameType::kReply, {2, 1 << 20}}, {FrameType::kError, {2, 1 << 20}},
      {FrameType::kData, {1, 65536}},    {FrameType::kEnd, {0, 0}},
      {FrameType::kExit, {2, 1 << 20}},  {FrameType::kEvent, {2, 1 << 20}},
      {FrameType::kCredit, {8, 8}},      {FrameType::kCancel, {0, 0}},
      {FrameType::kPing, {0, 8}}};
  for (const Direction direction : kBothDirections) {
    for (auto [type, header] : RightHeaders(direction)) {
      const auto [min, max] = sizes.at(type);
      for (const uint32_t size : {min, max}) {
        header.size = size;
        EXPECT_TRUE(Taken(header, direction)) << FrameTypeName(type) << " " << size;
      }
      for (const uint32_t size : {min - 1, max + 1, 1u << 31, 0xffffffffu}) {
        header.size = size;
        EXPECT_FALSE(Taken(header, direction)) << FrameTypeName(type) << " " << size;
      }
    }
  }
}

TEST(CheckHeaderTest, ChannelsGoWithTypeAndDirection) {
  using Set = std::set<int>;
  const std::map<std::pair<FrameType, Direction>, Set> channels = {
      {{FrameType::kData, Direction::kToServer}, Set{1, 4}},
      {{FrameType::kData, Direction::kToClient}, Set{2, 3, 4}},
      {{FrameType::kEnd, Direction::kToServer}, Set{1, 4}},
      {{FrameType::kEnd, Direction::kToClient}, Set{0, 1, 2, 3, 4}},
      {{FrameType::kCredit, Direction::kToServer}, Set{2, 3, 4}},
      {{FrameType::kCredit, Direction::kToClient}, Set{1, 4}}};
  for (const Direction direction : kBothDirections) {
    for (auto [type, header] : RightHeaders(direction)) {
      const auto allowed = channels.find({type, direction});
      const Set flags = allowed != channels.end()  ? allowed->second
                        : type == FrameType::kPing ? Set{0, 1}
                                                   : Set{0};
      for (int flag = 0; flag < 256; ++flag) {
        header.flags = static_cast<uint8_t>(flag);
        EXPECT_EQ(Taken(header, direction), flags.contains(flag)) << FrameTypeName(type) << flag;
      }
    }
  }
}

TEST(CheckHeaderTest, StreamZeroIsForTheConnectionOnly) {
  const std::set<FrameType> zero_only = {FrameType::kHello, FrameType::kPing};
  const std::set<FrameType> either = {FrameType::kError, FrameType::kEvent};
  for (const Direction direction : kBothDirections) {
    for (auto [type, header] : RightHeaders(direction)) {
      header.stream = 0;
      EXPECT_EQ(Taken(header, direction), zero_only.contains(type) || either.contains(type));
      header.stream = ~uint64_t{0};
      EXPECT_EQ(Taken(header, direction), !zero_only.contains(type));
    }
  }
}

TEST(CheckHeaderTest, ErrorsAreProtocolErrorsThatNameTheFrame) {
  const absl::Status status = CheckHeader(
      {.size = 70000, .type = FrameType::kData, .flags = 1, .stream = 1}, Direction::kToServer);

  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(DetailOf(status).reason, "PROTOCOL_ERROR");
  EXPECT_THAT(std::string(status.message()), HasSubstr("Data with 70000 bytes"));
}

TEST(HeaderTest, EncodesAndDecodesEveryField) {
  const FrameHeader header{
      .size = 0x1234, .type = FrameType::kData, .flags = 3, .stream = 0x1122334455667788};

  const auto bytes = EncodeHeader(header);

  EXPECT_THAT(std::vector<int>(bytes.begin(), bytes.end()),
              ElementsAre(0x34, 0x12, 0, 0, 5, 3, 0, 0, static_cast<char>(0x88), 0x77, 0x66, 0x55,
                          0x44, 0x33, 0x22, 0x11));
  const auto back = DecodeHeader(bytes, Direction::kToClient);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->size, header.size);
  EXPECT_EQ(back->type, header.type);
  EXPECT_EQ(back->flags, header.flags);
  EXPECT_EQ(back->stream, header.stream);
}

TEST(HeaderTest, ReservedBytesMustBeZero) {
  for (const size_t offset : {6, 7}) {
    auto bytes = EncodeHeader({.size = 0, .type = FrameType::kCancel, .stream = 1});
    bytes[offset] = 1;
    EXPECT_FALSE(DecodeHeader(bytes, Direction::kToServer).ok());
  }
  EXPECT_FALSE(DecodeHeader(std::string(15, '\0'), Direction::kToServer).ok());
}

TEST(CreditTest, RoundTripsAndHasEightBytes) {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{65536}, ~uint64_t{0}}) {
    const std::string frame = EncodeCredit(7, Channel::kStdout, bytes);
    EXPECT_EQ(frame.size(), 24u);
    EXPECT_EQ(*DecodeCredit(absl::MakeConstSpan(frame).subspan(16)), bytes);
  }
  EXPECT_FALSE(DecodeCredit(std::string(7, 'x')).ok());
  EXPECT_FALSE(DecodeCredit(std::string(9, 'x')).ok());
}

std::string SeveralFrames() {
  return EncodeFrame(FrameType::kHello, 0, 0, "{\"protocol\":1}") +
         EncodeFrame(FrameType::kEnd, 1, 3, "") +
         EncodeFrame(FrameType::kData, 1, 3, "some bytes of input") +
         EncodeCredit(3, Channel::kStderr, 1) + EncodeFrame(FrameType::kCancel, 0, 9, "");
}

TEST(FrameReaderTest, SplitAnywhereTheFramesAreTheSame) {
  const std::string bytes = SeveralFrames();
  FrameReader whole(Direction::kToServer);
  std::vector<Received> expected;
  ASSERT_TRUE(FeedAll(whole, bytes, expected).ok());
  ASSERT_EQ(expected.size(), 5u);

  for (size_t first = 0; first <= bytes.size(); ++first) {
    for (size_t second = first; second <= bytes.size(); second += 7) {
      FrameReader reader(Direction::kToServer);
      std::vector<Received> frames;
      const absl::string_view view = bytes;
      ASSERT_TRUE(FeedAll(reader, view.substr(0, first), frames).ok());
      ASSERT_TRUE(FeedAll(reader, view.substr(first, second - first), frames).ok());
      ASSERT_TRUE(FeedAll(reader, view.substr(second), frames).ok());
      EXPECT_EQ(Describe(frames), Describe(expected)) << first << " " << second;
      EXPECT_FALSE(reader.mid_frame());
    }
  }
}

TEST(FrameReaderTest, ByteByByteItKnowsWhenItIsInTheMiddle) {
  const std::string bytes = EncodeFrame(FrameType::kData, 1, 3, "abc");
  FrameReader reader(Direction::kToServer);
  std::vector<Received> frames;

  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_EQ(reader.mid_frame(), i > 0);
    ASSERT_TRUE(FeedAll(reader, absl::string_view(bytes).substr(i, 1), frames).ok());
  }

  EXPECT_FALSE(reader.mid_frame());
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].payload, "abc");
}

TEST(FrameReaderTest, WholeFramesAreNotCopied) {
  const std::string bytes = EncodeFrame(FrameType::kData, 1, 3, "abc");
  FrameReader reader(Direction::kToServer);

  const char* payload_at = nullptr;
  ASSERT_TRUE(reader
                  .Feed(bytes,
                        [&](const FrameHeader&, absl::Span<const char> payload) {
                          payload_at = payload.data();
                          return absl::OkStatus();
                        })
                  .ok());

  EXPECT_EQ(payload_at, bytes.data() + kHeaderBytes);
}

TEST(FrameReaderTest, AWrongHeaderIsRefusedWithItsLastByte) {
  for (const uint32_t size : {uint32_t{kMaxControlBytes} + 1, 0x80000000u, 0xffffffffu, 0u}) {
    const auto header = EncodeHeader({.size = size, .type = FrameType::kRequest, .stream = 1});
    FrameReader reader(Direction::kToServer);
    std::vector<Received> frames;

    EXPECT_TRUE(FeedAll(reader, {header.data(), 15}, frames).ok());
    const absl::Status status = FeedAll(reader, {header.data() + 15, 1}, frames);

    EXPECT_EQ(DetailOf(status).reason, "PROTOCOL_ERROR");
    EXPECT_TRUE(frames.empty());
  }
}

TEST(FrameReaderTest, AfterAnErrorNothingMoreIsRead) {
  FrameReader reader(Direction::kToServer);
  std::vector<Received> frames;
  ASSERT_FALSE(FeedAll(reader, EncodeFrame(FrameType::kReply, 0, 1, "{}"), frames).ok());

  const absl::Status again = FeedAll(reader, EncodeFrame(FrameType::kCancel, 0, 1, ""), frames);

  EXPECT_EQ(DetailOf(again).reason, "PROTOCOL_ERROR");
  EXPECT_TRUE(frames.empty());
}

TEST(FrameReaderTest, TheCallbacksErrorStopsTheReader) {
  FrameReader reader(Direction::kToServer);
  int calls = 0;
  const auto refuse = [&](const FrameHeader&, absl::Span<const char>) {
    ++calls;
    return absl::AbortedError("enough");
  };

  const absl::Status status = reader.Feed(SeveralFrames(), refuse);

  EXPECT_TRUE(absl::IsAborted(status));
  EXPECT_EQ(calls, 1);
}

TEST(FrameReaderTest, TheLargestFramesOfEachKindComeThroughInSmallPieces) {
  const std::string body = "{\"a\":\"" + std::string(kMaxControlBytes - 8, 'x') + "\"}";
  const std::string bytes = EncodeFrame(FrameType::kRequest, 0, 1, body) +
                            EncodeFrame(FrameType::kData, 1, 1, std::string(kMaxDataBytes, 'd'));
  FrameReader reader(Direction::kToServer);
  std::vector<Received> frames;

  for (size_t at = 0; at < bytes.size(); at += 4099) {
    ASSERT_TRUE(FeedAll(reader, absl::string_view(bytes).substr(at, 4099), frames).ok());
  }

  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].payload, body);
  EXPECT_EQ(frames[1].payload.size(), kMaxDataBytes);
}

}  // namespace
}  // namespace sandboxd::wire
