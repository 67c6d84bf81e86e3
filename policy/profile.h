#ifndef SANDBOXD_POLICY_PROFILE_H_
#define SANDBOXD_POLICY_PROFILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "policy/seccomp_profiles.h"

namespace sandboxd {

// The layers of isolation. The order is that of reports.
enum class Layer {
  kUserNamespace,
  kMountNamespace,
  kPidNamespace,
  kNetNamespace,
  kIpcNamespace,
  kUtsNamespace,
  kCgroupNamespace,
  kTimeNamespace,
  kCapabilities,
  kNoNewPrivileges,
  kSeccomp,
  kDeviceFilter,
  kProcMasks,
  kSysReadOnly,
  kCgroupReadOnly,
  kFreshDev,
  kNosuidNodev,
  kSessionKeyring,
  kOwnSession,
  kIdShift,
  kRlimits,
};
absl::Span<const Layer> AllLayers();
absl::string_view LayerName(Layer layer);  // "user_namespace"

struct RlimitSetting {
  int resource;  // RLIMIT_*
  const char* name;
  uint64_t value;     // The hard limit, or the daemon's own where that is less.
  uint64_t soft = 0;  // 0: as the hard one.

  friend bool operator==(const RlimitSetting& a, const RlimitSetting& b) {
    return a.resource == b.resource && a.value == b.value && a.soft == b.soft;
  }
};

// One isolation profile: what its sandboxes may do, as data.
struct Profile {
  std::string name;
  SeccompKind seccomp = SeccompKind::kDefault;
  uint64_t capabilities = 0;  // Of uid 0 inside; other users have none.
  bool time_namespace = false;
  std::vector<std::string> masked;     // Beneath /proc and /sys: hidden where they exist.
  std::vector<std::string> read_only;  // Beneath /proc.
  std::vector<RlimitSetting> rlimits;
  int64_t pids_max = 4096;                // Processes and threads.
  int64_t memory_max = int64_t{2} << 30;  // Bytes, with the root's and /dev/shm's content.
  int64_t shm_bytes = int64_t{64} << 20;
  int64_t root_bytes = int64_t{1} << 30;  // What may be written to the root.
  int64_t root_inodes = 262144;

  friend bool operator==(const Profile&, const Profile&) = default;
};

// Has what package managers, compilers and debuggers need.
const Profile& DefaultProfile();
// No capabilities, no tracing, its own clocks; fewer processes.
const Profile& StrictProfile();

// What an operator changes. Values are checked: pids_max 8 to 4194304, memory_max at least 8 MiB,
// shm_bytes and root_bytes at least 64 KiB, root_inodes at least 128.
struct ProfileOverrides {
  std::string name;
  std::optional<std::vector<std::string>> capabilities;
  std::optional<int64_t> pids_max;
  std::optional<int64_t> memory_max;
  std::optional<int64_t> shm_bytes;
  std::optional<int64_t> root_bytes;
  std::optional<int64_t> root_inodes;
};
absl::StatusOr<Profile> DeriveProfile(const Profile& base, const ProfileOverrides& overrides);

}  // namespace sandboxd

#endif  // SANDBOXD_POLICY_PROFILE_H_
