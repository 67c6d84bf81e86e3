#include "sandboxd/client/client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/socket.h"
#include "base/status.h"
#include "sandboxd/wire/error.h"
#include "sandboxd/wire/json.h"

namespace sandboxd::client {
namespace {

constexpr size_t kReadAtOnce = 256 << 10;

absl::Status CannotConnect(const std::string& socket, const absl::Status& status) {
  const std::string error = DetailOf(status).error;
  if (error == "ENOENT" || error == "ECONNREFUSED") {
    return absl::UnavailableError(absl::StrCat(
        "no daemon listens at ", socket,
        "; start one with `sandboxd`, or name its socket with --socket or SANDBOXD_SOCKET"));
  }
  if (error == "EACCES") {
    return absl::PermissionDeniedError(
        absl::StrCat("you may not use ", socket, "; be root or in the socket's group"));
  }
  return status;
}

}  // namespace

std::string DefaultSocket() {
  const char* socket = getenv("SANDBOXD_SOCKET");
  return socket != nullptr && *socket != '\0' ? socket : "/run/sandboxd/sandboxd.sock";
}

absl::StatusOr<Client> Client::Connect(const std::string& socket, absl::string_view name) {
  auto fd = ConnectUnix(socket, SOCK_STREAM);
  if (!fd.ok()) return CannotConnect(socket, fd.status());
  Client client(*std::move(fd));
  const nlohmann::json hello = {{"protocol", 1}, {"client", std::string(name)}};
  RETURN_IF_ERROR(client.Send(wire::EncodeFrame(wire::FrameType::kHello, 0, 0, hello.dump())));
  return client;
}

absl::Status Client::Send(absl::string_view frame) {
  while (!frame.empty()) {
    const ssize_t n = send(socket_.get(), frame.data(), frame.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::UnavailableError("the daemon closed the connection");
    frame.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Client::Open(absl::string_view op, const nlohmann::json& params) {
  const uint64_t stream = next_stream_++;
  const nlohmann::json request = {{"op", std::string(op)}, {"params", params}};
  RETURN_IF_ERROR(
      Send(wire::EncodeFrame(wire::FrameType::kRequest, 0, stream, request.dump())));
  return stream;
}

absl::StatusOr<nlohmann::json> Client::Call(absl::string_view op, const nlohmann::json& params) {
  ASSIGN_OR_RETURN(const uint64_t stream, Open(op, params));
  while (true) {
    ASSIGN_OR_RETURN(Frame frame, Read());
    if (frame.stream != stream) continue;
    if (frame.type == wire::FrameType::kReply) return std::move(frame.body);
    if (frame.type == wire::FrameType::kError) return wire::StatusFromBody(frame.body);
  }
}

absl::StatusOr<Frame> Client::Read(absl::Duration timeout) {
  while (true) {
    while (frames_.empty()) RETURN_IF_ERROR(Receive(timeout));
    Frame frame = std::move(frames_.front());
    frames_.pop_front();
    if (frame.type == wire::FrameType::kHello) {
      const nlohmann::json& limits = frame.body["limits"];
      if (limits.is_object()) initial_credit_ = limits.value("initial_credit", initial_credit_);
      continue;
    }
    if (frame.type == wire::FrameType::kError && frame.stream == 0) {
      return wire::StatusFromBody(frame.body);
    }
    if (frame.type == wire::FrameType::kData) {
      RETURN_IF_ERROR(Send(wire::EncodeFrame(wire::FrameType::kCredit,
                                             static_cast<uint8_t>(frame.channel), frame.stream,
                                             wire::EncodeCreditPayload(frame.data.size()))));
    }
    return frame;
  }
}

absl::Status Client::Receive(absl::Duration timeout) {
  if (timeout != absl::InfiniteDuration()) {
    pollfd fd = {socket_.get(), POLLIN, 0};
    const int rc = poll(&fd, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
    if (rc == 0) return absl::DeadlineExceededError("the daemon did not answer in time");
  }
  static char buffer[kReadAtOnce];
  const ssize_t n = recv(socket_.get(), buffer, sizeof buffer, 0);
  if (n < 0 && errno == EINTR) return absl::OkStatus();
  if (n <= 0) return absl::UnavailableError("the daemon closed the connection");
  return reader_->Feed(absl::MakeConstSpan(buffer, static_cast<size_t>(n)),
                       [this](const wire::FrameHeader& header, absl::Span<const char> payload) {
                         auto frame = Decode(header, payload);
                         if (!frame.ok()) return frame.status();
                         frames_.push_back(*std::move(frame));
                         return absl::OkStatus();
                       });
}

absl::StatusOr<Frame> Client::Decode(const wire::FrameHeader& header,
                                     absl::Span<const char> payload) {
  Frame frame;
  frame.type = header.type;
  frame.stream = header.stream;
  frame.channel = static_cast<wire::Channel>(header.flags);
  if (header.type == wire::FrameType::kData) {
    frame.data.assign(payload.data(), payload.size());
  } else if (header.type == wire::FrameType::kCredit) {
    ASSIGN_OR_RETURN(frame.credit, wire::DecodeCredit(payload));
  } else if (header.type != wire::FrameType::kEnd && header.type != wire::FrameType::kPing) {
    ASSIGN_OR_RETURN(frame.body,
                     wire::ParseObject(absl::string_view(payload.data(), payload.size())));
  }
  return frame;
}

absl::Status Client::SendData(uint64_t stream, absl::string_view data) {
  return Send(wire::EncodeFrame(wire::FrameType::kData,
                                static_cast<uint8_t>(wire::Channel::kStdin), stream, data));
}

absl::Status Client::SendEnd(uint64_t stream, wire::Channel channel) {
  return Send(
      wire::EncodeFrame(wire::FrameType::kEnd, static_cast<uint8_t>(channel), stream, ""));
}

absl::Status Client::SendCancel(uint64_t stream) {
  return Send(wire::EncodeFrame(wire::FrameType::kCancel, 0, stream, ""));
}

}  // namespace sandboxd::client
