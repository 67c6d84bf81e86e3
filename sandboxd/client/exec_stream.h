#ifndef SANDBOXD_CLIENT_EXEC_STREAM_H_
#define SANDBOXD_CLIENT_EXEC_STREAM_H_

#include <cstdint>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace sandboxd::client {

class Client;
class Link;

struct ExecEvent {
  enum class Kind {
    kNothing,  // The timeout passed.
    kStdout,   // Bytes of output, in `data`.
    kStderr,
    kStdoutEnd,  // No more of that output follows.
    kStderrEnd,
    kStdinReady,   // After a short WriteStdin(): more can be written.
    kStdinClosed,  // Nobody reads stdin any more: what is written is dropped.
    kExit,  // The process ended: `exit` is the specification's Exit. Output may still follow.
    kDone,  // The stream is over.
  };
  Kind kind = Kind::kNothing;
  // In the receive buffer, without a copy: valid until the next call on the client or any of its
  // streams.
  absl::Span<const char> data;
  nlohmann::json exit;
};

// A running exec: what it writes, what it reads, and how it ends. Destroying the stream before
// kDone cancels the exec, which kills it.
class ExecStream {
 public:
  ExecStream(ExecStream&&) = default;
  ExecStream& operator=(ExecStream&& other) noexcept;
  ~ExecStream() { Abandon(); }

  // The number of the exec within its sandbox, and the pid it has there.
  int64_t exec() const { return exec_; }
  int64_t pid() const { return pid_; }

  // Waits for the next event. Calling it is what lets the server send more: the bytes of an event
  // count as consumed at the next call. An error ends the stream: what the daemon says ended it, or
  // the connection's.
  absl::StatusOr<ExecEvent> Next(absl::Duration timeout = absl::InfiniteDuration());

  // Writes to the process's stdin, for an exec with "stdin": "pipe". Never waits: returns how much
  // was accepted, as credit and socket allowed; where that is not all, Next() will tell
  // kStdinReady. Once nobody reads it any more everything is accepted, and dropped.
  // FAILED_PRECONDITION without a pipe or after CloseStdin().
  absl::StatusOr<size_t> WriteStdin(absl::Span<const char> data);
  // The process reads end-of-file after what was written.
  absl::Status CloseStdin();

  // exec.signal: to the exec's process, or with `all` to every process that it started. Waits for
  // the answer; output that comes meanwhile is kept.
  absl::Status Signal(int signal, bool all = false,
                      absl::Duration timeout = absl::InfiniteDuration());
  // Asks that the exec be killed. Exit and the rest of its output still come.
  void Cancel();

  // For the caller's own poll(2): call Next(absl::ZeroDuration()) until it returns kNothing, then
  // poll for poll_events(). Both change with what is pending; ask each time.
  int fd() const;
  short poll_events() const;

 private:
  friend class Client;
  ExecStream(std::shared_ptr<Link> link, uint64_t stream, const nlohmann::json& params,
             const nlohmann::json& reply);
  void Abandon();

  std::shared_ptr<Link> link_;  // Null after a move.
  uint64_t stream_ = 0;
  nlohmann::json sandbox_;  // As the caller named it.
  int64_t exec_ = 0;
  int64_t pid_ = 0;
  bool stdin_open_ = false;
  bool stdin_wanted_ = false;  // A write was short.
  bool stdin_refused_ = false;
  bool exited_ = false;
  bool done_ = false;
  // What the last event showed: not consumed yet.
  uint8_t shown_channel_ = 0;
  size_t shown_bytes_ = 0;
};

}  // namespace sandboxd::client

#endif  // SANDBOXD_CLIENT_EXEC_STREAM_H_
