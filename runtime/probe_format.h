// What the isolation probe (runtime/probe) writes to its standard output: one ProbeAnswer, as it
// lies in memory. Plain data only: this header is shared with a program that has no library.
//
// The probe measures and does not judge: it knows neither the profile nor the host.
#ifndef SANDBOXD_RUNTIME_PROBE_FORMAT_H_
#define SANDBOXD_RUNTIME_PROBE_FORMAT_H_

#include <cstddef>
#include <cstdint>

namespace sandboxd {

inline constexpr uint32_t kProbeMagic = 0x5842'5352;  // "RSBX"
inline constexpr size_t kProbeText = 64;
inline constexpr size_t kProbeRlimits = 16;

// Its arguments: a path that must show nothing, and one that must not be writable.
inline constexpr char kProbeMasked[] = "masked:";
inline constexpr char kProbeReadOnly[] = "read-only:";

// The namespaces in the order in which the probe names them (/proc/self/ns).
inline constexpr size_t kProbeNamespaces = 8;
inline constexpr const char* kProbeNamespaceNames[kProbeNamespaces] = {
    "user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"};

// What is tried for real. The outcome of each is 0 where it went through, else the errno.
enum ProbeAttempt : uint32_t {
  kTryIoUring,
  kTryKeyctl,
  kTryBpf,
  kTryUserNamespace,  // unshare(CLONE_NEWUSER)
  kTryCryptoSocket,   // socket(AF_ALG)
  kTryForeignAbi,     // int 0x80, the calls of i386
  kTryRawSocket,      // Needs CAP_NET_RAW, which no profile may grant.
  kTryMakeDevice,     // mknod of the null device
  kTryDevice,         // access to the device node that is the probe's standard input
  kTryWriteDev,       // a new file in /dev
  kTryWriteSys,       // a new directory in /sys
  kTryWriteCgroup,    // a new directory in /sys/fs/cgroup
  kTryRaiseRlimit,    // a higher hard limit of RLIMIT_CORE
  kProbeAttempts,
};
inline constexpr int32_t kNotPossible = -1;  // The outcome where the kernel has no such thing.

struct ProbeIdMap {
  uint32_t lines;
  uint32_t inside;  // The first line.
  uint32_t outside;
  uint32_t count;
};

// statfs(2) of a mount point.
struct ProbeFileSystem {
  uint64_t type;
  uint64_t flags;  // ST_*
};

// Several things of one kind: how many were looked at, how many are not as they must be, and the
// name of the first of those (printable ASCII, NUL-terminated).
struct ProbeFinding {
  uint32_t seen;
  uint32_t bad;
  char first_bad[kProbeText];
};

enum ProbeCapabilitySet : uint32_t {
  kInheritable,
  kPermitted,
  kEffective,
  kBounding,
  kAmbient,
  kProbeCapabilitySets,
};

struct ProbeRlimit {
  uint64_t soft;
  uint64_t hard;
};

struct ProbeAnswer {
  uint32_t magic;
  uint32_t size;                          // Of the whole.
  uint64_t namespaces[kProbeNamespaces];  // Inode numbers.
  ProbeIdMap uid_map;
  ProbeIdMap gid_map;
  uint64_t capabilities[kProbeCapabilitySets];
  uint32_t no_new_privileges;
  uint32_t seccomp_mode;
  int32_t pid;
  int32_t session;
  int32_t attempts[kProbeAttempts];
  uint32_t interfaces;  // Network interfaces.
  uint64_t device;      // st_rdev of standard input; 0 where that is no device.
  ProbeFileSystem dev;
  ProbeFileSystem sys;
  ProbeFileSystem cgroup;
  ProbeFinding masked;        // Bad: something can be read there.
  ProbeFinding read_only;     // Bad: the mount is writable.
  ProbeFinding dev_entries;   // Bad: not one of those that a sandbox has.
  ProbeFinding mounts;        // The writable ones. Bad: not nosuid and nodev.
  ProbeFinding root_entries;  // Of the root's own mount. Bad: of an id that has no number inside.
  int64_t monotonic_offset;   // Seconds, of the time namespace.
  int64_t boottime_offset;
  ProbeRlimit rlimits[kProbeRlimits];  // By RLIMIT_*.
};

}  // namespace sandboxd

#endif  // SANDBOXD_RUNTIME_PROBE_FORMAT_H_
