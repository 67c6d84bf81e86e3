#ifndef SANDBOXD_BASE_EVENT_LOOP_H_
#define SANDBOXD_BASE_EVENT_LOOP_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/unique_fd.h"

namespace sandboxd {

// One thread's event loop over epoll(7): readiness of descriptors, timers, and closures. All
// members but Post() and Stop() belong to the thread that calls Run(). Callbacks may add and
// remove anything, themselves included.
class EventLoop {
 public:
  // `events` are those of epoll_ctl(2): EPOLLIN, EPOLLOUT, EPOLLRDHUP … Level-triggered.
  using FdCallback = absl::AnyInvocable<void(uint32_t events)>;
  using Closure = absl::AnyInvocable<void()>;
  using TimerId = std::pair<int64_t, uint64_t>;  // Deadline, sequence: their order of firing.

  static absl::StatusOr<std::unique_ptr<EventLoop>> Create();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Watches `fd`, which stays the caller's and must be removed before it is closed.
  absl::Status Add(int fd, uint32_t events, FdCallback callback);
  absl::Status Modify(int fd, uint32_t events);
  void Remove(int fd);

  // Runs `callback` once after `delay`, counted on CLOCK_BOOTTIME: time asleep counts.
  TimerId After(absl::Duration delay, Closure callback);
  // Cancelling a timer that has fired does nothing.
  void CancelTimer(TimerId id);

  // Runs `closure` on the loop's thread, from any thread. Closures run in the order of posting.
  void Post(Closure closure);
  // Runs `closure` before the loop next waits. For the loop's own thread.
  void Defer(Closure closure) { deferred_.push_back(std::move(closure)); }

  // Until Stop().
  void Run();
  void Stop();

  // CLOCK_BOOTTIME in nanoseconds.
  static int64_t BootTimeNanos();

 private:
  struct Watch {
    uint64_t generation;
    std::shared_ptr<FdCallback> callback;
  };

  EventLoop(UniqueFd epoll, UniqueFd wakeup)
      : epoll_(std::move(epoll)), wakeup_(std::move(wakeup)) {}
  void RunPosted();
  void RunDeferred();
  void RunTimers();
  int WaitMillis() const;

  UniqueFd epoll_;
  UniqueFd wakeup_;  // An eventfd that Post() rings.
  absl::flat_hash_map<int, Watch> watches_;
  uint64_t next_generation_ = 1;
  std::map<TimerId, Closure> timers_;
  uint64_t next_timer_ = 0;
  std::vector<Closure> deferred_;
  std::mutex mutex_;
  std::vector<Closure> posted_;  // Guarded by mutex_.
  bool stopping_ = false;        // Guarded by mutex_.
};

}  // namespace sandboxd

#endif  // SANDBOXD_BASE_EVENT_LOOP_H_
