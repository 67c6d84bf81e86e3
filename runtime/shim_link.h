#ifndef SANDBOXD_RUNTIME_SHIM_LINK_H_
#define SANDBOXD_RUNTIME_SHIM_LINK_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/event_loop.h"
#include "base/unique_fd.h"
#include "runtime/shim_protocol.h"

namespace sandboxd {

// A message from a shim: the struct that `type` says, zero-filled where the sender knew less.
struct ShimEvent {
  MessageType type;
  const char* body;  // kMaxShimMessage bytes.
  std::vector<UniqueFd> fds;

  template <typename Message>
  const Message& As() const {
    return *reinterpret_cast<const Message*>(body);
  }
};

// The daemon's connection to one shim. Messages come on the loop, in order; after `on_closed` none
// follow. The callbacks may destroy the link.
class ShimLink {
 public:
  using OnMessage = absl::AnyInvocable<void(ShimEvent)>;
  using OnClosed = absl::AnyInvocable<void()>;

  static absl::StatusOr<std::unique_ptr<ShimLink>> Create(EventLoop& loop, UniqueFd socket,
                                                          OnMessage on_message, OnClosed on_closed);
  ~ShimLink();

  template <typename Message>
  absl::Status Send(MessageType type, Message message, absl::Span<const int> fds = {}) {
    message.header = {type, kShimProtocolVersion};
    return SendBytes(absl::MakeConstSpan(reinterpret_cast<const char*>(&message), sizeof message),
                     fds);
  }

 private:
  ShimLink(EventLoop& loop, UniqueFd socket, OnMessage on_message, OnClosed on_closed)
      : loop_(loop),
        socket_(std::move(socket)),
        on_message_(std::move(on_message)),
        on_closed_(std::move(on_closed)) {}
  absl::Status SendBytes(absl::Span<const char> bytes, absl::Span<const int> fds);
  void OnReadable();

  EventLoop& loop_;
  UniqueFd socket_;
  OnMessage on_message_;
  OnClosed on_closed_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace sandboxd

#endif  // SANDBOXD_RUNTIME_SHIM_LINK_H_
