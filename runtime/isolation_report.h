// From what the probe measured to a verdict on each layer. Pure functions; the probe's bytes are
// treated as hostile.
#ifndef SANDBOXD_RUNTIME_ISOLATION_REPORT_H_
#define SANDBOXD_RUNTIME_ISOLATION_REPORT_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "policy/profile.h"
#include "runtime/plan_format.h"
#include "runtime/probe_format.h"

namespace sandboxd {

// What the probe is given to try: character device 60:0, which is not on the device filter's list
// and has no driver (60 to 63 are for local use).
inline constexpr dev_t kRefusedDevice = 60 << 8;

// The host at the time of the report.
struct HostView {
  std::array<uint64_t, kProbeNamespaces> daemon = {};  // Inode numbers of its namespaces.
  std::array<uint64_t, kProbeNamespaces> shim = {};
  int64_t keys = 0;  // Of the sandbox's root in the kernel's keyrings; -1: there are no keyrings.
};

// What a sandbox was promised.
struct ReportSubject {
  const Profile& profile;
  uint32_t id_base;
  std::vector<PlanRlimit> rlimits;
  HostView host;
};

struct LayerReport {
  Layer layer;
  std::optional<bool> in_force;  // None: the profile does not have it.
  std::string evidence;          // What was measured, printable ASCII.
};

// DATA_LOSS for anything but exactly one answer with plausible fields.
absl::StatusOr<ProbeAnswer> ParseProbeAnswer(absl::string_view bytes);

// One entry for each of AllLayers(), in their order.
std::vector<LayerReport> JudgeLayers(const ProbeAnswer& answer, const ReportSubject& subject);

}  // namespace sandboxd

#endif  // SANDBOXD_RUNTIME_ISOLATION_REPORT_H_
