#include "policy/profile.h"

#include <sys/resource.h>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "policy/capabilities.h"

namespace sandboxd {
namespace {

constexpr Layer kLayers[] = {
    Layer::kUserNamespace, Layer::kMountNamespace,  Layer::kPidNamespace,    Layer::kNetNamespace,
    Layer::kIpcNamespace,  Layer::kUtsNamespace,    Layer::kCgroupNamespace, Layer::kTimeNamespace,
    Layer::kCapabilities,  Layer::kNoNewPrivileges, Layer::kSeccomp,         Layer::kDeviceFilter,
    Layer::kProcMasks,     Layer::kSysReadOnly,     Layer::kCgroupReadOnly,  Layer::kFreshDev,
    Layer::kNosuidNodev,   Layer::kSessionKeyring,  Layer::kOwnSession,      Layer::kIdShift,
    Layer::kRlimits,
};

Profile MakeDefault() {
  Profile profile;
  profile.name = "default";
  profile.capabilities = DefaultCapabilities();
  profile.masked = {
      "proc/acpi",
      "proc/asound",
      "proc/config.gz",
      "proc/interrupts",
      "proc/kallsyms",
      "proc/kcore",
      "proc/key-users",
      "proc/keys",
      "proc/kmsg",
      "proc/kpagecgroup",
      "proc/kpagecount",
      "proc/kpageflags",
      "proc/latency_stats",
      "proc/sched_debug",
      "proc/scsi",
      "proc/slabinfo",
      "proc/timer_list",
      "proc/timer_stats",
      "proc/vmallocinfo",
      "sys/devices/virtual/dmi",
      "sys/devices/virtual/powercap",
      "sys/firmware",
      "sys/kernel/debug",
      "sys/kernel/security",
      "sys/kernel/tracing",
  };
  profile.read_only = {"proc/bus",           "proc/fs", "proc/irq", "proc/mtrr",
                       "proc/sysrq-trigger", "proc/sys"};
  // All there are but nproc, which is pids_max: none is left at what the daemon was started with.
  profile.rlimits = {
      {RLIMIT_CORE, "core", 0},
      {RLIMIT_NOFILE, "nofile", 65536},
      {RLIMIT_MEMLOCK, "memlock", 8 << 20},
      {RLIMIT_MSGQUEUE, "msgqueue", 819200},
      {RLIMIT_SIGPENDING, "sigpending", 16384},
      {RLIMIT_STACK, "stack", RLIM_INFINITY, 8 << 20},
      {RLIMIT_CPU, "cpu", RLIM_INFINITY},
      {RLIMIT_FSIZE, "fsize", RLIM_INFINITY},
      {RLIMIT_DATA, "data", RLIM_INFINITY},
      {RLIMIT_RSS, "rss", RLIM_INFINITY},
      {RLIMIT_AS, "as", RLIM_INFINITY},
      {RLIMIT_LOCKS, "locks", RLIM_INFINITY},
      {RLIMIT_NICE, "nice", 0},
      {RLIMIT_RTPRIO, "rtprio", 0},
      {RLIMIT_RTTIME, "rttime", RLIM_INFINITY},
  };
  return profile;
}

Profile MakeStrict() {
  Profile profile = MakeDefault();
  profile.name = "strict";
  profile.seccomp = SeccompKind::kStrict;
  profile.capabilities = 0;
  profile.time_namespace = true;
  profile.pids_max = 512;
  return profile;
}

absl::Status Take(const std::optional<int64_t>& given, absl::string_view name, int64_t min,
                  int64_t max, int64_t& out) {
  if (!given.has_value()) return absl::OkStatus();
  if (*given < min || *given > max) {
    return absl::InvalidArgumentError(absl::StrCat(name, " must be from ", min, " to ", max));
  }
  out = *given;
  return absl::OkStatus();
}

}  // namespace

absl::Span<const Layer> AllLayers() { return kLayers; }

absl::string_view LayerName(Layer layer) {
  switch (layer) {
    case Layer::kUserNamespace:
      return "user_namespace";
    case Layer::kMountNamespace:
      return "mount_namespace";
    case Layer::kPidNamespace:
      return "pid_namespace";
    case Layer::kNetNamespace:
      return "net_namespace";
    case Layer::kIpcNamespace:
      return "ipc_namespace";
    case Layer::kUtsNamespace:
      return "uts_namespace";
    case Layer::kCgroupNamespace:
      return "cgroup_namespace";
    case Layer::kTimeNamespace:
      return "time_namespace";
    case Layer::kCapabilities:
      return "capabilities";
    case Layer::kNoNewPrivileges:
      return "no_new_privs";
    case Layer::kSeccomp:
      return "seccomp";
    case Layer::kDeviceFilter:
      return "device_filter";
    case Layer::kProcMasks:
      return "proc_masks";
    case Layer::kSysReadOnly:
      return "sys_read_only";
    case Layer::kCgroupReadOnly:
      return "cgroup_read_only";
    case Layer::kFreshDev:
      return "fresh_dev";
    case Layer::kNosuidNodev:
      return "nosuid_nodev";
    case Layer::kSessionKeyring:
      return "session_keyring";
    case Layer::kOwnSession:
      return "own_session";
    case Layer::kIdShift:
      return "id_shift";
    case Layer::kRlimits:
      return "rlimits";
  }
  return "unknown";
}

const Profile& DefaultProfile() {
  static const Profile* profile = new Profile(MakeDefault());
  return *profile;
}

const Profile& StrictProfile() {
  static const Profile* profile = new Profile(MakeStrict());
  return *profile;
}

absl::StatusOr<Profile> DeriveProfile(const Profile& base, const ProfileOverrides& overrides) {
  constexpr int64_t kLargest = int64_t{1} << 50;
  Profile profile = base;
  profile.name = overrides.name;
  if (overrides.capabilities.has_value()) {
    ASSIGN_OR_RETURN(profile.capabilities, ParseCapabilities(*overrides.capabilities));
  }
  RETURN_IF_ERROR(Take(overrides.pids_max, "pids_max", 8, 4194304, profile.pids_max));
  RETURN_IF_ERROR(Take(overrides.memory_max, "memory_max", 8 << 20, kLargest, profile.memory_max));
  RETURN_IF_ERROR(Take(overrides.shm_bytes, "shm_bytes", 65536, kLargest, profile.shm_bytes));
  RETURN_IF_ERROR(Take(overrides.root_bytes, "root_bytes", 65536, kLargest, profile.root_bytes));
  RETURN_IF_ERROR(Take(overrides.root_inodes, "root_inodes", 128, kLargest, profile.root_inodes));
  return profile;
}

}  // namespace sandboxd
