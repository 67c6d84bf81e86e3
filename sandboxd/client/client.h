// The C++ client of sandboxd.
//
//   ASSIGN_OR_RETURN(auto client, Client::Connect());
//   ASSIGN_OR_RETURN(auto created, client.Call("sandbox.create", {{"image", "host"}}));
//   ASSIGN_OR_RETURN(auto exec, client.StartExec({{"sandbox", created["sandbox"]["id"]},
//                                                 {"argv", {"echo", "hello"}}}));
//   for (;;) {
//     ASSIGN_OR_RETURN(const ExecEvent event, exec.Next());
//     if (event.kind == ExecEvent::Kind::kStdout) Print(event.data);
//     if (event.kind == ExecEvent::Kind::kDone) break;
//   }
//
// Operations, their parameters and replies are those of docs/protocol.md, as JSON; byte strings
// that may not be UTF-8 go through wire::BytesToJson(). Errors of the daemon are statuses with
// code, message, and reason, object, stage and errno attached: sandboxd::DetailOf(status), of
// base/status.h.
#ifndef SANDBOXD_CLIENT_CLIENT_H_
#define SANDBOXD_CLIENT_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/status.h"  // IWYU pragma: export
#include "base/unique_fd.h"
#include "sandboxd/client/event_stream.h"  // IWYU pragma: export
#include "sandboxd/client/exec_stream.h"   // IWYU pragma: export
#include "sandboxd/wire/bytes.h"           // IWYU pragma: export
#include "sandboxd/wire/frame.h"

namespace sandboxd::client {

struct Options {
  std::string socket;  // Empty: $SANDBOXD_SOCKET, else /run/sandboxd/sandboxd.sock.
  std::string name = "sandboxd-client/0.1.0";  // For the daemon's log: name/version.
  absl::Duration connect_timeout = absl::Seconds(10);
};

// The path of the socket when nothing names one: $SANDBOXD_SOCKET, else the daemon's default.
std::string DefaultSocket();

// One frame, decoded, as Read() gives it.
struct Frame {
  wire::FrameType type = wire::FrameType::kReply;
  wire::Channel channel = wire::Channel::kStream;
  uint64_t stream = 0;
  nlohmann::json body;  // Of control frames.
  std::string data;     // Of Data.
  uint64_t credit = 0;  // Of Credit.
};

// One connection to the daemon, for one thread. Any number of streams may be open on it at a time:
// while the caller waits for one, what comes for others is kept, within the credit they have.
// Streams share the connection, and keep it open after the client has gone. Timeouts are those of
// one call; absl::ZeroDuration() never waits.
//
// An error of one request leaves the connection usable. CONNECTION_LOST, PROTOCOL_ERROR, and what
// the daemon says before it closes are final: connect again.
class Client {
 public:
  Client(Client&&) = default;
  Client& operator=(Client&&) = default;

  // Connects and says Hello, whose answer is read when it comes: requests do not wait for it.
  // UNAVAILABLE (reason DAEMON_UNREACHABLE) where no daemon listens, PERMISSION_DENIED
  // (SOCKET_NOT_ALLOWED) where the caller may not use the socket; the message says what to do.
  static absl::StatusOr<Client> Connect(const Options& options = Options());
  static absl::StatusOr<Client> Connect(const std::string& socket, absl::string_view name);
  // Says Hello on a connected stream socket.
  static Client FromSocket(UniqueFd socket, const std::string& name);

  // One request, one answer. On DEADLINE_EXCEEDED (reason NO_ANSWER) the request was cancelled, and
  // may have been carried out. With operations that open a stream use the functions below.
  absl::StatusOr<nlohmann::json> Call(absl::string_view op,
                                      const nlohmann::json& params = nlohmann::json::object(),
                                      absl::Duration timeout = absl::InfiniteDuration());

  // exec.start. Returns when the program runs, or why it does not.
  absl::StatusOr<ExecStream> StartExec(const nlohmann::json& params,
                                       absl::Duration timeout = absl::InfiniteDuration());

  // sandbox.events.
  absl::StatusOr<EventStream> Subscribe(const nlohmann::json& params = nlohmann::json::object(),
                                        absl::Duration timeout = absl::InfiniteDuration());

  // The daemon said that it shuts down: new requests will be refused.
  bool draining() const;
  // The daemon's Hello; null until it was read, which any call does.
  const nlohmann::json& hello() const;

  // For the caller's own poll(2), with the events of poll_events(). Poll only when pending() is
  // false: frames may have been received already.
  int fd() const;
  short poll_events() const;
  bool pending() const;

  // Frames one by one, for programs that handle streams themselves. Not to be mixed with streams of
  // the functions above.
  absl::StatusOr<uint64_t> Open(absl::string_view op, const nlohmann::json& params);
  // The next frame of any stream. Data counts as consumed at the next call. DEADLINE_EXCEEDED
  // (reason NO_ANSWER) after `timeout`.
  absl::StatusOr<Frame> Read(absl::Duration timeout = absl::InfiniteDuration());
  // Waits until the socket took it. The caller keeps to the credit that Read() told:
  // FAILED_PRECONDITION where there is none left.
  absl::Status SendData(uint64_t stream, absl::string_view data);
  absl::Status SendEnd(uint64_t stream, wire::Channel channel);
  absl::Status SendCancel(uint64_t stream);
  // What each channel starts with.
  uint64_t initial_credit() const;

 private:
  explicit Client(std::shared_ptr<Link> link) : link_(std::move(link)) {}

  std::shared_ptr<Link> link_;
  // What the caller of Read() has not consumed yet.
  uint64_t read_stream_ = 0;
  wire::Channel read_channel_ = wire::Channel::kStream;
  size_t read_bytes_ = 0;
};

}  // namespace sandboxd::client

#endif  // SANDBOXD_CLIENT_CLIENT_H_
