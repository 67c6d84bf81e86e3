#include "sandboxd/client/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "tests/unit/wire/fake_server.h"

namespace sandboxd::client {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using wire::Channel;
using wire::FrameType;

std::string ReasonOf(const absl::Status& status) { return DetailOf(status).reason; }

TEST(ClientTest, ACallSendsOpAndParamsAndReturnsTheReply) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    const auto request = peer.Expect(FrameType::kRequest);
    EXPECT_EQ(request.json(), (json{{"op", "sandbox.info"}, {"params", {{"sandbox", "x"}}}}));
    peer.SendJson(FrameType::kReply, request.header.stream, {{"answer", 42}});
  });

  const auto reply = server.client().Call("sandbox.info", {{"sandbox", "x"}});

  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(*reply, (json{{"answer", 42}}));
  EXPECT_EQ(server.client().hello()["server"], "fake/1");
}

TEST(ClientTest, TheRequestDoesNotWaitForTheServersHello) {
  ScriptedServer server([](Peer& peer) {
    peer.Expect(FrameType::kHello);
    const uint64_t stream = peer.TakeRequest("daemon.info");
    peer.SendJson(FrameType::kHello, 0, {{"protocol", 1}});
    peer.SendJson(FrameType::kReply, stream, json::object());
  });

  EXPECT_TRUE(server.client().Call("daemon.info").ok());
}

TEST(ClientTest, AnErrorIsAStatusWithItsDetailAndTheConnectionGoesOn) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    peer.SendJson(FrameType::kError, peer.TakeRequest("sandbox.info"),
                  {{"code", "NOT_FOUND"},
                   {"reason", "SANDBOX_NOT_FOUND"},
                   {"object", "sandbox x"},
                   {"message", "no sandbox x"}});
    peer.SendJson(FrameType::kReply, peer.TakeRequest("daemon.info"), json::object());
  });

  const auto error = server.client().Call("sandbox.info", {{"sandbox", "x"}});

  EXPECT_TRUE(absl::IsNotFound(error.status()));
  EXPECT_EQ(ReasonOf(error.status()), "SANDBOX_NOT_FOUND");
  EXPECT_EQ(DetailOf(error.status()).object, "sandbox x");
  EXPECT_TRUE(server.client().Call("daemon.info").ok());
}

TEST(ClientTest, AnErrorOnStreamZeroEndsEverythingWithItsReason) {
  ScriptedServer server([](Peer& peer) {
    peer.Expect(FrameType::kHello);
    peer.SendJson(FrameType::kError, 0,
                  {{"code", "RESOURCE_EXHAUSTED"}, {"reason", "TOO_MANY_CONNECTIONS"}});
    peer.Close();
  });

  server.Join();  // The client writes to a closed socket, and still learns why.
  EXPECT_EQ(ReasonOf(server.client().Call("daemon.info").status()), "TOO_MANY_CONNECTIONS");
  EXPECT_EQ(ReasonOf(server.client().Call("daemon.info").status()), "TOO_MANY_CONNECTIONS");
}

TEST(ClientTest, AClosedConnectionIsUnavailable) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    peer.TakeRequest("daemon.info");
    peer.Close();
  });

  const auto reply = server.client().Call("daemon.info");

  EXPECT_TRUE(absl::IsUnavailable(reply.status()));
  EXPECT_EQ(ReasonOf(reply.status()), "CONNECTION_LOST");
}

TEST(ClientTest, ATruncatedFrameIsNamed) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    const std::string reply =
        wire::EncodeFrame(FrameType::kReply, 0, peer.TakeRequest("daemon.info"), "{\"a\":1}");
    peer.SendRaw(absl::string_view(reply).substr(0, reply.size() - 1));
    peer.Close();
  });

  const auto reply = server.client().Call("daemon.info");

  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("in the middle of a frame"));
}

TEST(ClientTest, WhatBreaksTheProtocolIsRefused) {
  const std::vector<std::string> broken = {
      wire::EncodeFrame(FrameType::kRequest, 0, 1, "{}"),
      wire::EncodeFrame(FrameType::kHello, 0, 0, "{\"protocol\":1}"),
      wire::EncodeFrame(FrameType::kReply, 0, 1, "[]"),
      wire::EncodeFrame(FrameType::kReply, 0, 1, "{\"a\":1,\"a\":1}"),
      wire::EncodeFrame(FrameType::kExit, 0, 1, "{}"),
      wire::EncodeFrame(FrameType::kData, 2, 1, std::string(wire::kMaxDataBytes + 1, 'x')),
      std::string("\xff\xff\xff\xff\x03\0\0\0\x01\0\0\0\0\0\0\0", 16)};
  for (const std::string& bytes : broken) {
    ScriptedServer server([&](Peer& peer) {
      peer.Greet();
      peer.TakeRequest("daemon.info");
      peer.SendRaw(bytes);
    });

    const auto reply = server.client().Call("daemon.info");

    EXPECT_EQ(ReasonOf(reply.status()), "PROTOCOL_ERROR") << reply.status();
    server.Join();
  }
}

TEST(ClientTest, TheFirstFrameMustBeAHelloOfVersion1) {
  for (const std::string& first :
       {wire::EncodeFrame(FrameType::kReply, 0, 1, "{}"),
        wire::EncodeFrame(FrameType::kHello, 0, 0, "{}"),
        wire::EncodeFrame(FrameType::kHello, 0, 0, "{\"protocol\":2}")}) {
    ScriptedServer server([&](Peer& peer) { peer.SendRaw(first); });

    EXPECT_EQ(ReasonOf(server.client().Call("daemon.info").status()), "PROTOCOL_ERROR");
    server.Join();
  }
}

TEST(ClientTest, ACallThatTakesTooLongIsCancelledAndItsLateReplyDropped) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    const uint64_t first = peer.TakeRequest("sandbox.wait");
    EXPECT_EQ(peer.Expect(FrameType::kCancel).header.stream, first);
    const uint64_t second = peer.TakeRequest("daemon.info");
    peer.SendJson(FrameType::kReply, first, {{"late", true}});
    peer.SendJson(FrameType::kReply, second, {{"late", false}});
  });

  const auto late = server.client().Call("sandbox.wait", {}, absl::Milliseconds(20));
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.status()));
  EXPECT_EQ(ReasonOf(late.status()), "NO_ANSWER");

  const auto reply = server.client().Call("daemon.info");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ((*reply)["late"], false);
}

TEST(ClientTest, PingsAreAnsweredAndAnswersIgnored) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    const uint64_t stream = peer.TakeRequest("daemon.info");
    peer.Send(FrameType::kPing, 1, 0, "old");
    peer.Send(FrameType::kPing, 0, 0, "abcdefgh");
    const auto answer = peer.Expect(FrameType::kPing);
    EXPECT_EQ(answer.header.flags, 1);
    EXPECT_EQ(answer.payload, "abcdefgh");
    peer.SendJson(FrameType::kReply, stream, json::object());
  });

  EXPECT_TRUE(server.client().Call("daemon.info").ok());
}

TEST(ClientTest, DrainIsRemembered) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    const uint64_t stream = peer.TakeRequest("daemon.info");
    peer.SendJson(FrameType::kEvent, 0, {{"event", "drain"}});
    peer.SendJson(FrameType::kReply, stream, json::object());
  });

  EXPECT_FALSE(server.client().draining());
  EXPECT_TRUE(server.client().Call("daemon.info").ok());
  EXPECT_TRUE(server.client().draining());
}

TEST(ClientTest, ARequestThatIsTooLargeIsNotSent) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    peer.SendJson(FrameType::kReply, peer.TakeRequest("daemon.info"), json::object());
  });

  const auto large = server.client().Call("x", {{"a", std::string(1 << 20, 'x')}});

  EXPECT_TRUE(absl::IsInvalidArgument(large.status()));
  EXPECT_TRUE(server.client().Call("daemon.info").ok());
}

TEST(EventStreamTest, EventsComeInOrderAndTheEndIsTold) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    const uint64_t stream = peer.TakeRequest("sandbox.events");
    peer.SendJson(FrameType::kReply, stream, {{"next", 7}});
    peer.SendJson(FrameType::kEvent, stream, {{"seq", 7}, {"event", "created"}});
    peer.SendJson(FrameType::kEvent, stream, {{"seq", 8}, {"event", "killed"}});
    peer.Expect(FrameType::kCancel);
    peer.Send(FrameType::kEnd, 0, stream);
  });

  auto events = server.client().Subscribe();
  ASSERT_TRUE(events.ok()) << events.status();
  EXPECT_EQ(events->next(), 7);
  EXPECT_EQ((**events->Next())["event"], "created");
  EXPECT_EQ((**events->Next())["event"], "killed");
  EXPECT_EQ(*events->Next(absl::Milliseconds(1)), std::nullopt);
  events->Cancel();
  EXPECT_TRUE(absl::IsOutOfRange(events->Next().status()));
  EXPECT_TRUE(absl::IsOutOfRange(events->Next().status()));
}

TEST(EventStreamTest, EventsThatNobodyTakesBecomeAGap) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    const uint64_t events = peer.TakeRequest("sandbox.events");
    peer.SendJson(FrameType::kReply, events, {{"next", 1}});
    const uint64_t call = peer.TakeRequest("daemon.info");
    for (int seq = 1; seq <= 1030; ++seq) {
      peer.SendJson(FrameType::kEvent, events, {{"seq", seq}, {"event", "created"}});
    }
    peer.SendJson(FrameType::kReply, call, json::object());
  });

  auto events = server.client().Subscribe();
  ASSERT_TRUE(server.client().Call("daemon.info").ok());

  EXPECT_EQ(**events->Next(), (json{{"event", "gap"}, {"from", 1}, {"to", 6}}));
  for (int seq = 7; seq <= 1030; ++seq) ASSERT_EQ((**events->Next())["seq"], seq);
}

TEST(FramesTest, FramesOfAllStreamsComeOneByOneAndDataIsCreditedBack) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet(/*initial_credit=*/8);
    const uint64_t first = peer.TakeRequest("exec.start");
    const uint64_t second = peer.TakeRequest("exec.start");
    peer.SendJson(FrameType::kReply, first, {{"exec", 1}});
    peer.Send(FrameType::kData, 2, second, "12345678");
    peer.Send(FrameType::kCredit, 1, first, wire::EncodeCreditPayload(5));
    peer.Send(FrameType::kEnd, 0, first);
    const auto credit = peer.Expect(FrameType::kCredit);
    EXPECT_EQ(credit.header.stream, second);
    const auto data = peer.Expect(FrameType::kData);
    EXPECT_EQ(data.payload, "0123456789");
  });

  Client& client = server.client();
  const uint64_t first = *client.Open("exec.start", json::object());
  const uint64_t second = *client.Open("exec.start", json::object());
  EXPECT_EQ(client.Read()->body["exec"], 1);
  const auto data = client.Read();
  EXPECT_EQ(data->stream, second);
  EXPECT_EQ(data->channel, Channel::kStdout);
  EXPECT_EQ(data->data, "12345678");
  EXPECT_EQ(client.Read()->credit, 5u);
  EXPECT_EQ(client.initial_credit(), 8u);
  EXPECT_TRUE(client.SendData(first, "0123456789").ok());
  EXPECT_FALSE(client.SendData(first, "more than the rest").ok());
  EXPECT_EQ(client.Read()->type, FrameType::kEnd);
  EXPECT_TRUE(absl::IsDeadlineExceeded(client.Read(absl::Milliseconds(1)).status()));
}

}  // namespace
}  // namespace sandboxd::client
