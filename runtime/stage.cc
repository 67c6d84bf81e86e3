#include "runtime/stage.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sandboxd {

absl::string_view StageName(Stage stage) {
  switch (stage) {
    case Stage::kNone:
      return "none";
    case Stage::kShimMounts:
      return "shim_mounts";
    case Stage::kReadPlan:
      return "read_plan";
    case Stage::kCloneInit:
      return "clone_init";
    case Stage::kIdMaps:
      return "id_maps";
    case Stage::kMoveToCgroup:
      return "move_to_cgroup";
    case Stage::kIdentity:
      return "identity";
    case Stage::kCgroupNamespace:
      return "cgroup_namespace";
    case Stage::kSessionKeyring:
      return "session_keyring";
    case Stage::kOwnSession:
      return "own_session";
    case Stage::kLoopback:
      return "loopback";
    case Stage::kStageMounts:
      return "stage_mounts";
    case Stage::kUpper:
      return "upper";
    case Stage::kShiftLayer:
      return "shift_layer";
    case Stage::kOverlay:
      return "overlay";
    case Stage::kSendRoot:
      return "send_root";
    case Stage::kHostname:
      return "hostname";
    case Stage::kAttachRoot:
      return "attach_root";
    case Stage::kMountPoint:
      return "mount_point";
    case Stage::kAttachMount:
      return "attach_mount";
    case Stage::kReadOnlyRoot:
      return "read_only_root";
    case Stage::kPivotRoot:
      return "pivot_root";
    case Stage::kCapabilities:
      return "capabilities";
    case Stage::kNoNewPrivileges:
      return "no_new_privileges";
    case Stage::kSeccomp:
      return "seccomp";
    case Stage::kCgroup:
      return "cgroup";
    case Stage::kPipes:
      return "pipes";
    case Stage::kFork:
      return "fork";
    case Stage::kEnterNamespaces:
      return "enter_namespaces";
    case Stage::kUser:
      return "user";
    case Stage::kGroups:
      return "groups";
    case Stage::kWorkingDirectory:
      return "working_directory";
    case Stage::kRlimits:
      return "rlimits";
    case Stage::kStdin:
      return "stdin";
    case Stage::kExecute:
      return "execute";
    case Stage::kInterpreter:
      return "interpreter";
    case Stage::kInterference:
      return "interference";
    case Stage::kKill:
      return "kill";
    case Stage::kReap:
      return "reap";
    case Stage::kRemoveCgroup:
      return "remove_cgroup";
  }
  return "unknown";
}

absl::Status LaunchError(const StageFailure& failure, absl::string_view object,
                         absl::string_view element) {
  const absl::string_view stage = StageName(failure.stage);
  return WithDetail(
      absl::FailedPreconditionError(
          absl::StrCat("launching ", object, ": stage ", stage, element.empty() ? "" : " of ",
                       element, ": ", strerror(failure.error))),
      {.reason = "LAUNCH_FAILED",
       .object = std::string(object),
       .stage = std::string(stage),
       .error = ErrnoName(failure.error)});
}

}  // namespace sandboxd
