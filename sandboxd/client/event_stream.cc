#include "sandboxd/client/event_stream.h"

#include <utility>

#include "base/status.h"
#include "sandboxd/client/link.h"
#include "sandboxd/wire/error.h"
#include "sandboxd/wire/json.h"

namespace sandboxd::client {

using nlohmann::json;
using wire::FrameType;

EventStream::EventStream(std::shared_ptr<Link> link, uint64_t stream, const json& reply)
    : link_(std::move(link)), stream_(stream) {
  const auto next = reply.find("next");
  if (next != reply.end() && next->is_number_integer()) next_ = next->get<int64_t>();
}

EventStream& EventStream::operator=(EventStream&& other) noexcept {
  if (this == &other) return *this;
  Abandon();
  link_ = std::move(other.link_);
  stream_ = other.stream_;
  next_ = other.next_;
  done_ = other.done_;
  return *this;
}

void EventStream::Abandon() {
  if (link_ == nullptr) return;
  Cancel();
  link_->Forget(stream_);
  link_.reset();
}

absl::StatusOr<std::optional<json>> EventStream::Next(absl::Duration timeout) {
  if (done_) return absl::OutOfRangeError("the event stream has ended");
  ASSIGN_OR_RETURN(const Link::Wake wake, link_->Next(stream_, Deadline(timeout)));
  if (wake.kind != Link::Wake::Kind::kFrame) return std::nullopt;
  const wire::FrameHeader& header = wake.frame.header;
  if (header.type == FrameType::kEvent) {
    ASSIGN_OR_RETURN(json body, wire::ParseObject({wake.frame.payload.data(), header.size}));
    return body;
  }
  done_ = true;
  link_->Forget(stream_);
  if (header.type == FrameType::kEnd) return absl::OutOfRangeError("the event stream has ended");
  if (header.type == FrameType::kError) {
    ASSIGN_OR_RETURN(const json body, wire::ParseObject({wake.frame.payload.data(), header.size}));
    return wire::StatusFromBody(body);
  }
  return ReasonError(absl::StatusCode::kInternal, "PROTOCOL_ERROR", "connection",
                     "the daemon sent a frame that a subscription does not have");
}

void EventStream::Cancel() {
  if (!done_) link_->SendControl(FrameType::kCancel, 0, stream_, "");
}

int EventStream::fd() const { return link_->fd(); }
short EventStream::poll_events() const { return link_->poll_events(); }

}  // namespace sandboxd::client
