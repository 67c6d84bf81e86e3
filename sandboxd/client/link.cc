#include "sandboxd/client/link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sandboxd/wire/error.h"
#include "sandboxd/wire/json.h"

namespace sandboxd::client {
namespace {

using nlohmann::json;
using wire::Channel;
using wire::FrameType;
using wire::FrameView;

// What a channel may have in flight once its first bytes have shown that it is not just a few.
constexpr uint64_t kWideWindow = 1 << 20;
// Data is not taken from the caller while as much waits for the socket.
constexpr size_t kMaxPendingData = 256 << 10;
// Pings are not answered while as much waits: a server that sends them reads no answers.
constexpr size_t kMaxPending = 1 << 20;
constexpr size_t kMaxQueuedEvents = 1024;

absl::string_view View(absl::Span<const char> bytes) { return {bytes.data(), bytes.size()}; }

absl::Status ProtocolError(absl::string_view what) {
  return ReasonError(absl::StatusCode::kInternal, "PROTOCOL_ERROR", "connection",
                     absl::StrCat("the daemon breaks the protocol: ", what));
}

absl::Status Gone(absl::string_view what) {
  return ReasonError(absl::StatusCode::kUnavailable, "CONNECTION_LOST", "connection", what);
}

}  // namespace

Deadline::Deadline(absl::Duration timeout) {
  // Longer than a few years is for ever, and would overflow the clock.
  if (timeout > absl::Hours(24 * 365)) return;
  at_ = std::chrono::steady_clock::now() +
        std::chrono::nanoseconds(std::max<int64_t>(0, absl::ToInt64Nanoseconds(timeout)));
}

int Deadline::PollMillis() const {
  if (!at_.has_value()) return -1;
  const auto left = *at_ - std::chrono::steady_clock::now();
  const int64_t millis = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<int64_t>(millis, 0, std::numeric_limits<int>::max()));
}

Link::Link(UniqueFd socket, const std::string& client_name)
    : socket_(std::move(socket)), in_(wire::Direction::kToClient) {
  const json hello = {{"protocol", 1}, {"client", client_name}};
  SendControl(FrameType::kHello, 0, 0, wire::DumpObject(hello));
}

absl::StatusOr<uint64_t> Link::Open(absl::string_view op, const json& params) {
  if (!status_.ok()) return status_;
  json request = {{"op", std::string(op)}};
  if (!params.empty()) request["params"] = params;
  const std::string body = wire::DumpObject(request);
  if (body.size() > wire::kMaxControlBytes) {
    return ReasonError(absl::StatusCode::kInvalidArgument, "INVALID_FIELD", "params",
                       absl::StrCat("the request has ", body.size(), " bytes of JSON; at most ",
                                    wire::kMaxControlBytes, " can be sent"));
  }
  const uint64_t stream = next_stream_++;
  Stream& state = streams_[stream];
  for (Window& window : state.windows) window.send = window.receive = initial_credit_;
  SendControl(FrameType::kRequest, 0, stream, body);
  return stream;
}

Link::Stream* Link::Find(uint64_t stream) {
  const auto it = streams_.find(stream);
  return it == streams_.end() ? nullptr : &it->second;
}

absl::StatusOr<Link::Wake> Link::Next(uint64_t stream, Deadline deadline, bool until_writable) {
  Wake wake;
  if (TakeQueued(stream, wake.frame)) {
    wake.kind = Wake::Kind::kFrame;
    return wake;
  }
  bool timed_out = false;
  for (;;) {
    ASSIGN_OR_RETURN(const std::optional<FrameView> frame, PullFor(stream));
    if (frame.has_value()) return Wake{Wake::Kind::kFrame, *frame};
    Flush();
    if (until_writable && Accepts(stream, Channel::kStdin) > 0) {
      return Wake{Wake::Kind::kWritable, {}};
    }
    if (timed_out) return Wake{};
    bool blocked = false;
    status_ = Receive(blocked);
    if (!status_.ok()) return status_;
    if (!blocked) {
      // Other streams may have more and more to say.
      timed_out = deadline.PollMillis() == 0;
      continue;
    }
    status_ = Wait(deadline, timed_out);
    if (!status_.ok()) return status_;
  }
}

absl::StatusOr<json> Link::Answer(uint64_t stream, Deadline deadline) {
  const auto wake = Next(stream, deadline);
  absl::Status status = wake.status();
  if (wake.ok() && wake->kind == Wake::Kind::kTimeout) {
    SendControl(FrameType::kCancel, 0, stream, "");
    status = ReasonError(absl::StatusCode::kDeadlineExceeded, "NO_ANSWER", "connection",
                         "the daemon did not answer in time");
  } else if (wake.ok()) {
    const FrameType type = wake->frame.header.type;
    auto body = type == FrameType::kReply || type == FrameType::kError
                    ? wire::ParseObject(View(wake->frame.payload))
                    : ProtocolError("a stream begins without its Reply");
    if (body.ok() && type == FrameType::kReply) return body;
    if (!body.ok()) status_ = body.status();
    status = body.ok() ? wire::StatusFromBody(*body) : body.status();
  }
  Forget(stream);
  return status;
}

// Sorts what is in the buffer, until a frame of `stream` turns up.
absl::StatusOr<std::optional<FrameView>> Link::PullFor(uint64_t stream) {
  while (status_.ok()) {
    auto frame = in_.Pull();
    if (!frame.ok()) {
      status_ = ProtocolError(frame.status().message());
      break;
    }
    if (!frame->has_value()) return std::nullopt;
    bool deliver = false;
    status_ = Sort(**frame, stream, deliver);
    if (status_.ok() && deliver) return *frame;
  }
  return status_;
}

absl::Status Link::Sort(const FrameView& frame, uint64_t wanted, bool& deliver) {
  const wire::FrameHeader& header = frame.header;
  if (header.stream == 0) return OnConnectionFrame(frame);
  if (hello_.is_null()) return ProtocolError("its first frame is not Hello");
  Stream* const stream = Find(header.stream);
  if (stream == nullptr) return absl::OkStatus();  // Forgotten: it crossed the end.
  const bool any = wanted == kAnyStream;
  if (header.type == FrameType::kCredit) {
    deliver = any;
    return OnCredit(*stream, frame);
  }
  if (header.type == FrameType::kData) {
    Window& window = stream->windows[header.flags];
    if (header.size > window.receive) return ProtocolError("data beyond the credit");
    window.receive -= header.size;
  }
  deliver = any || header.stream == wanted;
  if (!deliver) Enqueue(*stream, frame);
  return absl::OkStatus();
}

absl::Status Link::OnConnectionFrame(const FrameView& frame) {
  if (frame.header.type == FrameType::kPing) {
    if (frame.header.flags == 0 && out_.size() - out_offset_ < kMaxPending) {
      SendControl(FrameType::kPing, wire::kPingAnswer, 0, View(frame.payload));
    }
    return absl::OkStatus();
  }
  if (frame.header.type == FrameType::kHello) return OnHello(frame);
  ASSIGN_OR_RETURN(const json body, wire::ParseObject(View(frame.payload)));
  if (frame.header.type == FrameType::kError) return wire::StatusFromBody(body);
  if (body.value("event", json()) == "drain") draining_ = true;
  return absl::OkStatus();
}

absl::Status Link::OnHello(const FrameView& frame) {
  if (!hello_.is_null()) return ProtocolError("a second Hello");
  ASSIGN_OR_RETURN(json hello, wire::ParseObject(View(frame.payload)));
  if (hello.value("protocol", json()) != 1) return ProtocolError("its Hello is not of version 1");
  const json limits = hello.value("limits", json::object());
  const json credit = limits.is_object() ? limits.value("initial_credit", json()) : json();
  if (credit.is_number_integer() && credit >= 0 && credit <= wire::kMaxCredit) {
    const uint64_t told = credit.get<uint64_t>();
    // Streams may have been opened before we knew.
    for (auto& [id, stream] : streams_) {
      for (Window& window : stream.windows) {
        for (uint64_t* bytes : {&window.send, &window.receive}) {
          *bytes = *bytes + told > initial_credit_ ? *bytes + told - initial_credit_ : 0;
        }
      }
    }
    initial_credit_ = told;
  }
  hello_ = std::move(hello);
  return absl::OkStatus();
}

absl::Status Link::OnCredit(Stream& stream, const FrameView& frame) {
  ASSIGN_OR_RETURN(const uint64_t bytes, wire::DecodeCredit(frame.payload));
  Window& window = stream.windows[frame.header.flags];
  if (bytes > wire::kMaxCredit - window.send) return ProtocolError("credit above 1 GiB");
  window.send += bytes;
  return absl::OkStatus();
}

void Link::Enqueue(Stream& stream, const FrameView& frame) {
  if (frame.header.type == FrameType::kEvent && ++stream.queued_events > kMaxQueuedEvents) {
    LoseOldestEvent(stream);
  }
  stream.queue.push_back({frame.header, std::string(View(frame.payload))});
}

// A stream of events has no other frames but its Reply and its end.
void Link::LoseOldestEvent(Stream& stream) {
  const auto oldest =
      std::find_if(stream.queue.begin(), stream.queue.end(),
                   [](const QueuedFrame& frame) { return frame.header.type == FrameType::kEvent; });
  const auto body = wire::ParseObject(oldest->payload);
  // The last one of a gap of the server's own is in "to".
  for (const char* key : {"seq", "from", "to"}) {
    if (!body.ok() || !body->contains(key) || !(*body)[key].is_number_integer()) continue;
    const int64_t number = (*body)[key].get<int64_t>();
    if (!stream.lost_from.has_value()) stream.lost_from = number;
    stream.lost_to = std::max(stream.lost_to, number);
  }
  stream.queue.erase(oldest);
  --stream.queued_events;
}

bool Link::HasFrame() const {
  if (!status_.ok() || in_.HasFrame()) return true;
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const auto& entry) { return !entry.second.queue.empty(); });
}

bool Link::TakeQueued(uint64_t id, FrameView& frame) {
  for (auto it = streams_.begin(); id == kAnyStream && it != streams_.end(); ++it) {
    if (!it->second.queue.empty()) id = it->first;
  }
  Stream* const stream = Find(id);
  if (stream == nullptr || stream->queue.empty()) return false;
  const bool event = stream->queue.front().header.type == FrameType::kEvent;
  if (event && stream->lost_from.has_value()) {
    const json gap = {{"event", "gap"}, {"from", *stream->lost_from}, {"to", stream->lost_to}};
    current_ = {{.type = FrameType::kEvent, .stream = id}, wire::DumpObject(gap)};
    current_.header.size = static_cast<uint32_t>(current_.payload.size());
    stream->lost_from.reset();
    stream->lost_to = 0;
  } else {
    current_ = std::move(stream->queue.front());
    stream->queue.pop_front();
    if (event) --stream->queued_events;
  }
  frame = {current_.header, current_.payload};
  return true;
}

absl::Status Link::Receive(bool& blocked) {
  const absl::Span<char> room = in_.Room();
  const ssize_t n = recv(socket_.get(), room.data(), room.size(), MSG_DONTWAIT);
  if (n > 0) {
    in_.Filled(static_cast<size_t>(n));
    return absl::OkStatus();
  }
  if (n == 0) {
    return Gone(in_.mid_frame() ? "the daemon closed the connection in the middle of a frame"
                                : "the daemon closed the connection");
  }
  if (errno == EAGAIN) blocked = true;
  if (errno == EAGAIN || errno == EINTR) return absl::OkStatus();
  return Gone(ErrnoError("reading from the daemon").message());
}

absl::Status Link::Wait(Deadline deadline, bool& timed_out) {
  pollfd poller{.fd = socket_.get(), .events = poll_events(), .revents = 0};
  const int n = poll(&poller, 1, deadline.PollMillis());
  if (n < 0 && errno != EINTR) return ErrnoError("waiting for the daemon");
  timed_out = n == 0;
  return absl::OkStatus();
}

absl::Status Link::WaitWritable() {
  if (!status_.ok()) return status_;
  if (out_.empty()) return absl::FailedPreconditionError("more data than there is credit for");
  pollfd poller{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
  if (poll(&poller, 1, -1) < 0 && errno != EINTR) return ErrnoError("waiting for the daemon");
  Flush();
  return absl::OkStatus();
}

short Link::poll_events() const { return out_.empty() ? POLLIN : POLLIN | POLLOUT; }

void Link::SendControl(FrameType type, uint8_t flags, uint64_t stream, absl::string_view body) {
  if (write_broken_) return;
  const auto header = wire::EncodeHeader({static_cast<uint32_t>(body.size()), type, flags, stream});
  absl::StrAppend(&out_, View(header), body);
  Flush();
}

size_t Link::Accepts(uint64_t stream, Channel channel) const {
  const auto it = streams_.find(stream);
  if (it == streams_.end() || out_.size() - out_offset_ >= kMaxPendingData) return 0;
  return it->second.windows[static_cast<size_t>(channel)].send;
}

size_t Link::SendData(uint64_t stream, Channel channel, absl::Span<const char> data) {
  size_t sent = 0;
  while (sent < data.size()) {
    const size_t size =
        std::min({data.size() - sent, Accepts(stream, channel), wire::kMaxDataBytes});
    if (size == 0) break;
    Find(stream)->windows[static_cast<size_t>(channel)].send -= size;
    const absl::Span<const char> part = data.subspan(sent, size);
    sent += size;
    if (write_broken_) continue;
    const auto header = wire::EncodeHeader(
        {static_cast<uint32_t>(size), FrameType::kData, static_cast<uint8_t>(channel), stream});
    size_t taken = 0;
    if (out_.empty()) {
      // The common case: the socket takes it from where it is.
      iovec parts[2] = {{const_cast<char*>(header.data()), header.size()},
                        {const_cast<char*>(part.data()), part.size()}};
      msghdr message = {};
      message.msg_iov = parts;
      message.msg_iovlen = 2;
      const ssize_t n = sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n > 0) taken = static_cast<size_t>(n);
    }
    if (taken == header.size() + size) continue;
    absl::StrAppend(&out_, View(header).substr(std::min(taken, header.size())),
                    View(part).substr(taken - std::min(taken, header.size())));
    Flush();
  }
  return sent;
}

void Link::Flush() {
  while (out_offset_ < out_.size() && !write_broken_) {
    const ssize_t n = send(socket_.get(), out_.data() + out_offset_, out_.size() - out_offset_,
                           MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0) {
      out_offset_ += static_cast<size_t>(n);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      // Reading tells why, or at least that the daemon has gone.
      write_broken_ = true;
    }
  }
  if (out_offset_ == out_.size() || write_broken_) {
    out_.clear();
    out_offset_ = 0;
  } else if (out_offset_ > kMaxPendingData) {
    out_.erase(0, out_offset_);
    out_offset_ = 0;
  }
}

void Link::Consumed(uint64_t id, Channel channel, size_t bytes) {
  Stream* const stream = Find(id);
  if (stream == nullptr) return;
  Window& window = stream->windows[static_cast<size_t>(channel)];
  window.consumed += bytes;
  // Seldom enough to cost little, early enough for the server never to stand still.
  if (window.consumed < (window.widened ? kWideWindow : initial_credit_) / 4) return;
  uint64_t credit = window.consumed;
  if (!window.widened && initial_credit_ < kWideWindow) credit += kWideWindow - initial_credit_;
  window.widened = true;
  window.consumed = 0;
  window.receive += credit;
  SendControl(FrameType::kCredit, static_cast<uint8_t>(channel), id,
              wire::EncodeCreditPayload(credit));
}

}  // namespace sandboxd::client
