#include "sandboxd/server/pump.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>

#include "base/status.h"

namespace sandboxd::server {
namespace {

constexpr uint64_t kMaxCredit = 1 << 30;
// A pipe that was found full once is a bulk transfer: fewer, larger steps.
constexpr int kBulkPipe = 1 << 20;
constexpr size_t kDefaultPipe = 64 << 10;

}  // namespace

absl::StatusOr<std::unique_ptr<Pump>> Pump::Create(EventLoop& loop, UniqueFd pipe,
                                                   wire::Channel channel, uint64_t credit,
                                                   absl::AnyInvocable<void()> on_change) {
  auto pump =
      std::unique_ptr<Pump>(new Pump(loop, std::move(pipe), channel, credit, std::move(on_change)));
  // Edge-triggered: a pipe that waits for credit must not wake the loop again and again.
  RETURN_IF_ERROR(
      loop.Add(pump->pipe_.get(), EPOLLIN | EPOLLET, [raw = pump.get()](uint32_t events) {
        if ((events & (EPOLLHUP | EPOLLERR)) != 0) raw->hung_up_ = true;
        raw->on_change_();
      }));
  return pump;
}

Pump::~Pump() { loop_.Remove(pipe_.get()); }

size_t Pump::Waiting() const {
  int size = 0;
  return ioctl(pipe_.get(), FIONREAD, &size) < 0 ? 0 : static_cast<size_t>(size);
}

size_t Pump::Ready() {
  if (credit_ == 0 || sent_ >= cut_) return 0;
  const size_t waiting = Waiting();
  if (waiting >= kDefaultPipe && !enlarged_) {
    enlarged_ = true;
    fcntl(pipe_.get(), F_SETPIPE_SZ, kBulkPipe);  // Refused: it stays as it is.
  }
  return std::min<uint64_t>({waiting, credit_, wire::kMaxDataBytes, cut_ - sent_});
}

absl::StatusOr<size_t> Pump::Move(int socket, size_t size) {
  while (true) {
    const ssize_t n =
        splice(pipe_.get(), nullptr, socket, nullptr, size, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return 0;
    if (n < 0) return ErrnoError("moving output to the client");
    sent_ += static_cast<size_t>(n);
    return static_cast<size_t>(n);
  }
}

bool Pump::AddCredit(uint64_t bytes) {
  if (bytes > kMaxCredit || credit_ + bytes > kMaxCredit) return false;
  credit_ += bytes;
  return true;
}

bool Pump::AtEnd() { return hung_up_ && Waiting() == 0; }

void Pump::CutHere() { cut_ = std::min(cut_, sent_ + Waiting()); }

}  // namespace sandboxd::server
