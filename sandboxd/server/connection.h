#ifndef SANDBOXD_SERVER_CONNECTION_H_
#define SANDBOXD_SERVER_CONNECTION_H_

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/event_loop.h"
#include "base/socket.h"
#include "base/unique_fd.h"
#include "sandboxd/server/config.h"
#include "sandboxd/server/pump.h"
#include "sandboxd/wire/frame.h"

namespace sandboxd::server {

class Connection;

// The server's side of one open stream. The connection owns it, and destroys it when the stream has
// ended or the connection has gone; the destructor therefore gives up whatever the operation held.
class Stream {
 public:
  virtual ~Stream() = default;

  // The client asked for the end of the stream.
  virtual void OnCancel() = 0;
  // Bytes of `channel` from the client, within the credit it has.
  virtual absl::Status OnData(wire::Channel channel, absl::Span<const char> data);
  virtual absl::Status OnEnd(wire::Channel channel);
  // Credit for a channel that this stream sends on.
  virtual absl::Status OnCredit(wire::Channel channel, uint64_t bytes);
  // A pump of this stream has sent something.
  virtual void OnProgress() {}
};

// What a connection asks of the daemon.
class RequestHandler {
 public:
  virtual ~RequestHandler() = default;
  // Answers through the connection, now or later. May open a Stream under `stream`.
  virtual void OnRequest(Connection& connection, uint64_t stream,
                         const nlohmann::json& request) = 0;
  // The body of the server's Hello; not OK where the client's cannot be served.
  virtual absl::StatusOr<nlohmann::json> OnHello(const nlohmann::json& hello) = 0;
  // The connection is over. Destroys it.
  virtual void OnClosed(Connection& connection, const absl::Status& why) = 0;
};

// One client: frames in, frames out, bounds. Control frames wait in a bounded queue; data frames
// are made when the socket takes them, the open pumps being served in turn.
class Connection {
 public:
  static absl::StatusOr<std::unique_ptr<Connection>> Create(EventLoop& loop, UniqueFd socket,
                                                            PeerCredentials peer,
                                                            const Config& config,
                                                            RequestHandler& handler);
  ~Connection();

  const PeerCredentials& peer() const { return peer_; }
  EventLoop& loop() { return loop_; }
  const Config& config() const { return config_; }

  // One of these answers each Request. Reply and Error end the stream unless it was opened.
  void Reply(uint64_t stream, const nlohmann::json& body);
  void Error(uint64_t stream, const absl::Status& status);

  // Makes the stream one of several frames. The Reply that opens it was sent by the caller.
  void OpenStream(uint64_t stream, std::unique_ptr<Stream> handler);
  bool HasStream(uint64_t stream) const { return streams_.contains(stream); }
  void SendExit(uint64_t stream, const nlohmann::json& body);
  void SendEvent(uint64_t stream, const nlohmann::json& body);
  void SendCredit(uint64_t stream, wire::Channel channel, uint64_t bytes);
  void SendEnd(uint64_t stream, wire::Channel channel);
  // Destroys an open stream without a frame, later in this turn: its one answer was sent.
  void CloseStream(uint64_t stream);
  // Sends End of channel 0 and destroys the stream, later in this turn of the loop.
  void EndStream(uint64_t stream);

  // Serves a pump's bytes on `stream`, until it is removed. The pump stays the caller's.
  void AddPump(uint64_t stream, Pump& pump);
  void RemovePump(Pump& pump);
  // Something may have become ready to send.
  void Kick();

  // Bytes of control frames that wait.
  size_t queued() const { return queued_; }
  // Tells a weak observer whether the connection still exists.
  std::weak_ptr<Connection*> observe() const { return self_; }

 private:
  struct Source {
    uint64_t stream;
    Pump* pump;
  };
  // The data frame that is being sent.
  struct Current {
    Pump* pump = nullptr;
    uint64_t stream = 0;
    size_t left = 0;
  };

  Connection(EventLoop& loop, UniqueFd socket, PeerCredentials peer, const Config& config,
             RequestHandler& handler);
  void OnSocket(uint32_t events);
  absl::Status ReadSome();
  void WorkOff();
  absl::Status Watch();
  absl::Status OnFrame(const wire::FrameHeader& header, absl::Span<const char> payload);
  absl::Status OnHelloFrame(absl::Span<const char> payload);
  absl::Status OnRequestFrame(uint64_t stream, absl::Span<const char> payload);
  void Queue(wire::FrameType type, uint8_t flags, uint64_t stream, absl::string_view payload);
  void Flush();
  absl::Status WriteSome();
  absl::Status WriteControl(bool& blocked);
  absl::Status WriteData(bool& blocked);
  bool BeginData();
  void Fail(const absl::Status& status);
  void Close(const absl::Status& why);
  void ArmFrameTimer();
  void DisarmFrameTimer();
  void ArmSendTimer(bool blocked);

  EventLoop& loop_;
  UniqueFd socket_;
  const PeerCredentials peer_;
  const Config& config_;
  RequestHandler& handler_;
  wire::FrameReader reader_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Stream>> streams_;  // Null: a single answer is due.
  std::deque<std::string> control_;
  size_t control_offset_ = 0;
  size_t queued_ = 0;
  std::vector<Source> sources_;
  size_t next_source_ = 0;
  Current current_;
  std::string header_left_;  // Of the current data frame.
  // Frames that came with more requests than one turn serves. Until it is empty nothing is read.
  std::deque<std::pair<wire::FrameHeader, std::string>> backlog_;
  absl::Status after_backlog_;  // What was wrong with the frame after the last of them.
  bool greeted_ = false;
  bool closing_ = false;  // An Error on stream 0 is on its way; nothing more is read.
  bool closed_ = false;
  bool flush_scheduled_ = false;
  bool wants_write_ = false;
  bool frame_timer_set_ = false;
  bool send_timer_set_ = false;
  EventLoop::TimerId frame_timer_;
  bool backlog_timer_set_ = false;
  EventLoop::TimerId send_timer_;
  EventLoop::TimerId backlog_timer_;
  std::shared_ptr<Connection*> self_ = std::make_shared<Connection*>(this);
};

}  // namespace sandboxd::server

#endif  // SANDBOXD_SERVER_CONNECTION_H_
