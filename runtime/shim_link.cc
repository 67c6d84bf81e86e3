#include "runtime/shim_link.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include "base/socket.h"
#include "base/status.h"

namespace sandboxd {

absl::StatusOr<std::unique_ptr<ShimLink>> ShimLink::Create(EventLoop& loop, UniqueFd socket,
                                                           OnMessage on_message,
                                                           OnClosed on_closed) {
  if (fcntl(socket.get(), F_SETFL, O_NONBLOCK) < 0) return ErrnoError("setting up a shim's link");
  auto link = std::unique_ptr<ShimLink>(
      new ShimLink(loop, std::move(socket), std::move(on_message), std::move(on_closed)));
  RETURN_IF_ERROR(
      loop.Add(link->socket_.get(), EPOLLIN, [raw = link.get()](uint32_t) { raw->OnReadable(); }));
  return link;
}

ShimLink::~ShimLink() {
  *alive_ = false;
  if (socket_.valid()) loop_.Remove(socket_.get());
}

absl::Status ShimLink::SendBytes(absl::Span<const char> bytes, absl::Span<const int> fds) {
  if (!socket_.valid()) return absl::UnavailableError("the shim has gone");
  return SendMessage(socket_.get(), bytes, fds);
}

void ShimLink::OnReadable() {
  const std::shared_ptr<bool> alive = alive_;
  while (*alive) {
    alignas(8) char buffer[kMaxShimMessage] = {};
    auto received = ReceiveMessage(socket_.get(), absl::MakeSpan(buffer));
    if (absl::IsNotFound(received.status())) return;
    if (!received.ok() || received->size < sizeof(MessageHeader)) {
      loop_.Remove(socket_.get());
      socket_.Reset();
      on_closed_();
      return;
    }
    const MessageHeader& header = *reinterpret_cast<const MessageHeader*>(buffer);
    on_message_({.type = header.type, .body = buffer, .fds = std::move(received->fds)});
  }
}

}  // namespace sandboxd
