#include "sandboxd/client/client.h"

#include <utility>

#include "sandboxd/client/connect.h"
#include "sandboxd/client/link.h"
#include "sandboxd/wire/json.h"

namespace sandboxd::client {

using nlohmann::json;
using wire::Channel;
using wire::FrameType;

std::string DefaultSocket() { return SocketPath(""); }

absl::StatusOr<Client> Client::Connect(const Options& options) {
  ASSIGN_OR_RETURN(UniqueFd socket,
                   ConnectSocket(SocketPath(options.socket), options.connect_timeout));
  return FromSocket(std::move(socket), options.name);
}

absl::StatusOr<Client> Client::Connect(const std::string& socket, absl::string_view name) {
  return Connect(Options{.socket = socket, .name = std::string(name)});
}

Client Client::FromSocket(UniqueFd socket, const std::string& name) {
  return Client(std::make_shared<Link>(std::move(socket), name));
}

absl::StatusOr<json> Client::Call(absl::string_view op, const json& params,
                                  absl::Duration timeout) {
  ASSIGN_OR_RETURN(const uint64_t stream, link_->Open(op, params));
  auto reply = link_->Answer(stream, Deadline(timeout));
  link_->Forget(stream);
  return reply;
}

absl::StatusOr<ExecStream> Client::StartExec(const json& params, absl::Duration timeout) {
  ASSIGN_OR_RETURN(const uint64_t stream, link_->Open("exec.start", params));
  ASSIGN_OR_RETURN(const json reply, link_->Answer(stream, Deadline(timeout)));
  return ExecStream(link_, stream, params, reply);
}

absl::StatusOr<EventStream> Client::Subscribe(const json& params, absl::Duration timeout) {
  ASSIGN_OR_RETURN(const uint64_t stream, link_->Open("sandbox.events", params));
  ASSIGN_OR_RETURN(const json reply, link_->Answer(stream, Deadline(timeout)));
  return EventStream(link_, stream, reply);
}

bool Client::draining() const { return link_->draining(); }
const json& Client::hello() const { return link_->hello(); }
int Client::fd() const { return link_->fd(); }
short Client::poll_events() const { return link_->poll_events(); }
bool Client::pending() const { return link_->HasFrame(); }
uint64_t Client::initial_credit() const { return link_->initial_credit(); }

absl::StatusOr<uint64_t> Client::Open(absl::string_view op, const json& params) {
  return link_->Open(op, params);
}

absl::StatusOr<Frame> Client::Read(absl::Duration timeout) {
  if (read_bytes_ > 0) link_->Consumed(read_stream_, read_channel_, read_bytes_);
  read_bytes_ = 0;
  ASSIGN_OR_RETURN(const Link::Wake wake, link_->Next(Link::kAnyStream, Deadline(timeout)));
  if (wake.kind != Link::Wake::Kind::kFrame) {
    return ReasonError(absl::StatusCode::kDeadlineExceeded, "NO_ANSWER", "connection",
                       "the daemon did not answer in time");
  }
  const auto& [header, payload] = wake.frame;
  Frame frame{
      .type = header.type, .channel = static_cast<Channel>(header.flags), .stream = header.stream};
  if (header.type == FrameType::kData) {
    frame.data.assign(payload.data(), payload.size());
    read_stream_ = frame.stream;
    read_channel_ = frame.channel;
    read_bytes_ = payload.size();
  } else if (header.type == FrameType::kCredit) {
    ASSIGN_OR_RETURN(frame.credit, wire::DecodeCredit(payload));
  } else if (!payload.empty()) {
    ASSIGN_OR_RETURN(frame.body, wire::ParseObject({payload.data(), payload.size()}));
  }
  const bool over = (header.type == FrameType::kEnd && frame.channel == Channel::kStream) ||
                    header.type == FrameType::kError;
  if (over) link_->Forget(frame.stream);
  return frame;
}

absl::Status Client::SendData(uint64_t stream, absl::string_view data) {
  for (;;) {
    data.remove_prefix(link_->SendData(stream, Channel::kStdin, {data.data(), data.size()}));
    if (data.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(link_->WaitWritable());
  }
}

absl::Status Client::SendEnd(uint64_t stream, Channel channel) {
  link_->SendControl(FrameType::kEnd, static_cast<uint8_t>(channel), stream, "");
  return absl::OkStatus();
}

absl::Status Client::SendCancel(uint64_t stream) {
  link_->SendControl(FrameType::kCancel, 0, stream, "");
  return absl::OkStatus();
}

}  // namespace sandboxd::client
