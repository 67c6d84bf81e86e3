// A slot: a process that already sits in the sandbox, in a control group of its own, confined, and
// waits to become an exec. Making one costs a few hundred microseconds that an exec then need not
// spend. It keeps the capabilities of the sandbox's root until it knows its user; it is not
// dumpable, so nothing inside may trace it or look at its descriptors (ptrace(2)).
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
};

// From the shim to a slot. kConfine comes with the filter, once the root stands; kRun with the
// ExecPlan, and what else ExecPlan names.
enum class SlotOrder : uint32_t { kConfine = 1, kRun = 2 };

struct SlotMessage {
  SlotOrder order;
  uint32_t no_new_privileges;
  uint64_t capabilities;
};

// From a slot to the shim. After kRun, the end of the channel means that the program runs.
struct SlotReport {
  StageFailure failure;
  int32_t pid_inside;
};

// Makes a slot in a new group. May be called as soon as init has staged its mounts.
StageFailure MakeSlot(const Context& context, uint64_t group, Slot& slot);

// Tells a slot to confine itself, which it does while nobody waits.
int ConfineSlot(const Context& context, const Slot& slot);

// Whether the slot can still be used: not ended, not stopped.
bool SlotIsSound(const Slot& slot);

// Closes what the shim holds of a slot.
void CloseSlot(Slot& slot);

}  // namespace sandboxd::shim

#endif  // SANDBOXD_RUNTIME_SHIM_SLOT_H_
