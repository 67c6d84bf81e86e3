#include "sandboxd/client/exec_stream.h"

#include <optional>
#include <utility>

#include "base/status.h"
#include "sandboxd/client/link.h"
#include "sandboxd/wire/error.h"
#include "sandboxd/wire/json.h"

namespace sandboxd::client {
namespace {

using nlohmann::json;
using wire::Channel;
using wire::FrameType;
using Kind = ExecEvent::Kind;

int64_t NumberOf(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number_integer() ? it->get<int64_t>() : 0;
}

ExecEvent DataEvent(const wire::FrameView& frame) {
  const bool error = frame.header.flags == static_cast<uint8_t>(Channel::kStderr);
  return {error ? Kind::kStderr : Kind::kStdout, frame.payload, {}};
}

}  // namespace

ExecStream::ExecStream(std::shared_ptr<Link> link, uint64_t stream, const json& params,
                       const json& reply)
    : link_(std::move(link)),
      stream_(stream),
      sandbox_(params.value("sandbox", json())),
      exec_(NumberOf(reply, "exec")),
      pid_(NumberOf(reply, "pid")),
      stdin_open_(params.value("stdin", json()) == "pipe") {}

ExecStream& ExecStream::operator=(ExecStream&& other) noexcept {
  if (this == &other) return *this;
  Abandon();
  link_ = std::move(other.link_);
  stream_ = other.stream_;
  sandbox_ = std::move(other.sandbox_);
  exec_ = other.exec_;
  pid_ = other.pid_;
  stdin_open_ = other.stdin_open_;
  stdin_wanted_ = other.stdin_wanted_;
  exited_ = other.exited_;
  done_ = other.done_;
  shown_channel_ = other.shown_channel_;
  shown_bytes_ = other.shown_bytes_;
  return *this;
}

void ExecStream::Abandon() {
  if (link_ == nullptr) return;
  Cancel();
  link_->Forget(stream_);
  link_.reset();
}

absl::StatusOr<ExecEvent> ExecStream::Next(absl::Duration timeout) {
  if (shown_bytes_ > 0) {
    link_->Consumed(stream_, static_cast<Channel>(shown_channel_), shown_bytes_);
    shown_bytes_ = 0;
  }
  if (done_) return ExecEvent{.kind = Kind::kDone};
  ASSIGN_OR_RETURN(const Link::Wake wake, link_->Next(stream_, Deadline(timeout), stdin_wanted_));
  if (wake.kind == Link::Wake::Kind::kTimeout) return ExecEvent{};
  if (wake.kind == Link::Wake::Kind::kWritable) {
    stdin_wanted_ = false;
    return ExecEvent{.kind = Kind::kStdinReady};
  }
  const wire::FrameHeader& header = wake.frame.header;
  if (header.type == FrameType::kData) {
    shown_channel_ = header.flags;
    shown_bytes_ = header.size;
    return DataEvent(wake.frame);
  }
  if (header.type == FrameType::kEnd) {
    if (header.flags == static_cast<uint8_t>(Channel::kStdout)) return ExecEvent{Kind::kStdoutEnd};
    if (header.flags == static_cast<uint8_t>(Channel::kStderr)) return ExecEvent{Kind::kStderrEnd};
    if (header.flags == static_cast<uint8_t>(Channel::kStdin)) {
      stdin_refused_ = true;
      stdin_wanted_ = false;
      return ExecEvent{Kind::kStdinClosed};
    }
    done_ = true;
    link_->Forget(stream_);
    return ExecEvent{.kind = Kind::kDone};
  }
  ASSIGN_OR_RETURN(json body, wire::ParseObject({wake.frame.payload.data(), header.size}));
  if (header.type == FrameType::kExit) {
    exited_ = true;
    stdin_wanted_ = false;
    return ExecEvent{Kind::kExit, {}, std::move(body)};
  }
  done_ = true;
  link_->Forget(stream_);
  if (header.type == FrameType::kError) return wire::StatusFromBody(body);
  return ReasonError(absl::StatusCode::kInternal, "PROTOCOL_ERROR", "connection",
                     "the daemon sent a frame that an exec does not have");
}

absl::StatusOr<size_t> ExecStream::WriteStdin(absl::Span<const char> data) {
  if (!stdin_open_) {
    return absl::FailedPreconditionError("the exec's stdin is not a pipe, or was closed");
  }
  if (exited_ || done_ || stdin_refused_) return data.size();
  const size_t accepted = link_->SendData(stream_, Channel::kStdin, data);
  stdin_wanted_ = accepted < data.size();
  return accepted;
}

absl::Status ExecStream::CloseStdin() {
  if (!stdin_open_) return absl::OkStatus();
  stdin_open_ = false;
  stdin_wanted_ = false;
  if (!done_) {
    link_->SendControl(FrameType::kEnd, static_cast<uint8_t>(Channel::kStdin), stream_, "");
  }
  return absl::OkStatus();
}

absl::Status ExecStream::Signal(int signal, bool all, absl::Duration timeout) {
  json params = {{"sandbox", sandbox_}, {"exec", exec_}, {"signal", signal}};
  if (all) params["all"] = true;
  ASSIGN_OR_RETURN(const uint64_t stream, link_->Open("exec.signal", params));
  const auto reply = link_->Answer(stream, Deadline(timeout));
  link_->Forget(stream);
  return reply.status();
}

void ExecStream::Cancel() {
  if (!done_) link_->SendControl(FrameType::kCancel, 0, stream_, "");
}

int ExecStream::fd() const { return link_->fd(); }
short ExecStream::poll_events() const { return link_->poll_events(); }

}  // namespace sandboxd::client
