#ifndef SANDBOXD_SERVER_PUMP_H_
#define SANDBOXD_SERVER_PUMP_H_

#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/event_loop.h"
#include "base/unique_fd.h"
#include "sandboxd/wire/frame.h"

namespace sandboxd::server {

// One output of an exec on its way to a client: a pipe that only we read, credit, and offsets.
// Bytes move by splice(2) from the pipe into the client's socket and are never seen here: what has
// left the pipe is the client's, whatever then happens to the daemon.
class Pump {
 public:
  // `on_change` runs when bytes have come, or the pipe has ended; on the loop.
  static absl::StatusOr<std::unique_ptr<Pump>> Create(EventLoop& loop, UniqueFd pipe,
                                                      wire::Channel channel, uint64_t credit,
                                                      absl::AnyInvocable<void()> on_change);
  ~Pump();

  wire::Channel channel() const { return channel_; }

  // How much the next Data frame can carry: what is in the pipe, within credit and the limit of one
  // frame. 0: nothing to do now.
  size_t Ready();

  // Moves up to `size` bytes to `socket`. Returns how many, 0 where the socket is full, or the
  // error of the socket. `size` is at most the last Ready().
  absl::StatusOr<size_t> Move(int socket, size_t size);

  // Adds credit; false where it would pass the protocol's bound.
  [[nodiscard]] bool AddCredit(uint64_t bytes);
  // Reserves `size` of the credit for a frame that was begun.
  void Spend(size_t size) { credit_ -= size; }

  // Bytes in the pipe now.
  size_t Waiting() const;
  uint64_t sent() const { return sent_; }
  uint64_t credit() const { return credit_; }

  // Whether every writer has closed and nothing is left.
  bool AtEnd();

  // No byte beyond the current content of the pipe will be sent: what comes later is not ours.
  void CutHere();
  // Whether all that will be sent was sent.
  bool Finished() { return AtEnd() || sent_ >= cut_; }

 private:
  Pump(EventLoop& loop, UniqueFd pipe, wire::Channel channel, uint64_t credit,
       absl::AnyInvocable<void()> on_change)
      : loop_(loop),
        pipe_(std::move(pipe)),
        channel_(channel),
        credit_(credit),
        on_change_(std::move(on_change)) {}

  EventLoop& loop_;
  UniqueFd pipe_;
  const wire::Channel channel_;
  uint64_t credit_;
  uint64_t sent_ = 0;
  uint64_t cut_ = UINT64_MAX;
  bool hung_up_ = false;
  bool enlarged_ = false;
  absl::AnyInvocable<void()> on_change_;
};

}  // namespace sandboxd::server

#endif  // SANDBOXD_SERVER_PUMP_H_
