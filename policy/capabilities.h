#ifndef SANDBOXD_POLICY_CAPABILITIES_H_
#define SANDBOXD_POLICY_CAPABILITIES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sandboxd {

// Sets of capabilities are bit masks as in /proc/<pid>/status.

// What the sandbox's root may have. Beneath a user namespace each acts on the sandbox's own ids and
// namespaces only.
uint64_t DefaultCapabilities();

// Parses names ("CHOWN" or "cap_chown"). INVALID_ARGUMENT for an unknown name, and for one that no
// profile may grant: those reach kernel surface that a sandbox's root has no business with.
absl::StatusOr<uint64_t> ParseCapabilities(const std::vector<std::string>& names);

// "CHOWN,SETUID", or "none".
std::string CapabilityNames(uint64_t mask);

}  // namespace sandboxd

#endif  // SANDBOXD_POLICY_CAPABILITIES_H_
