// PID 1 of a sandbox: builds what the sandbox sees from inside its own namespaces, confines itself
// to almost nothing, and then only exists: the kernel reaps orphans for it.
#ifndef SANDBOXD_RUNTIME_SHIM_INIT_H_
#define SANDBOXD_RUNTIME_SHIM_INIT_H_

#include <cstdint>

#include "runtime/shim/plan_view.h"
#include "runtime/stage_format.h"

namespace sandboxd::shim {

// From the shim to init. With kGo nothing else; with kLaunch the descriptors are the LaunchPlan,
// init's filter, the root mount, then the mounts of AttachKind::kPassed.
enum class InitOrder : uint32_t { kGo = 1, kLaunch = 2 };

// From init to the shim: kJoined (it has its cgroup namespace and may be moved), kStaged, kReady.
enum class InitStep : uint32_t { kJoined = 1, kStaged = 2, kReady = 3 };

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
