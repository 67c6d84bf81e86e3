#include "runtime/stage.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sandboxd {

namespace {

struct StageEntry {
  Stage stage;
  absl::string_view name;
};
constexpr StageEntry kStages[] = {
    {Stage::kNone, "none"},
    {Stage::kShimMounts, "shim_mounts"},
    {Stage::kReadPlan, "read_plan"},
    {Stage::kCloneInit, "clone_init"},
    {Stage::kIdMaps, "id_maps"},
    {Stage::kIdentity, "identity"},
    {Stage::kCgroupNamespace, "cgroup_namespace"},
    {Stage::kSessionKeyring, "session_keyring"},
    {Stage::kOwnSession, "own_session"},
    {Stage::kLoopback, "loopback"},
    {Stage::kStageMounts, "stage_mounts"},
    {Stage::kUpper, "upper"},
    {Stage::kShiftLayer, "shift_layer"},
    {Stage::kOverlay, "overlay"},
    {Stage::kSendRoot, "send_root"},
    {Stage::kHostname, "hostname"},
    {Stage::kAttachRoot, "attach_root"},
    {Stage::kMountPoint, "mount_point"},
    {Stage::kAttachMount, "attach_mount"},
    {Stage::kReadOnlyRoot, "read_only_root"},
    {Stage::kPivotRoot, "pivot_root"},
    {Stage::kCapabilities, "capabilities"},
    {Stage::kNoNewPrivileges, "no_new_privileges"},
    {Stage::kSeccomp, "seccomp"},
    {Stage::kCgroup, "cgroup"},
    {Stage::kPipes, "pipes"},
    {Stage::kFork, "fork"},
    {Stage::kEnterNamespaces, "enter_namespaces"},
    {Stage::kUser, "user"},
    {Stage::kGroups, "groups"},
    {Stage::kWorkingDirectory, "working_directory"},
    {Stage::kRlimits, "rlimits"},
    {Stage::kStdin, "stdin"},
    {Stage::kExecute, "execute"},
    {Stage::kInterpreter, "interpreter"},
    {Stage::kInterference, "interference"},
    {Stage::kKill, "kill"},
    {Stage::kReap, "reap"},
    {Stage::kRemoveCgroup, "remove_cgroup"},
    {Stage::kNetworkNamespace, "network_namespace"},
    {Stage::kLateMounts, "late_mounts"},
};

struct HintEntry {
  Stage stage;
  int error;
  absl::string_view hint;
};

// What strerror(3) does not tell.
constexpr HintEntry kHints[] = {
    {Stage::kShiftLayer, EINVAL,
     "; the image's file system cannot be idmapped by this kernel (ext4, xfs and btrfs can, tmpfs "
     "from Linux 6.3 on): keep images and daemon.state_dir on one that can"},
    {Stage::kCloneInit, ENOSPC, "; user.max_user_namespaces or a like limit of sysctl is reached"},
    {Stage::kNetworkNamespace, ENOSPC, "; user.max_net_namespaces of sysctl is reached"},
};

absl::string_view Hint(const StageFailure& failure) {
  for (const HintEntry& entry : kHints) {
    if (entry.stage == failure.stage && entry.error == failure.error) return entry.hint;
  }
  return "";
}

}  // namespace

absl::string_view StageName(Stage stage) {
  for (const StageEntry& entry : kStages) {
    if (entry.stage == stage) return entry.name;
  }
  return "unknown";  // Of a later version's shim.
}

absl::Status LaunchError(const StageFailure& failure, absl::string_view object,
                         absl::string_view element) {
  const absl::string_view stage = StageName(failure.stage);
  return WithDetail(absl::FailedPreconditionError(absl::StrCat(
                        "launching ", object, ": stage ", stage, element.empty() ? "" : " of ",
                        element, ": ", strerror(failure.error), Hint(failure))),
                    {.reason = "LAUNCH_FAILED",
                     .object = std::string(object),
                     .stage = std::string(stage),
                     .error = ErrnoName(failure.error)});
}

}  // namespace sandboxd
