// A slot: a process that already sits in the sandbox, in a control group of its own, confined, and
// waits to become an exec. Making one costs a few hundred microseconds that an exec then need not
// spend. It is the shim's child, born into the sandbox's pid namespace. It keeps the capabilities
// of the sandbox's root until it knows its user; it is not dumpable, so nothing inside may trace it
// or look at its descriptors (ptrace(2)).
#ifndef SANDBOXD_RUNTIME_SHIM_SLOT_H_
#define SANDBOXD_RUNTIME_SHIM_SLOT_H_

#include <cstdint>

#include "runtime/shim/context.h"
#include "runtime/stage_format.h"

namespace sandboxd::shim {

struct Slot {
  uint64_t group = 0;  // Its control group is box/exec-<group>.
  pid_t pid = -1;      // On the host.
  int control = -1;
  int stdin_write = -1;
  int stdout_read = -1;
  int stderr_read = -1;
  int32_t pid_inside = 0;  // 0 until the slot has said that it is confined.
};

// From the shim to a slot. kRun comes with the ExecPlan, and what else ExecPlan names.
enum class SlotOrder : uint32_t { kEnter = 1, kRun = 2 };

// From a slot to the shim: once it is confined, with no failure; after kRun, the end of the channel
// means that the program runs.
struct SlotReport {
  StageFailure failure;
  int32_t pid_inside;
};

// Makes a slot in a new group, and does not wait for it. It does not enter the sandbox's mount
// namespace yet. May be called as soon as init has staged its mounts.
StageFailure MakeSlot(const Context& context, uint64_t group, Slot& slot);

// Lets the slot enter the mount namespace and confine itself. Not while init pivots: pivot_root(2)
// takes along every process that is at the old root, but one that arrives meanwhile is left behind
// there.
int EnterSlot(const Slot& slot);

// Waits until the slot is confined.
StageFailure AwaitSlot(Slot& slot);

// Whether the slot can still be used: not ended, not stopped.
bool SlotIsSound(const Slot& slot);

// Closes what the shim holds of a slot.
void CloseSlot(Slot& slot);

}  // namespace sandboxd::shim

#endif  // SANDBOXD_RUNTIME_SHIM_SLOT_H_
