#include <gtest/gtest.h>
#include <poll.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/unit/wire/fake_server.h"

namespace sandboxd::client {
namespace {

using nlohmann::json;
using wire::FrameType;
using Kind = ExecEvent::Kind;

const json kParams = {{"sandbox", "box"}, {"argv", {"cat"}}, {"stdin", "pipe"}};

uint64_t StartExec(Peer& peer, int exec = 1) {
  const uint64_t stream = peer.TakeRequest("exec.start");
  peer.SendJson(FrameType::kReply, stream, {{"exec", exec}, {"pid", 2}});
  return stream;
}

void EndExec(Peer& peer, uint64_t stream) {
  peer.SendJson(FrameType::kExit, stream, {{"exit_code", 0}});
  peer.Send(FrameType::kEnd, 2, stream);
  peer.Send(FrameType::kEnd, 3, stream);
  peer.Send(FrameType::kEnd, 0, stream);
}

absl::string_view Text(const ExecEvent& event) { return {event.data.data(), event.data.size()}; }

// Everything until kDone, in short: "out:hello end exit done".
std::string RunToEnd(ExecStream& exec) {
  std::string text;
  for (;;) {
    const auto event = exec.Next();
    if (!event.ok()) return absl::StrCat(text, DetailOf(event.status()).reason);
    switch (event->kind) {
      case Kind::kStdout:
        absl::StrAppend(&text, "out:", Text(*event), " ");
        break;
      case Kind::kStderr:
        absl::StrAppend(&text, "err:", Text(*event), " ");
        break;
      case Kind::kStdoutEnd:
        absl::StrAppend(&text, "out-end ");
        break;
      case Kind::kStderrEnd:
        absl::StrAppend(&text, "err-end ");
        break;
      case Kind::kExit:
        absl::StrAppend(&text, "exit:", event->exit["exit_code"].dump(), " ");
        break;
      case Kind::kDone:
        return text + "done";
      case Kind::kNothing:
      case Kind::kStdinReady:
      case Kind::kStdinClosed:
        absl::StrAppend(&text, "? ");
        break;
    }
  }
}

TEST(ExecStreamTest, EveryEventComesInItsOrder) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    const uint64_t stream = StartExec(peer, 5);
    peer.Send(FrameType::kData, 2, stream, "hello");
    peer.Send(FrameType::kData, 3, stream, "oh");
    EndExec(peer, stream);
  });

  auto exec = server.client().StartExec(kParams);

  ASSERT_TRUE(exec.ok()) << exec.status();
  EXPECT_EQ(exec->exec(), 5);
  EXPECT_EQ(exec->pid(), 2);
  EXPECT_EQ(RunToEnd(*exec), "out:hello err:oh exit:0 out-end err-end done");
  EXPECT_EQ(exec->Next()->kind, Kind::kDone);
}

TEST(ExecStreamTest, AStartThatFailsIsItsError) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    peer.SendJson(FrameType::kError, peer.TakeRequest("exec.start"),
                  {{"code", "NOT_FOUND"}, {"reason", "COMMAND_NOT_FOUND"}, {"errno", "ENOENT"}});
  });

  const auto exec = server.client().StartExec(kParams);

  EXPECT_EQ(DetailOf(exec.status()).reason, "COMMAND_NOT_FOUND");
  EXPECT_EQ(DetailOf(exec.status()).error, "ENOENT");
}

TEST(ExecStreamTest, AnErrorOfTheStreamEndsIt) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    const uint64_t stream = StartExec(peer);
    peer.SendJson(FrameType::kError, stream, {{"code", "ABORTED"}, {"reason", "SANDBOX_ENDED"}});
    peer.SendJson(FrameType::kReply, peer.TakeRequest("daemon.info"), json::object());
  });

  auto exec = server.client().StartExec(kParams);

  EXPECT_EQ(RunToEnd(*exec), "SANDBOX_ENDED");
  EXPECT_TRUE(server.client().Call("daemon.info").ok());
}

TEST(ExecStreamTest, CreditIsGivenBackAsOutputIsConsumed) {
  static constexpr uint64_t kTotal = 8 << 20;
  ScriptedServer server([](Peer& peer) {
    peer.Greet(/*initial_credit=*/100000);
    const uint64_t stream = StartExec(peer);
    uint64_t credit = 100000;
    for (uint64_t sent = 0; sent < kTotal;) {
      const uint64_t size = std::min({credit, kTotal - sent, uint64_t{wire::kMaxDataBytes}});
      if (size == 0) {
        const auto frame = peer.Expect(FrameType::kCredit);
        EXPECT_EQ(frame.header.flags, 2);
        credit += *wire::DecodeCredit(frame.payload);
        continue;
      }
      peer.Send(FrameType::kData, 2, stream, std::string(size, static_cast<char>('a' + sent % 26)));
      sent += size;
      credit -= size;
    }
    EndExec(peer, stream);
  });

  auto exec = server.client().StartExec(kParams);
  uint64_t received = 0;
  for (;;) {
    const auto event = exec->Next();
    ASSERT_TRUE(event.ok()) << event.status();
    if (event->kind == Kind::kDone) break;
    if (event->kind != Kind::kStdout) continue;
    EXPECT_EQ(event->data.front(), static_cast<char>('a' + received % 26));
    EXPECT_EQ(event->data.back(), event->data.front());
    received += event->data.size();
  }

  EXPECT_EQ(received, kTotal);
}

TEST(ExecStreamTest, WhatNobodyConsumesIsNotCreditedBack) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet(/*initial_credit=*/10);
    const uint64_t stream = StartExec(peer);
    peer.Send(FrameType::kData, 2, stream, "0123456789");
    peer.SendJson(FrameType::kReply, peer.TakeRequest("daemon.info"), json::object());
    peer.Expect(FrameType::kCredit);
  });

  auto exec = server.client().StartExec(kParams);
  EXPECT_TRUE(server.client().Call("daemon.info").ok());
  EXPECT_EQ(Text(*exec->Next()), "0123456789");
  EXPECT_EQ(exec->Next(absl::ZeroDuration())->kind, Kind::kNothing);
}

TEST(ExecStreamTest, DataBeyondTheCreditIsRefused) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet(/*initial_credit=*/10);
    peer.Send(FrameType::kData, 3, StartExec(peer), "0123456789a");
  });

  auto exec = server.client().StartExec(kParams);

  EXPECT_EQ(RunToEnd(*exec), "PROTOCOL_ERROR");
}

TEST(ExecStreamTest, CreditAboveTheLimitIsRefused) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    const uint64_t stream = StartExec(peer);
    peer.Send(FrameType::kCredit, 1, stream, wire::EncodeCreditPayload(~uint64_t{0}));
  });

  auto exec = server.client().StartExec(kParams);

  EXPECT_EQ(RunToEnd(*exec), "PROTOCOL_ERROR");
}

TEST(ExecStreamTest, StdinIsAcceptedWithinItsCredit) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet(/*initial_credit=*/4);
    const uint64_t stream = StartExec(peer);
    EXPECT_EQ(peer.Expect(FrameType::kData).payload, "0123");
    peer.Send(FrameType::kCredit, 1, stream, wire::EncodeCreditPayload(100));
    const auto rest = peer.Expect(FrameType::kData);
    EXPECT_EQ(rest.payload, "456789");
    EXPECT_EQ(rest.header.flags, 1);
    EXPECT_EQ(peer.Expect(FrameType::kEnd).header.flags, 1);
    EndExec(peer, stream);
  });

  auto exec = server.client().StartExec(kParams);
  EXPECT_EQ(*exec->WriteStdin(absl::string_view("0123456789")), 4u);
  EXPECT_EQ(exec->Next()->kind, Kind::kStdinReady);
  EXPECT_EQ(*exec->WriteStdin(absl::string_view("456789")), 6u);
  EXPECT_TRUE(exec->CloseStdin().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(exec->WriteStdin(absl::string_view("x")).status()));
  EXPECT_EQ(RunToEnd(*exec), "exit:0 out-end err-end done");
}

TEST(ExecStreamTest, WithoutAPipeStdinIsRefusedHere) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    EndExec(peer, StartExec(peer));
  });

  auto exec = server.client().StartExec({{"sandbox", "box"}, {"argv", {"cat"}}});

  EXPECT_TRUE(absl::IsFailedPrecondition(exec->WriteStdin(absl::string_view("x")).status()));
  EXPECT_EQ(RunToEnd(*exec), "exit:0 out-end err-end done");
}

// The server reads no input for a while, and gives far more credit than the socket holds.
TEST(ExecStreamTest, AFullSocketHoldsInputBackAndNothingIsLost) {
  static constexpr size_t kTotal = 6 << 20;
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    const uint64_t stream = StartExec(peer);
    peer.Send(FrameType::kCredit, 1, stream, wire::EncodeCreditPayload(kTotal));
    std::string input;
    for (;;) {
      const auto frame = peer.Read();
      if (frame.header.type == FrameType::kEnd) break;
      ASSERT_EQ(frame.header.type, FrameType::kData);
      if (input.size() < 100000) absl::SleepFor(absl::Milliseconds(20));
      input += frame.payload;
    }
    EXPECT_EQ(input.size(), kTotal);
    for (size_t i = 0; i < input.size(); i += 997) {
      ASSERT_EQ(input[i], static_cast<char>(i % 251));
    }
    EndExec(peer, stream);
  });

  std::string input(kTotal, '\0');
  for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<char>(i % 251);
  auto exec = server.client().StartExec(kParams);
  absl::Span<const char> left = input;
  int waits = 0;
  for (;;) {
    left.remove_prefix(*exec->WriteStdin(left));
    if (left.empty()) break;
    ASSERT_EQ(exec->Next()->kind, Kind::kStdinReady);
    ++waits;
  }
  EXPECT_TRUE(exec->CloseStdin().ok());

  EXPECT_EQ(RunToEnd(*exec), "exit:0 out-end err-end done");
  EXPECT_GT(waits, 0);
}

TEST(ExecStreamTest, ForAPollLoopTheEventsToWaitForAreTold) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    const uint64_t stream = StartExec(peer);
    absl::SleepFor(absl::Milliseconds(10));
    peer.Send(FrameType::kData, 2, stream, "late");
    EndExec(peer, stream);
  });

  auto exec = server.client().StartExec(kParams);
  std::string output;
  for (bool done = false; !done;) {
    const auto event = exec->Next(absl::ZeroDuration());
    ASSERT_TRUE(event.ok());
    if (event->kind == Kind::kStdout) absl::StrAppend(&output, Text(*event));
    done = event->kind == Kind::kDone;
    if (event->kind != Kind::kNothing) continue;
    pollfd poller{exec->fd(), exec->poll_events(), 0};
    ASSERT_EQ(poll(&poller, 1, 10000), 1);
  }

  EXPECT_EQ(output, "late");
}

TEST(ExecStreamTest, TwoExecsShareAConnectionWithoutLosingOrder) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    const uint64_t a = StartExec(peer, 1);
    const uint64_t b = StartExec(peer, 2);
    for (const char* text : {"1", "2", "3"}) {
      peer.Send(FrameType::kData, 2, a, absl::StrCat("a", text));
      peer.Send(FrameType::kData, 2, b, absl::StrCat("b", text));
    }
    EndExec(peer, a);
    EndExec(peer, b);
  });

  auto a = server.client().StartExec(kParams);
  auto b = server.client().StartExec(kParams);

  EXPECT_EQ(Text(*b->Next()), "b1");
  EXPECT_EQ(RunToEnd(*a), "out:a1 out:a2 out:a3 exit:0 out-end err-end done");
  EXPECT_EQ(RunToEnd(*b), "out:b2 out:b3 exit:0 out-end err-end done");
}

TEST(ExecStreamTest, SignalWaitsForItsAnswerAndKeepsTheOutput) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    const uint64_t stream = StartExec(peer, 3);
    const auto request = peer.Expect(FrameType::kRequest);
    EXPECT_EQ(request.json(),
              (json{{"op", "exec.signal"},
                    {"params", {{"sandbox", "box"}, {"exec", 3}, {"signal", 15}, {"all", true}}}}));
    peer.Send(FrameType::kData, 2, stream, "meanwhile");
    peer.SendJson(FrameType::kReply, request.header.stream, json::object());
    EndExec(peer, stream);
  });

  auto exec = server.client().StartExec(kParams);

  EXPECT_TRUE(exec->Signal(15, /*all=*/true).ok());
  EXPECT_EQ(RunToEnd(*exec), "out:meanwhile exit:0 out-end err-end done");
}

TEST(ExecStreamTest, CancelAsksForTheEndAndItsEventsStillCome) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    const uint64_t stream = StartExec(peer);
    EXPECT_EQ(peer.Expect(FrameType::kCancel).header.stream, stream);
    EndExec(peer, stream);
  });

  auto exec = server.client().StartExec(kParams);
  exec->Cancel();

  EXPECT_EQ(RunToEnd(*exec), "exit:0 out-end err-end done");
}

TEST(ExecStreamTest, AStreamThatIsDroppedIsCancelledAndItsFramesIgnored) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    const uint64_t stream = StartExec(peer);
    EXPECT_EQ(peer.Expect(FrameType::kCancel).header.stream, stream);
    const uint64_t call = peer.TakeRequest("daemon.info");
    peer.Send(FrameType::kData, 2, stream, "nobody wants this");
    EndExec(peer, stream);
    peer.SendJson(FrameType::kReply, call, json::object());
  });

  { auto exec = server.client().StartExec(kParams); }

  EXPECT_TRUE(server.client().Call("daemon.info").ok());
}

TEST(ExecStreamTest, AMovedStreamGoesOnAndAssignmentCancelsTheOldOne) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    const uint64_t a = StartExec(peer, 1);
    const uint64_t b = StartExec(peer, 2);
    EXPECT_EQ(peer.Expect(FrameType::kCancel).header.stream, a);
    peer.Send(FrameType::kData, 2, b, "b");
    EndExec(peer, b);
  });

  ExecStream stream = *server.client().StartExec(kParams);
  stream = *server.client().StartExec(kParams);

  EXPECT_EQ(stream.exec(), 2);
  EXPECT_EQ(RunToEnd(stream), "out:b exit:0 out-end err-end done");
}

TEST(ExecStreamTest, AServerThatClosesIsConnectionLost) {
  ScriptedServer server([](Peer& peer) {
    peer.Greet();
    const uint64_t stream = StartExec(peer);
    peer.Send(FrameType::kData, 2, stream, "last words");
    peer.Close();
  });

  auto exec = server.client().StartExec(kParams);

  EXPECT_EQ(RunToEnd(*exec), "out:last words CONNECTION_LOST");
  EXPECT_EQ(*exec->WriteStdin(absl::string_view("x")), 1u);  // Lost with the connection.
}

}  // namespace
}  // namespace sandboxd::client
