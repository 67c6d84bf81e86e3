// How the daemon measures a sandbox from inside: the probe program, what it is given, and the
// host's own state to compare its answer with.
#ifndef SANDBOXD_RUNTIME_PROBER_H_
#define SANDBOXD_RUNTIME_PROBER_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "policy/profile.h"
#include "runtime/isolation_report.h"

namespace sandboxd {

class Prober {
 public:
  // Makes the probe's memory file and the device node that it tries.
  static absl::StatusOr<std::unique_ptr<Prober>> Create();

  // The program and its standard input, for an exec. The program can be executed inside but not
  // read, so the kernel lets nobody inside trace it (would_dump() in fs/exec.c).
  int program() const { return program_.get(); }
  int device() const { return device_.get(); }

  // Its arguments: which paths `profile` hides and which it makes read-only.
  static std::vector<std::string> Arguments(const Profile& profile);

  // What the host looks like beside a sandbox whose PID 1 is `init` and whose ids begin at
  // `id_base`.
  static absl::StatusOr<HostView> LookAtHost(pid_t init, uint32_t id_base);

 private:
  Prober(UniqueFd program, UniqueFd device)
      : program_(std::move(program)), device_(std::move(device)) {}

  UniqueFd program_;
  UniqueFd device_;
};

}  // namespace sandboxd

#endif  // SANDBOXD_RUNTIME_PROBER_H_
