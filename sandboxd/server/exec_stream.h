#ifndef SANDBOXD_SERVER_EXEC_STREAM_H_
#define SANDBOXD_SERVER_EXEC_STREAM_H_

#include <cstdint>
#include <memory>
#include <string>

#include "sandboxd/server/connection.h"
#include "sandboxd/server/pump.h"
#include "sandboxd/server/sandboxes.h"

namespace sandboxd::server {

// An exec of a client, on the stream that started it: its output through two pumps, its input from
// the client's Data, its end. When the client goes away, the exec is killed.
class ExecStream : public Stream, public ExecObserver {
 public:
  ExecStream(Connection& connection, uint64_t stream, Sandboxes& sandboxes, Sandbox& sandbox);
  ~ExecStream() override;

  // Starts it. On failure the caller answers with the error.
  absl::Status Start(Sandbox::ExecRequest request);

  // Stream
  void OnCancel() override;
  absl::Status OnData(wire::Channel channel, absl::Span<const char> data) override;
  absl::Status OnEnd(wire::Channel channel) override;
  absl::Status OnCredit(wire::Channel channel, uint64_t bytes) override;
  void OnProgress() override { Advance(); }

  // ExecObserver
  void OnStarted(uint64_t exec, pid_t pid_inside, std::vector<UniqueFd> fds) override;
  void OnFailed(const absl::Status& status) override;
  void OnExited(ExecEnd& end) override;

 private:
  struct Output {
    std::unique_ptr<Pump> pump;
    uint64_t credit_early = 0;  // Granted before the pipe was here.
    uint64_t at_exit = 0;       // Bytes that existed when the process ended.
    uint64_t total = 0;
    bool ended = false;
  };

  Sandbox* sandbox();
  Output* OutputOf(wire::Channel channel);
  void Advance();
  void EndOutput(Output& output, wire::Channel channel);
  void WriteInput();
  void WatchInput(uint32_t events);
  void OnInputRefused();
  void CloseInput();
  void SetTimer(absl::Duration delay);

  Connection& connection_;
  const uint64_t stream_;
  Sandboxes& sandboxes_;
  const std::string sandbox_id_;
  const uid_t uid_;
  uint64_t exec_ = 0;
  bool started_ = false;
  bool stdin_wanted_ = false;
  UniqueFd stdin_;
  bool stdin_watched_ = false;
  uint32_t stdin_events_ = 0;
  bool stdin_end_ = false;  // The client sent End; what is queued goes first.
  std::string input_;       // Within the client's credit.
  uint64_t input_credit_;
  Output stdout_;
  Output stderr_;
  ExecEnd end_;
  bool exited_ = false;
  bool exit_sent_ = false;
  bool drained_ = false;
  bool done_ = false;
  bool timer_set_ = false;
  EventLoop::TimerId timer_;
};

}  // namespace sandboxd::server

#endif  // SANDBOXD_SERVER_EXEC_STREAM_H_
