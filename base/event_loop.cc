#include "base/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sandboxd {
namespace {

constexpr int kEventsAtOnce = 128;

// A descriptor's number may be reused within one batch of events, after a callback closed it:
// the generation tells the old watch's event from the new one's.
uint64_t Pack(int fd, uint64_t generation) {
  return (generation << 32) | static_cast<uint32_t>(fd);
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventLoop>> EventLoop::Create() {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return ErrnoError("creating an epoll descriptor");
  UniqueFd wakeup(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wakeup.valid()) return ErrnoError("creating an event descriptor");
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = Pack(wakeup.get(), 0);
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wakeup.get(), &event) < 0) {
    return ErrnoError("watching the event descriptor");
  }
  return std::unique_ptr<EventLoop>(new EventLoop(std::move(epoll), std::move(wakeup)));
}

absl::Status EventLoop::Add(int fd, uint32_t events, FdCallback callback) {
  const uint64_t generation = next_generation_++ & 0xffffffff;
  epoll_event event = {};
  event.events = events;
  event.data.u64 = Pack(fd, generation);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) < 0) {
    return ErrnoError(absl::StrCat("watching descriptor ", fd));
  }
  watches_[fd] = {generation, std::make_shared<FdCallback>(std::move(callback))};
  return absl::OkStatus();
}

absl::Status EventLoop::Modify(int fd, uint32_t events) {
  const auto it = watches_.find(fd);
  if (it == watches_.end()) return absl::NotFoundError(absl::StrCat("descriptor ", fd));
  epoll_event event = {};
  event.events = events;
  event.data.u64 = Pack(fd, it->second.generation);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) < 0) {
    return ErrnoError(absl::StrCat("watching descriptor ", fd));
  }
  return absl::OkStatus();
}

void EventLoop::Remove(int fd) {
  if (watches_.erase(fd) > 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

EventLoop::TimerId EventLoop::After(absl::Duration delay, Closure callback) {
  const int64_t nanos = absl::ToInt64Nanoseconds(std::max(delay, absl::ZeroDuration()));
  const int64_t now = BootTimeNanos();
  const int64_t deadline = nanos > INT64_MAX - now ? INT64_MAX : now + nanos;
  const TimerId id{deadline, next_timer_++};
  timers_.emplace(id, std::move(callback));
  return id;
}

void EventLoop::CancelTimer(TimerId id) { timers_.erase(id); }

void EventLoop::Post(Closure closure) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    posted_.push_back(std::move(closure));
  }
  const uint64_t one = 1;
  (void)!write(wakeup_.get(), &one, sizeof one);
}

void EventLoop::Stop() {
  std::lock_guard<std::mutex> lock(mutex_);
  stopping_ = true;
  const uint64_t one = 1;
  (void)!write(wakeup_.get(), &one, sizeof one);
}

void EventLoop::RunPosted() {
  std::vector<Closure> closures;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closures.swap(posted_);
  }
  for (Closure& closure : closures) closure();
}

void EventLoop::RunDeferred() {
  while (!deferred_.empty()) {
    std::vector<Closure> closures;
    closures.swap(deferred_);
    for (Closure& closure : closures) closure();
  }
}

void EventLoop::RunTimers() {
  const int64_t now = BootTimeNanos();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    Closure callback = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    callback();
  }
}

int EventLoop::WaitMillis() const {
  if (timers_.empty()) return -1;
  const int64_t nanos = timers_.begin()->first.first - BootTimeNanos();
  if (nanos <= 0) return 0;
  // Rounded up: a wait that ends before the deadline would spin.
  return static_cast<int>(std::min<int64_t>((nanos + 999'999) / 1'000'000, 60'000));
}

void EventLoop::Run() {
  epoll_event events[kEventsAtOnce];
  while (true) {
    RunDeferred();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (stopping_) return;
    }
    const int count = epoll_wait(epoll_.get(), events, kEventsAtOnce, WaitMillis());
    for (int i = 0; i < count; ++i) {
      const int fd = static_cast<int>(events[i].data.u64 & 0xffffffff);
      if (fd == wakeup_.get()) {
        uint64_t value;
        (void)!read(fd, &value, sizeof value);
        RunPosted();
        continue;
      }
      const auto it = watches_.find(fd);
      if (it == watches_.end() || it->second.generation != events[i].data.u64 >> 32) continue;
      const std::shared_ptr<FdCallback> callback = it->second.callback;  // It may remove itself.
      (*callback)(events[i].events);
    }
    RunTimers();
  }
}

int64_t EventLoop::BootTimeNanos() {
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

}  // namespace sandboxd
