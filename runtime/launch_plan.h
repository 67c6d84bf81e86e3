// What a sandbox is made of, decided before the first privileged call. Pure functions: profile and
// request in, flat plans out.
#ifndef SANDBOXD_RUNTIME_LAUNCH_PLAN_H_
#define SANDBOXD_RUNTIME_LAUNCH_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "policy/profile.h"
#include "runtime/plan_format.h"

namespace sandboxd {

// The layers that a sandbox gets. All of them, always; tests leave one out to show that its test
// turns red then. The kernel lets the root of a user namespace mount only in a mount namespace of
// its own and shift ids only to its own, so: no mount namespace, no user namespace; no user
// namespace, no id shift.
class LayerSet {
 public:
  static LayerSet All() { return LayerSet(~uint64_t{0}); }
  LayerSet Without(Layer layer) const {
    const LayerSet rest(bits_ & ~Bit(layer));
    if (layer == Layer::kMountNamespace) return rest.Without(Layer::kUserNamespace);
    return layer == Layer::kUserNamespace ? rest.Without(Layer::kIdShift) : rest;
  }
  bool has(Layer layer) const { return (bits_ & Bit(layer)) != 0; }

 private:
  explicit LayerSet(uint64_t bits) : bits_(bits) {}
  static uint64_t Bit(Layer layer) { return uint64_t{1} << static_cast<int>(layer); }
  uint64_t bits_;
};

// One mount that init makes beneath its staging directory, in order.
struct MountSpec {
  MountOp op;
  std::string source;
  std::string target;
  std::string type;
  std::string data;
  uint64_t flags = 0;
};

// One mount on the new root.
struct AttachSpec {
  AttachKind kind;
  std::string source;  // kStaged
  std::string target;  // Relative to the root.
  uint32_t index = 0;  // kPassed
  uint32_t mode = 0;   // kTmpfs
  uint64_t size = 0;   // kTmpfs
  uint64_t attributes = 0;
};

struct TmpfsSpec {
  std::string path;  // Absolute.
  uint64_t size_bytes = 0;
  uint32_t mode = 01777;

  friend bool operator==(const TmpfsSpec&, const TmpfsSpec&) = default;
};

// What a create asked for, as far as the root is concerned.
struct RootSpec {
  std::string hostname;
  bool read_only = false;
  uint32_t layers = 1;
  std::vector<std::string> bind_targets;  // Of the image, in the order their mounts are passed.
  std::vector<TmpfsSpec> tmpfs;
};

// CLONE_NEW* of `profile`.
uint64_t NamespaceFlags(const Profile& profile, LayerSet layers);

// The mounts that are made before the image is known, in two parts: /dev and /proc while the
// network and cgroup namespaces are still being made, and /sys, which shows them.
std::vector<MountSpec> EarlyMounts(const Profile& profile, LayerSet layers);
std::vector<MountSpec> LateMounts(const Profile& profile, LayerSet layers);

// The mounts on the root, after it.
std::vector<AttachSpec> RootMounts(const RootSpec& root, LayerSet layers);

std::string BuildPreparePlan(const Profile& profile, LayerSet layers);
std::string BuildLaunchPlan(const RootSpec& root, LayerSet layers);

// The capabilities of root inside: the profile's.
uint64_t RootCapabilities(const Profile& profile, LayerSet layers);

// The resource limits of a profile's execs, none above what this process could itself set.
std::vector<PlanRlimit> ExecRlimits(const Profile& profile, LayerSet layers);

// The filter of a profile's execs and that of init as their raw bytes; empty where the layer is
// left out.
absl::StatusOr<std::string> ExecFilter(const Profile& profile, LayerSet layers);
absl::StatusOr<std::string> InitFilterBytes(LayerSet layers);

// One line for each part of a plan, for golden tests and for people.
std::string DumpMounts(const std::vector<MountSpec>& mounts);

}  // namespace sandboxd

#endif  // SANDBOXD_RUNTIME_LAUNCH_PLAN_H_
