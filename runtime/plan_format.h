// The flat plans that the daemon writes and the static launch program walks. A plan is one sealed
// memory file: a fixed header, then arrays and strings, all addressed by offsets from the start of
// the file. Plain data only: this header is shared with a program that has no library.
//
// An offset of 0 means "none": the header occupies it. Strings end in NUL. The walker checks the
// magic, the kind, the size and every offset before use, although only the daemon can write one.
#ifndef SANDBOXD_RUNTIME_PLAN_FORMAT_H_
#define SANDBOXD_RUNTIME_PLAN_FORMAT_H_

#include <cstddef>
#include <cstdint>

namespace sandboxd {

inline constexpr uint32_t kPlanMagic = 0x5842'5331;  // "1SBX"
// The kernel's own limit on argv and envp is a quarter of the stack limit, 2 MiB by default.
inline constexpr uint32_t kMaxPlanBytes = 4u << 20;
inline constexpr uint32_t kMaxRlimits = 16;
inline constexpr uint32_t kMaxLayers = 128;
inline constexpr uint32_t kMaxGroups = 64;  // Supplementary groups of one user.

enum class PlanKind : uint32_t { kPrepare = 1, kLaunch = 2, kExec = 3 };

struct PlanHeader {
  uint32_t magic;
  PlanKind kind;
  uint32_t size;  // Of the whole file.
  uint32_t zero;
};

struct PlanArray {
  uint32_t offset;  // 8-byte aligned.
  uint32_t count;   // Elements.
};

using PlanString = uint32_t;  // Offset of a NUL-terminated string, or 0.

struct PlanRlimit {
  uint32_t resource;  // RLIMIT_*
  uint32_t zero;
  uint64_t soft;
  uint64_t hard;
};

// --- What is done before the image is known --------------------------------------------------

enum class MountOp : uint32_t {
  kMount = 1,     // mount(source, target, type, flags, data)
  kBind = 2,      // bind source at target, then remount with flags unless they are 0
  kMask = 3,      // hide target, if it exists: a file by /dev/null, a directory by an empty one
  kReadOnly = 4,  // bind target at itself, read-only, if it exists
};

struct PlanMount {
  MountOp op;
  PlanString source;
  PlanString target;
  PlanString type;
  PlanString data;
  uint32_t zero;
  uint64_t flags;  // MS_* of mount(2)
};

inline constexpr uint32_t kPrepareSessionKeyring = 1;
inline constexpr uint32_t kPrepareOwnSession = 2;
inline constexpr uint32_t kPrepareNoNewPrivileges = 4;

struct PreparePlan {
  PlanHeader header;
  uint64_t namespaces;    // CLONE_NEW* that the sandbox gets.
  uint64_t capabilities;  // The bounding set of every process inside.
  uint64_t root_bytes;    // Of the root's upper layer.
  uint64_t root_inodes;
  uint32_t flags;      // kPrepare*
  uint32_t processes;  // Processes and threads of the whole sandbox.
  // PlanMount, done by init beneath its staging directory: those that do not depend on the network
  // and cgroup namespaces, and those that do.
  PlanArray early_mounts;
  PlanArray late_mounts;
};

// The inodes of a tmpfs of `bytes`. Empty files take none of its bytes, but memory of the host.
inline constexpr uint64_t TmpfsInodes(uint64_t bytes) { return bytes / 2048 + 64; }

// --- What makes the root and starts init ---------------------------------------------------------

enum class AttachKind : uint32_t {
  kStaged = 1,  // Move the mount at the staging path `source`.
  kPassed = 2,  // Attach the detached mount that came as descriptor number `index`.
  kTmpfs = 3,   // A new tmpfs of `size` bytes with `mode`.
};

struct PlanAttach {
  AttachKind kind;
  PlanString source;
  PlanString target;  // Relative to the new root. Missing directories are made.
  uint32_t index;
  uint32_t mode;
  uint32_t zero;
  uint64_t size;
  uint64_t attributes;  // MOUNT_ATTR_* set on it.
};

inline constexpr uint32_t kLaunchReadOnlyRoot = 1;
inline constexpr uint32_t kLaunchShiftLayers = 2;  // idmapped lower layers

// Descriptors of the launch message, in this order: this plan, then `layer_count` detached lower
// layers from top to bottom, then the detached mounts of kPassed.
struct LaunchPlan {
  PlanHeader header;
  PlanString hostname;  // None: it stays.
  uint32_t layer_count;
  uint64_t root_attributes;  // MOUNT_ATTR_* of the root mount.
  uint32_t flags;            // kLaunch*
  uint32_t zero;
  PlanArray attaches;  // PlanAttach, in order.
};

// --- One exec
// ----------------------------------------------------------------------------------------

inline constexpr uint32_t kExecStdinPipe = 1;
inline constexpr uint32_t kExecProgramFd = 2;  // Run the second descriptor instead of a file.

// Descriptors of the exec message: this plan, with kExecProgramFd the program, and then optionally
// what the program gets as standard input.
struct ExecPlan {
  PlanHeader header;
  uint32_t flags;  // kExec*
  uint32_t umask;
  PlanString user_name;  // To look up inside; else uid holds.
  PlanString group_name;
  uint32_t uid;
  uint32_t gid;  // kNoId: the user's primary group, or 0 where it has none.
  PlanString cwd;
  PlanString path;        // Directories to search, `:` between; none: argv[0] is the path.
  uint64_t capabilities;  // Permitted and effective for uid 0. Others have none.
  PlanArray argv;         // uint64_t offsets; the last is 0.
  PlanArray env;          // uint64_t offsets; one spare 0 for HOME and a last 0.
  PlanArray rlimits;      // PlanRlimit
  uint32_t has_home;      // env sets HOME already.
  uint32_t zero;
};

inline constexpr uint32_t kNoId = 0xffffffff;

}  // namespace sandboxd

#endif  // SANDBOXD_RUNTIME_PLAN_FORMAT_H_
