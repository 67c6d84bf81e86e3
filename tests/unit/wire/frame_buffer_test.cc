#include "sandboxd/wire/frame_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sandboxd::wire {
namespace {

// Puts up to `most` bytes into the buffer; returns how many.
size_t Fill(FrameBuffer& buffer, absl::string_view bytes, size_t most) {
  const absl::Span<char> room = buffer.Room();
  EXPECT_FALSE(room.empty());
  const size_t count = std::min({room.size(), bytes.size(), most});
  memcpy(room.data(), bytes.data(), count);
  buffer.Filled(count);
  return count;
}

std::string PullAll(FrameBuffer& buffer) {
  std::string text;
  for (;;) {
    const bool has = buffer.HasFrame();
    const auto frame = buffer.Pull();
    EXPECT_EQ(has, !frame.ok() || frame->has_value());
    if (!frame.ok()) return text + "error";
    if (!frame->has_value()) return text;
    const auto& [header, payload] = **frame;
    absl::StrAppend(&text, FrameTypeName(header.type), header.stream, "=",
                    absl::string_view(payload.data(), payload.size()), ";");
  }
}

TEST(FrameBufferTest, InPiecesOfAnySizeTheFramesAreTheSame) {
  const std::string bytes = EncodeFrame(FrameType::kReply, 0, 1, "{}") +
                            EncodeFrame(FrameType::kData, 2, 1, "output") +
                            EncodeFrame(FrameType::kEnd, 2, 1, "") +
                            EncodeFrame(FrameType::kExit, 0, 1, "{\"exit_code\":0}");
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    for (const size_t size : {size_t{1}, size_t{20}, size_t{64}, size_t{4096}}) {
      FrameBuffer buffer(Direction::kToClient, size);
      std::string text;
      for (size_t at = 0; at < bytes.size();) {
        at += Fill(buffer, absl::string_view(bytes).substr(at), piece);
        absl::StrAppend(&text, PullAll(buffer));
      }
      EXPECT_EQ(text, "Reply1={};Data1=output;End1=;Exit1={\"exit_code\":0};");
      EXPECT_FALSE(buffer.mid_frame());
    }
  }
}

TEST(FrameBufferTest, AFrameLargerThanTheBufferComesThroughAndTheBufferShrinksAgain) {
  const std::string body(kMaxControlBytes, ' ');
  const std::string bytes = EncodeFrame(FrameType::kReply, 0, 1, body);
  FrameBuffer buffer(Direction::kToClient, 1024);

  for (size_t at = 0; at < bytes.size();) {
    at += Fill(buffer, absl::string_view(bytes).substr(at), bytes.size());
    if (at < bytes.size()) {
      ASSERT_EQ(PullAll(buffer), "");
    }
  }
  EXPECT_EQ(PullAll(buffer).size(), body.size() + 8);

  EXPECT_EQ(buffer.Room().size(), 1024u);
}

TEST(FrameBufferTest, APayloadStaysWhereItCameIn) {
  FrameBuffer buffer(Direction::kToClient);
  const char* const start = buffer.Room().data();
  Fill(buffer, EncodeFrame(FrameType::kData, 2, 1, "abc"), 1000);

  const auto frame = buffer.Pull();

  EXPECT_EQ((*frame)->payload.data(), start + kHeaderBytes);
}

TEST(FrameBufferTest, AWrongHeaderIsAnErrorForGood) {
  FrameBuffer buffer(Direction::kToClient);
  Fill(buffer, EncodeFrame(FrameType::kRequest, 0, 1, "{}"), 1000);

  EXPECT_EQ(DetailOf(buffer.Pull().status()).reason, "PROTOCOL_ERROR");
  Fill(buffer, EncodeFrame(FrameType::kReply, 0, 1, "{}"), 1000);
  EXPECT_EQ(DetailOf(buffer.Pull().status()).reason, "PROTOCOL_ERROR");
}

}  // namespace
}  // namespace sandboxd::wire
