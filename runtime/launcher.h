#ifndef SANDBOXD_RUNTIME_LAUNCHER_H_
#define SANDBOXD_RUNTIME_LAUNCHER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/event_loop.h"
#include "base/unique_fd.h"

namespace sandboxd {

// The daemon's end of the zygote: starts it, asks it for shims, starts it again if it dies.
class Launcher {
 public:
  // What a new shim is given; see SpawnMessage. Descriptors stay the caller's.
  struct ShimRequest {
    std::string id;
    uint32_t id_base = 0;
    int connection = -1;
    int listener = -1;
    int cgroup = -1;
    int prepare_plan = -1;
    int init_filter = -1;
    int exec_filter = -1;
  };
  struct Shim {
    UniqueFd pidfd;
    pid_t pid = -1;
  };
  using Callback = absl::AnyInvocable<void(absl::StatusOr<Shim>)>;

  // `scratch` is an existing directory that the zygote mounts its private root on (in a mount
  // namespace of its own: nobody else sees it).
  static absl::StatusOr<std::unique_ptr<Launcher>> Create(EventLoop& loop, std::string scratch);
  ~Launcher();

  // The callback runs on the loop, once, also when the zygote dies before it answers.
  void Spawn(const ShimRequest& request, Callback callback);

 private:
  Launcher(EventLoop& loop, std::string scratch) : loop_(loop), scratch_(std::move(scratch)) {}
  absl::Status Start();
  void OnReadable();
  void Restart();

  EventLoop& loop_;
  const std::string scratch_;
  UniqueFd program_;
  UniqueFd link_;
  pid_t pid_ = -1;
  uint64_t next_request_ = 1;
  absl::flat_hash_map<uint64_t, Callback> waiting_;
};

}  // namespace sandboxd

#endif  // SANDBOXD_RUNTIME_LAUNCHER_H_
