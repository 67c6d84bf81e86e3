// What one shim knows of its sandbox: shared by the parts of the shim, which is one thread.
#ifndef SANDBOXD_RUNTIME_SHIM_CONTEXT_H_
#define SANDBOXD_RUNTIME_SHIM_CONTEXT_H_

#include <cstdint>

#include <sys/types.h>

#include "runtime/shim/channel.h"
#include "runtime/shim/plan_view.h"
#include "runtime/shim/stopwatch.h"
#include "runtime/shim_protocol.h"

namespace sandboxd::shim {

struct Context {
  // From the daemon.
  int connection = -1;  // -1 while no daemon is connected.
  int listener = -1;
  int cgroup = -1;  // The sandbox's group; `box` is beneath it.
  int box = -1;
  uint32_t id_base = 0;
  uint32_t id_count = 0;
  PlanView prepare;
  int init_filter = -1;
  int exec_filter = -1;

  // The sandbox.
  ShimState state = ShimState::kPreparing;
  pid_t init_pid = -1;
  int init_pidfd = -1;
  int init_link = -1;
  int user_namespace = -1;
  int mount_namespace = -1;
  pid_t namespaces_pid = -1;  // Of the process that makes the late ones.
  int upper = -1;             // The file system that the root's upper and work directories are on.
  PlanView launch;            // Of the root that is built and not handed over yet.
  int root = -1;

  Stopwatch watch;
};

inline MessageHeader Header(MessageType type) { return {type, kShimProtocolVersion}; }

// Makes init and the namespaces around it, which goes on after BeginPrepare() until FinishPrepare()
// (prepare.cc). On failure init may exist; the caller tears down.
StageFailure BeginPrepare(Context& context);
StageFailure FinishPrepare(Context& context);

// Waits until init runs confined on its root (prepare.cc).
StageFailure AwaitReady(Context& context);

// Makes the upper layer of the root (root.cc).
int MakeUpper(Context& context);

// Makes the root from the plan's layers, and sends it to init when that has staged its mounts
// (root.cc). `fds` are those of the launch message.
StageFailure BuildRoot(Context& context, FdList& fds);
StageFailure HandRootOver(Context& context, FdList& fds);

}  // namespace sandboxd::shim

#endif  // SANDBOXD_RUNTIME_SHIM_CONTEXT_H_
