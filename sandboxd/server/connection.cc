#include "sandboxd/server/connection.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status.h"
#include "sandboxd/wire/error.h"
#include "sandboxd/wire/json.h"

namespace sandboxd::server {
namespace {

constexpr size_t kReadAtOnce = 256 << 10;
constexpr int kSendBuffer = 1 << 20;
constexpr size_t kGather = 16;
// Requests that one client is served before others have a turn.
constexpr int kRequestsAtOnce = 16;
// Turns of one flush, so that one client's bulk does not keep the loop from others.
constexpr int kFramesAtOnce = 32;

}  // namespace

absl::Status Stream::OnData(wire::Channel, absl::Span<const char>) {
  return wire::ProtocolError("data on a stream that takes none");
}

absl::Status Stream::OnEnd(wire::Channel) {
  return wire::ProtocolError("end of a channel that the stream does not have");
}

absl::Status Stream::OnCredit(wire::Channel, uint64_t) {
  return wire::ProtocolError("credit for a channel that the stream does not have");
}

Connection::Connection(EventLoop& loop, UniqueFd socket, PeerCredentials peer, const Config& config,
                       RequestHandler& handler)
    : loop_(loop),
      socket_(std::move(socket)),
      peer_(std::move(peer)),
      config_(config),
      handler_(handler),
      reader_(wire::Direction::kToServer) {}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Create(EventLoop& loop, UniqueFd socket,
                                                               PeerCredentials peer,
                                                               const Config& config,
                                                               RequestHandler& handler) {
  // More in flight means fewer turns for bulk output; refused, it stays as it is.
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kSendBuffer, sizeof kSendBuffer);
  auto connection = std::unique_ptr<Connection>(
      new Connection(loop, std::move(socket), std::move(peer), config, handler));
  RETURN_IF_ERROR(loop.Add(connection->socket_.get(), EPOLLIN,
                           [raw = connection.get()](uint32_t events) { raw->OnSocket(events); }));
  connection->ArmFrameTimer();
  return connection;
}

Connection::~Connection() {
  streams_.clear();
  if (frame_timer_set_) loop_.CancelTimer(frame_timer_);
  if (send_timer_set_) loop_.CancelTimer(send_timer_);
  if (backlog_timer_set_) loop_.CancelTimer(backlog_timer_);
  loop_.Remove(socket_.get());
}

void Connection::OnSocket(uint32_t events) {
  if (closed_) return;
  absl::Status status;
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) status = ReadSome();
  if (closed_) return;
  if (!status.ok()) return Fail(status);
  if ((events & EPOLLOUT) != 0) Flush();
}

absl::Status Connection::ReadSome() {
  static char buffer[kReadAtOnce];  // One loop, one thread: shared by all connections.
  const ssize_t n = recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return absl::OkStatus();
  if (n <= 0) {
    Close(n == 0 ? absl::OkStatus() : ErrnoError("reading from the client"));
    return absl::OkStatus();
  }
  if (closing_) return absl::OkStatus();
  bool completed = false;
  int requests = 0;
  absl::Status status =
      reader_.Feed(absl::MakeConstSpan(buffer, static_cast<size_t>(n)),
                   [&](const wire::FrameHeader& header, absl::Span<const char> payload) {
                     completed = true;
                     if (closed_ || closing_) return absl::OkStatus();
                     if (!backlog_.empty() || requests >= kRequestsAtOnce) {
                       backlog_.emplace_back(header, std::string(payload.data(), payload.size()));
                       return absl::OkStatus();
                     }
                     requests += header.type == wire::FrameType::kRequest;
                     return OnFrame(header, payload);
                   });
  if (closed_) return status;
  // The time is that of one frame: another has begun since.
  if (completed) DisarmFrameTimer();
  ArmFrameTimer();
  if (backlog_.empty()) return status;
  after_backlog_ = std::move(status);
  WorkOff();
  return absl::OkStatus();
}

// Serves the backlog, some in each turn of the loop.
void Connection::WorkOff() {
  if (backlog_timer_set_) return;
  backlog_timer_set_ = true;
  backlog_timer_ = loop_.After(absl::ZeroDuration(), [this] {
    backlog_timer_set_ = false;
    absl::Status status;
    for (int i = 0; i < kRequestsAtOnce && !backlog_.empty() && !closed_ && !closing_; ++i) {
      const auto [header, payload] = std::move(backlog_.front());
      backlog_.pop_front();
      status = OnFrame(header, payload);
      if (!status.ok()) break;
    }
    if (closed_) return;
    if (closing_ || !status.ok()) backlog_.clear();
    if (!backlog_.empty()) return WorkOff();
    if (status.ok()) status = std::exchange(after_backlog_, absl::OkStatus());
    if (status.ok()) status = Watch();
    ArmFrameTimer();
    if (!status.ok()) Fail(status);
  });
  const absl::Status status = Watch();
  if (!status.ok()) Close(status);
}

absl::Status Connection::Watch() {
  uint32_t events = 0;
  if (backlog_.empty()) events |= EPOLLIN;
  if (wants_write_) events |= EPOLLOUT;
  return loop_.Modify(socket_.get(), events);
}

void Connection::DisarmFrameTimer() {
  if (frame_timer_set_) loop_.CancelTimer(frame_timer_);
  frame_timer_set_ = false;
}

// A frame that was begun must end in time, and the first one must be Hello in time.
void Connection::ArmFrameTimer() {
  const bool needed = (!greeted_ || reader_.mid_frame()) && !closing_ && backlog_.empty();
  if (!needed) return DisarmFrameTimer();
  if (frame_timer_set_) return;
  frame_timer_set_ = true;
  frame_timer_ = loop_.After(absl::Milliseconds(config_.limits.frame_timeout_ms), [this] {
    frame_timer_set_ = false;
    Fail(ReasonError(absl::StatusCode::kDeadlineExceeded, "FRAME_TIMEOUT", "connection",
                     "a frame, or the first Hello, did not come in time"));
  });
}

absl::Status Connection::OnFrame(const wire::FrameHeader& header, absl::Span<const char> payload) {
  if (!greeted_) {
    if (header.type != wire::FrameType::kHello)
      return wire::ProtocolError("the first frame is not Hello");
    return OnHelloFrame(payload);
  }
  if (header.type == wire::FrameType::kRequest) return OnRequestFrame(header.stream, payload);
  if (header.type == wire::FrameType::kPing) {
    if (header.flags == 0) {
      Queue(wire::FrameType::kPing, 1, header.stream,
            absl::string_view(payload.data(), payload.size()));
    }
    return absl::OkStatus();
  }
  const auto it = streams_.find(header.stream);
  // Frames for a stream that has ended crossed its end.
  if (it == streams_.end()) return absl::OkStatus();
  Stream* stream = it->second.get();
  const wire::Channel channel = static_cast<wire::Channel>(header.flags);
  switch (header.type) {
    case wire::FrameType::kData:
      if (stream == nullptr) return wire::ProtocolError("data on a stream that takes none");
      return stream->OnData(channel, payload);
    case wire::FrameType::kEnd:
      if (stream == nullptr) return wire::ProtocolError("end on a stream that has no channels");
      return stream->OnEnd(channel);
    case wire::FrameType::kCredit: {
      if (stream == nullptr) return wire::ProtocolError("credit on a stream that has no channels");
      ASSIGN_OR_RETURN(const uint64_t bytes, wire::DecodeCredit(payload));
      return stream->OnCredit(channel, bytes);
    }
    case wire::FrameType::kCancel:
      // Without a stream its one answer is on the way: that it is not wanted changes nothing.
      if (stream != nullptr) stream->OnCancel();
      return absl::OkStatus();
    case wire::FrameType::kHello:
      return wire::ProtocolError("a second Hello");
    case wire::FrameType::kRequest:
    case wire::FrameType::kPing:
    case wire::FrameType::kReply:
    case wire::FrameType::kError:
    case wire::FrameType::kExit:
    case wire::FrameType::kEvent:
      break;  // Handled above, or refused by the reader as of the wrong direction.
  }
  return absl::OkStatus();
}

absl::Status Connection::OnHelloFrame(absl::Span<const char> payload) {
  ASSIGN_OR_RETURN(const nlohmann::json hello,
                   wire::ParseObject(absl::string_view(payload.data(), payload.size())));
  ASSIGN_OR_RETURN(const nlohmann::json answer, handler_.OnHello(hello));
  greeted_ = true;
  Queue(wire::FrameType::kHello, 0, 0, wire::DumpObject(answer));
  return absl::OkStatus();
}

absl::Status Connection::OnRequestFrame(uint64_t stream, absl::Span<const char> payload) {
  if (streams_.contains(stream)) return wire::ProtocolError("a request on a stream that is open");
  if (streams_.size() >= static_cast<size_t>(config_.limits.streams_per_connection)) {
    Error(stream, ReasonError(absl::StatusCode::kResourceExhausted, "TOO_MANY_STREAMS",
                              "limits.streams_per_connection",
                              absl::StrCat("this connection has ", streams_.size(),
                                           " open streams, the most that are allowed")));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const nlohmann::json request,
                   wire::ParseObject(absl::string_view(payload.data(), payload.size())));
  streams_.emplace(stream, nullptr);
  handler_.OnRequest(*this, stream, request);
  return absl::OkStatus();
}

void Connection::Queue(wire::FrameType type, uint8_t flags, uint64_t stream,
                       absl::string_view payload) {
  if (closed_) return;
  control_.push_back(wire::EncodeFrame(type, flags, stream, payload));
  queued_ += control_.back().size();
  if (queued_ > static_cast<size_t>(config_.limits.queued_control_bytes)) {
    Close(ReasonError(absl::StatusCode::kResourceExhausted, "TOO_SLOW", "connection",
                      "the client does not read its replies"));
    return;
  }
  Kick();
}

void Connection::Reply(uint64_t stream, const nlohmann::json& body) {
  const std::string payload = wire::DumpObject(body);
  if (payload.size() > wire::kMaxControlBytes) {
    return Error(stream,
                 ReasonError(absl::StatusCode::kResourceExhausted, "REPLY_TOO_LARGE", "reply",
                             absl::StrCat("the reply would have ", payload.size(), " bytes")));
  }
  const auto it = streams_.find(stream);
  if (it != streams_.end() && it->second == nullptr) streams_.erase(it);
  Queue(wire::FrameType::kReply, 0, stream, payload);
}

void Connection::Error(uint64_t stream, const absl::Status& status) {
  std::string payload = wire::DumpObject(wire::ErrorBody(status));
  if (payload.size() > wire::kMaxControlBytes) {  // It repeats what the client sent.
    payload = wire::DumpObject(wire::ErrorBody(
        ReasonError(status.code(), DetailOf(status).reason, "", "too long to be shown")));
  }
  Queue(wire::FrameType::kError, 0, stream, payload);
  CloseStream(stream);
}

void Connection::OpenStream(uint64_t stream, std::unique_ptr<Stream> handler) {
  streams_[stream] = std::move(handler);
}

void Connection::SendExit(uint64_t stream, const nlohmann::json& body) {
  Queue(wire::FrameType::kExit, 0, stream, wire::DumpObject(body));
}

void Connection::SendEvent(uint64_t stream, const nlohmann::json& body) {
  Queue(wire::FrameType::kEvent, 0, stream, wire::DumpObject(body));
}

void Connection::SendCredit(uint64_t stream, wire::Channel channel, uint64_t bytes) {
  Queue(wire::FrameType::kCredit, static_cast<uint8_t>(channel), stream,
        wire::EncodeCreditPayload(bytes));
}

void Connection::SendEnd(uint64_t stream, wire::Channel channel) {
  Queue(wire::FrameType::kEnd, static_cast<uint8_t>(channel), stream, "");
}

void Connection::CloseStream(uint64_t stream) {
  const auto it = streams_.find(stream);
  if (it == streams_.end()) return;
  // The stream may be the caller: it is destroyed after its call.
  loop_.Defer([stream_object = std::move(it->second)] {});
  streams_.erase(it);
}

void Connection::EndStream(uint64_t stream) {
  if (!streams_.contains(stream)) return;
  CloseStream(stream);
  SendEnd(stream, wire::Channel::kStream);
}

void Connection::AddPump(uint64_t stream, Pump& pump) { sources_.push_back({stream, &pump}); }

void Connection::RemovePump(Pump& pump) {
  sources_.erase(std::remove_if(sources_.begin(), sources_.end(),
                                [&](const Source& source) { return source.pump == &pump; }),
                 sources_.end());
  if (current_.pump != &pump) return;
  // Its frame was begun and cannot be finished: the client could not find the next one.
  if (current_.left > 0) Close(absl::AbortedError("an exec went away in the middle of a frame"));
  current_ = {};
}

void Connection::Kick() {
  if (flush_scheduled_ || closed_) return;
  flush_scheduled_ = true;
  loop_.Defer([self = observe()] {
    const auto connection = self.lock();
    if (connection == nullptr) return;
    (*connection)->flush_scheduled_ = false;
    (*connection)->Flush();
  });
}

void Connection::Flush() {
  if (closed_) return;
  const absl::Status status = WriteSome();
  if (closed_) return;
  if (!status.ok()) return Close(status);
  if (closing_ && control_.empty()) Close(absl::OkStatus());
}

absl::Status Connection::WriteSome() {
  bool blocked = false;
  bool more = false;
  for (int turn = 0; !blocked; ++turn) {
    if (current_.pump == nullptr && !control_.empty()) {
      RETURN_IF_ERROR(WriteControl(blocked));
      continue;
    }
    if (current_.pump == nullptr && (closing_ || !BeginData())) break;
    RETURN_IF_ERROR(WriteData(blocked));
    if (closed_) return absl::OkStatus();
    if (turn >= kFramesAtOnce) {
      more = true;
      break;
    }
  }
  if (blocked != wants_write_) {
    wants_write_ = blocked;
    RETURN_IF_ERROR(Watch());
  }
  ArmSendTimer(blocked);
  if (more) Kick();
  return absl::OkStatus();
}

void Connection::ArmSendTimer(bool blocked) {
  if (send_timer_set_) loop_.CancelTimer(send_timer_);
  send_timer_set_ = blocked;
  if (!blocked) return;
  send_timer_ = loop_.After(absl::Milliseconds(config_.limits.send_timeout_ms), [this] {
    send_timer_set_ = false;
    Close(absl::DeadlineExceededError("the client takes nothing of what waits for it"));
  });
}

absl::Status Connection::WriteControl(bool& blocked) {
  iovec parts[kGather];
  size_t count = 0;
  for (const std::string& frame : control_) {
    const size_t skip = count == 0 ? control_offset_ : 0;
    parts[count++] = {const_cast<char*>(frame.data()) + skip, frame.size() - skip};
    if (count == kGather) break;
  }
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  ssize_t n = sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n < 0 && errno == EINTR) return absl::OkStatus();
  if (n < 0 && errno == EAGAIN) {
    blocked = true;
    return absl::OkStatus();
  }
  if (n < 0) return ErrnoError("writing to the client");
  queued_ -= static_cast<size_t>(n);
  for (size_t left = static_cast<size_t>(n); left > 0;) {
    const size_t size = control_.front().size() - control_offset_;
    if (left < size) {
      control_offset_ += left;
      break;
    }
    left -= size;
    control_offset_ = 0;
    control_.pop_front();
  }
  return absl::OkStatus();
}

// Chooses the next pump with something to send, in turn, and begins its frame.
bool Connection::BeginData() {
  for (size_t i = 0; i < sources_.size(); ++i) {
    const Source& source = sources_[(next_source_ + i) % sources_.size()];
    const size_t size = source.pump->Ready();
    if (size == 0) continue;
    next_source_ = (next_source_ + i + 1) % sources_.size();
    const auto header = wire::EncodeHeader({.size = static_cast<uint32_t>(size),
                                            .type = wire::FrameType::kData,
                                            .flags = static_cast<uint8_t>(source.pump->channel()),
                                            .stream = source.stream});
    header_left_.assign(header.data(), header.size());
    source.pump->Spend(size);
    current_ = {source.pump, source.stream, size};
    return true;
  }
  return false;
}

absl::Status Connection::WriteData(bool& blocked) {
  if (!header_left_.empty()) {
    const ssize_t n = send(socket_.get(), header_left_.data(), header_left_.size(),
                           MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE);
    if (n < 0 && errno == EINTR) return absl::OkStatus();
    if (n < 0 && errno == EAGAIN) {
      blocked = true;
      return absl::OkStatus();
    }
    if (n < 0) return ErrnoError("writing to the client");
    header_left_.erase(0, static_cast<size_t>(n));
    if (!header_left_.empty()) return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const size_t moved, current_.pump->Move(socket_.get(), current_.left));
  if (moved == 0) {
    blocked = true;
    return absl::OkStatus();
  }
  current_.left -= moved;
  if (current_.left > 0) return absl::OkStatus();
  const auto it = streams_.find(current_.stream);
  current_ = {};
  if (it != streams_.end() && it->second != nullptr) it->second->OnProgress();
  return absl::OkStatus();
}

// Says why, then closes once that is on its way.
void Connection::Fail(const absl::Status& status) {
  if (closing_ || closed_) return;
  closing_ = true;
  Log(LogLevel::kInfo, "client refused",
      {{"uid", absl::StrCat(peer_.uid)}, {"error", std::string(status.message())}});
  streams_.clear();
  if (closed_) return;
  Queue(wire::FrameType::kError, 0, 0, wire::DumpObject(wire::ErrorBody(status)));
  ArmFrameTimer();
}

void Connection::Close(const absl::Status& why) {
  if (closed_) return;
  closed_ = true;
  // The caller may be one of our own callbacks.
  loop_.Defer([self = observe(), why] {
    const auto connection = self.lock();
    if (connection != nullptr) (*connection)->handler_.OnClosed(**connection, why);
  });
}

}  // namespace sandboxd::server
