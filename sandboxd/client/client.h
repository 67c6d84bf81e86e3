#ifndef SANDBOXD_CLIENT_CLIENT_H_
#define SANDBOXD_CLIENT_CLIENT_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/unique_fd.h"
#include "sandboxd/wire/frame.h"

namespace sandboxd::client {

// SANDBOXD_SOCKET, else /run/sandboxd/sandboxd.sock.
std::string DefaultSocket();

// One frame from the daemon, decoded.
struct Frame {
  wire::FrameType type = wire::FrameType::kReply;
  wire::Channel channel = wire::Channel::kStream;
  uint64_t stream = 0;
  nlohmann::json body;  // Of control frames.
  std::string data;     // Of Data.
  uint64_t credit = 0;  // Of Credit.
};

// A blocking connection to the daemon, for one thread. Errors of the daemon come as statuses with
// their reason and object attached (base/status.h, DetailOf).
class Client {
 public:
  // Connects and says Hello. UNAVAILABLE, with what to do next, where no daemon listens.
  static absl::StatusOr<Client> Connect(const std::string& socket, absl::string_view name);

  // One request, one answer.
  absl::StatusOr<nlohmann::json> Call(absl::string_view op, const nlohmann::json& params);

  // Opens a stream; its frames come from Read(). Returns its number.
  absl::StatusOr<uint64_t> Open(absl::string_view op, const nlohmann::json& params);

  // The next frame of any stream. Data is credited back at once: the caller is expected to consume
  // it before the next call. DEADLINE_EXCEEDED after `timeout`.
  absl::StatusOr<Frame> Read(absl::Duration timeout = absl::InfiniteDuration());

  // Sends input of a stream, at most 64 KiB at a time and within the credit that the daemon gave.
  absl::Status SendData(uint64_t stream, absl::string_view data);
  absl::Status SendEnd(uint64_t stream, wire::Channel channel);
  absl::Status SendCancel(uint64_t stream);

  // For the caller's own poll(2): readable means that Read() has something. pending() is true where
  // frames have been received already.
  int fd() const { return socket_.get(); }
  bool pending() const { return !frames_.empty(); }

  // Bytes that a channel starts with, as the daemon said.
  uint64_t initial_credit() const { return initial_credit_; }

 private:
  explicit Client(UniqueFd socket) : socket_(std::move(socket)) {}
  absl::Status Send(absl::string_view frame);
  absl::Status Receive(absl::Duration timeout);
  absl::StatusOr<Frame> Decode(const wire::FrameHeader& header, absl::Span<const char> payload);

  UniqueFd socket_;
  std::unique_ptr<wire::FrameReader> reader_ =
      std::make_unique<wire::FrameReader>(wire::Direction::kToClient);
  std::deque<Frame> frames_;
  uint64_t next_stream_ = 1;
  uint64_t initial_credit_ = 262144;
};

}  // namespace sandboxd::client

#endif  // SANDBOXD_CLIENT_CLIENT_H_
