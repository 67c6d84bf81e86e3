// The steps of a launch, as a failure names them. Plain data, shared with the launch program.
// Numbers are part of the shim protocol: new ones go to the end, none is ever reused.
#ifndef SANDBOXD_RUNTIME_STAGE_FORMAT_H_
#define SANDBOXD_RUNTIME_STAGE_FORMAT_H_

#include <cstdint>

namespace sandboxd {

enum class Stage : uint32_t {
  kNone = 0,
  // Shim: before an image is known.
  kShimMounts = 1,
  kReadPlan = 2,
  kCloneInit = 3,
  kIdMaps = 4,
  // Init: before an image is known.
  kIdentity = 6,
  kCgroupNamespace = 7,
  kSessionKeyring = 8,
  kOwnSession = 9,
  kLoopback = 10,
  kStageMounts = 11,
  // Shim: the root.
  kUpper = 12,
  kShiftLayer = 13,
  kOverlay = 14,
  kSendRoot = 15,
  // Init: the root.
  kHostname = 16,
  kAttachRoot = 17,
  kMountPoint = 18,
  kAttachMount = 19,
  kReadOnlyRoot = 20,
  kPivotRoot = 21,
  // Init and execs.
  kCapabilities = 22,
  kNoNewPrivileges = 23,
  kSeccomp = 24,
  // Execs.
  kCgroup = 25,
  kPipes = 26,
  kFork = 27,
  kEnterNamespaces = 28,
  kUser = 29,
  kGroups = 30,
  kWorkingDirectory = 31,
  kRlimits = 32,
  kStdin = 33,
  kExecute = 34,
  kInterpreter = 35,   // The program is there; what its first line or header names is not.
  kInterference = 36,  // A process inside stopped or killed the one that was to become the exec.
  // Kill.
  kKill = 37,
  kReap = 38,
  kRemoveCgroup = 39,
  // Init: before an image is known.
  kNetworkNamespace = 40,
  kLateMounts = 41,
};

// What failed: the stage, errno, and which element of the plan where there are several.
struct StageFailure {
  Stage stage;
  int32_t error;
  uint32_t index;
};

// How long a stage took.
struct StageTime {
  Stage stage;
  uint32_t micros;
};

inline constexpr uint32_t kMaxStageTimes = 16;

}  // namespace sandboxd

#endif  // SANDBOXD_RUNTIME_STAGE_FORMAT_H_
