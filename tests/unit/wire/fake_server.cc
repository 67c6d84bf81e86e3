#include "tests/unit/wire/fake_server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/socket.h"

namespace sandboxd::client {
namespace {

using wire::FrameType;

constexpr uint64_t kClosed = ~uint64_t{0};

}  // namespace

Peer::Received Peer::Read() {
  for (;;) {
    const auto frame = buffer_.Pull();
    EXPECT_TRUE(frame.ok()) << frame.status();
    if (!frame.ok()) return {{.stream = kClosed}, ""};
    if (frame->has_value()) {
      const auto& [header, payload] = **frame;
      return {header, std::string(payload.data(), payload.size())};
    }
    const absl::Span<char> room = buffer_.Room();
    const ssize_t n = recv(socket_.get(), room.data(), room.size(), 0);
    if (n <= 0) {
      EXPECT_FALSE(buffer_.mid_frame());
      return {{.stream = kClosed}, ""};
    }
    buffer_.Filled(static_cast<size_t>(n));
  }
}

Peer::Received Peer::Expect(FrameType type) {
  Received frame = Read();
  EXPECT_NE(frame.header.stream, kClosed) << "the client closed";
  EXPECT_EQ(wire::FrameTypeName(frame.header.type), wire::FrameTypeName(type));
  return frame;
}

void Peer::ExpectClosed() { EXPECT_EQ(Read().header.stream, kClosed); }

void Peer::SendRaw(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return;  // The client closed, as some tests want.
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void Peer::Send(FrameType type, uint8_t flags, uint64_t stream, absl::string_view payload) {
  SendRaw(wire::EncodeFrame(type, flags, stream, payload));
}

void Peer::SendJson(FrameType type, uint64_t stream, const nlohmann::json& body) {
  Send(type, 0, stream, body.dump());
}

void Peer::Greet(uint64_t initial_credit) {
  EXPECT_EQ(Expect(FrameType::kHello).json()["protocol"], 1);
  SendJson(FrameType::kHello, 0,
           {{"protocol", 1},
            {"server", "fake/1"},
            {"instance", "i"},
            {"features", nlohmann::json::array()},
            {"limits", {{"initial_credit", initial_credit}}}});
}

uint64_t Peer::TakeRequest(const std::string& op) {
  const Received request = Expect(FrameType::kRequest);
  EXPECT_EQ(nlohmann::json::parse(request.payload, nullptr, false).value("op", ""), op);
  return request.header.stream;
}

ScriptedServer::ScriptedServer(std::function<void(Peer&)> script)
    : sockets_(*UnixPair(SOCK_STREAM)),
      peer_(std::move(sockets_.first)),
      client_(Client::FromSocket(std::move(sockets_.second), "test/1")),
      thread_([this, script = std::move(script)] { script(peer_); }) {}

void ScriptedServer::Join() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace sandboxd::client
