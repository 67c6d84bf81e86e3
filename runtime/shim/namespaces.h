// The namespaces that init does not make itself: the network namespace, whose making takes longer
// than all the rest, and the cgroup namespace, which has to be made in another group than init's.
#ifndef SANDBOXD_RUNTIME_SHIM_NAMESPACES_H_
#define SANDBOXD_RUNTIME_SHIM_NAMESPACES_H_

#include <sched.h>
#include <sys/types.h>
#include <cstdint>

#include "runtime/shim/context.h"
#include "runtime/stage_format.h"

namespace sandboxd::shim {

inline constexpr uint64_t kLateNamespaces = CLONE_NEWNET | CLONE_NEWCGROUP;

// Starts a process that makes them, owned by the sandbox's user namespace, brings the loopback
// device up, and sends them to init with InitOrder::kJoin. Returns its pid or -errno.
pid_t StartNamespaces(const Context& context);

// Waits for that process's end.
StageFailure FinishNamespaces(pid_t pid);

}  // namespace sandboxd::shim

#endif  // SANDBOXD_RUNTIME_SHIM_NAMESPACES_H_
