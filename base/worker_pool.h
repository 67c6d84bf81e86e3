#ifndef SANDBOXD_BASE_WORKER_POOL_H_
#define SANDBOXD_BASE_WORKER_POOL_H_

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"

namespace sandboxd {

// A few threads for work that may block. Jobs run in no promised order; their results go back to
// the event loop with EventLoop::Post(). The destructor runs what is queued, then joins.
class WorkerPool {
 public:
  using Job = absl::AnyInvocable<void()>;

  WorkerPool(int threads, size_t max_queued);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // False, without running it, where `max_queued` jobs wait already.
  [[nodiscard]] bool Submit(Job job);

 private:
  void Work();

  const size_t max_queued_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Job> queue_;  // Guarded by mutex_.
  bool stopping_ = false;  // Guarded by mutex_.
  std::vector<std::thread> threads_;
};

}  // namespace sandboxd

#endif  // SANDBOXD_BASE_WORKER_POOL_H_
