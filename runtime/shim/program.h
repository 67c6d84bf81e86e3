// The last steps before a program runs: everything between a slot's birth and its execve.
#ifndef SANDBOXD_RUNTIME_SHIM_PROGRAM_H_
#define SANDBOXD_RUNTIME_SHIM_PROGRAM_H_

#include "runtime/plan_format.h"

namespace sandboxd::shim {

// Execs are the first that the kernel's memory killer takes, before anything of the host.
inline constexpr char kExecOomScore[] = "500";

struct SlotStart {
  int control;
  int stdin_read;
  int stdout_write;
  int stderr_write;
  int init_pidfd;  // Of the sandbox's PID 1, whose namespaces it joins.
  int mount_namespace;
  int filter;
  const PreparePlan* prepare;
};

// Enters the sandbox but for its mounts; waits for kEnter, enters those too and confines itself;
// waits for kRun, becomes the program. A failure goes to
// the shim as a SlotReport and ends the process; so does the end of the channel.
[[noreturn]] void RunSlot(const SlotStart& start);

}  // namespace sandboxd::shim

#endif  // SANDBOXD_RUNTIME_SHIM_PROGRAM_H_
