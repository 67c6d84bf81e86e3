// The daemon's control groups (cgroups(7), Documentation/admin-guide/cgroup-v2.rst):
//
//   <root>/<id>/shim        the shim, out of reach of the sandbox's limits and of its kill
//   <root>/<id>/box         the sandbox: limits, freeze and kill act here
//   <root>/<id>/box/init    its PID 1
//   <root>/<id>/box/exec-N  one exec each
#ifndef SANDBOXD_RUNTIME_CGROUP_H_
#define SANDBOXD_RUNTIME_CGROUP_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/unique_fd.h"

namespace sandboxd {

// A setting of a group: file and content, as {"pids.max", "4096"}.
using CgroupSetting = std::pair<std::string, std::string>;

class CgroupTree {
 public:
  // Finds the cgroup2 mount in mountinfo, makes `name` beneath it, enables the controllers that
  // exist there, and attaches the device filter. Without `allow_hybrid`, a host whose memory, pids
  // and cpu controllers are not in cgroup v2 is FAILED_PRECONDITION.
  static absl::StatusOr<CgroupTree> Open(const std::string& name, bool allow_hybrid);

  // Loads and attaches `program`, which then judges every device access beneath the root
  // (BPF_CGROUP_DEVICE, bpf(2)).
  absl::Status AttachDeviceFilter(absl::string_view program);

  // Makes the groups of a sandbox with `settings` on its box; returns its directory. Settings whose
  // controller is missing are left out: has_controller() tells which.
  absl::StatusOr<UniqueFd> Make(const std::string& id,
                                const std::vector<CgroupSetting>& settings) const;

  // Removes what is left of a sandbox's groups. FAILED_PRECONDITION while processes are in them.
  absl::Status Remove(const std::string& id) const;

  // Ends every process of a sandbox whose shim has gone. Does not wait.
  absl::Status Kill(const std::string& id) const;

  // The sandboxes that have groups here.
  absl::StatusOr<std::vector<std::string>> List() const;

  // Removes the root itself, at the daemon's end, if nothing is left beneath it.
  void RemoveRoot() const;

  const std::string& path() const { return path_; }
  bool has_controller(absl::string_view name) const { return controllers_.contains(name); }

 private:
  CgroupTree(std::string path, UniqueFd root) : path_(std::move(path)), root_(std::move(root)) {}

  std::string path_;
  UniqueFd root_;
  UniqueFd device_filter_;
  absl::flat_hash_set<std::string> controllers_;
};

}  // namespace sandboxd

#endif  // SANDBOXD_RUNTIME_CGROUP_H_
