// The frames that docs/protocol.md shows are the frames that the code writes and reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "sandboxd/wire/frame.h"
#include "sandboxd/wire/json.h"

namespace sandboxd::wire {
namespace {

struct Example {
  std::string bytes;
  std::string type;
  uint64_t stream = 0;
  uint8_t flags = 0;
  std::string content;
};

std::vector<Example> ReadExamples() {
  std::ifstream file(PROTOCOL_DOCUMENT);
  std::stringstream text;
  text << file.rdbuf();
  const std::string document = text.str();
  const std::regex block(
      "```frame\n([0-9a-f \n]*)\n= (\\w+) stream=(\\d+) flags=(\\d+) ?(.*)\n```");
  std::vector<Example> examples;
  for (std::sregex_iterator it(document.begin(), document.end(), block), end; it != end; ++it) {
    std::string digits = (*it)[1];
    digits.erase(std::remove_if(digits.begin(), digits.end(), isspace), digits.end());
    examples.push_back({absl::HexStringToBytes(digits), (*it)[2], std::stoull((*it)[3]),
                        static_cast<uint8_t>(std::stoul((*it)[4])), (*it)[5]});
  }
  return examples;
}

// The payload that an example's last line stands for.
std::string PayloadOf(const Example& example) {
  if (example.content == "raw") return example.bytes.substr(kHeaderBytes);
  if (example.type == "Credit") return EncodeCreditPayload(std::stoull(example.content));
  return example.content;
}

TEST(ProtocolDocumentTest, EveryFrameBlockIsUnderstood) {
  std::ifstream file(PROTOCOL_DOCUMENT);
  int blocks = 0;
  for (std::string line; std::getline(file, line);) blocks += line == "```frame" ? 1 : 0;

  EXPECT_GE(blocks, 5);
  EXPECT_EQ(ReadExamples().size(), static_cast<size_t>(blocks));
}

TEST(ProtocolDocumentTest, TheReaderUnderstandsEachExample) {
  for (const Example& example : ReadExamples()) {
    int frames = 0;
    // Whichever side sends it.
    const bool to_server = DecodeHeader(example.bytes, Direction::kToServer).ok();
    FrameReader reader(to_server ? Direction::kToServer : Direction::kToClient);
    const absl::Status status =
        reader.Feed(example.bytes, [&](const FrameHeader& header, absl::Span<const char> payload) {
          ++frames;
          EXPECT_EQ(FrameTypeName(header.type), example.type);
          EXPECT_EQ(header.stream, example.stream);
          EXPECT_EQ(header.flags, example.flags);
          EXPECT_EQ(std::string(payload.data(), payload.size()), PayloadOf(example));
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << example.type << ": " << status;
    EXPECT_EQ(frames, 1);
    EXPECT_FALSE(reader.mid_frame());
  }
}

TEST(ProtocolDocumentTest, TheEncoderWritesEachExample) {
  for (const Example& example : ReadExamples()) {
    const FrameType type = static_cast<FrameType>(example.bytes[4]);
    EXPECT_EQ(EncodeFrame(type, example.flags, example.stream, PayloadOf(example)), example.bytes);
    const bool json = absl::StartsWith(example.content, "{");
    EXPECT_TRUE(!json || ParseObject(example.content).ok());
  }
}

}  // namespace
}  // namespace sandboxd::wire
