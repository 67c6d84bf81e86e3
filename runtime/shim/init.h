// PID 1 of a sandbox: builds what the sandbox sees from inside its own namespaces, confines itself
// to almost nothing, and then only exists: the kernel reaps orphans for it.
#ifndef SANDBOXD_RUNTIME_SHIM_INIT_H_
#define SANDBOXD_RUNTIME_SHIM_INIT_H_

#include <cstdint>

#include "runtime/shim/plan_view.h"
#include "runtime/stage_format.h"

namespace sandboxd::shim {

// To init: kGo when its ids are mapped and kJoin with the late namespaces, from two processes and
// so in any order; kLaunch with the LaunchPlan, init's filter, the root mount, then the mounts of
// AttachKind::kPassed.
enum class InitOrder : uint32_t { kGo = 1, kJoin = 2, kLaunch = 3 };

// From init to the shim.
enum class InitStep : uint32_t { kStaged = 1, kReady = 2 };

struct InitReport {
  InitStep step;
  StageFailure failure;
  uint32_t time_count;
  StageTime times[kMaxStageTimes];
};

// Runs between clone3 and the end of the sandbox. `link` is init's socket to the shim.
[[noreturn]] void RunInit(int link, const PlanView& plan);

}  // namespace sandboxd::shim

#endif  // SANDBOXD_RUNTIME_SHIM_INIT_H_
