#ifndef SANDBOXD_POLICY_SECCOMP_PROFILES_H_
#define SANDBOXD_POLICY_SECCOMP_PROFILES_H_

#include <linux/filter.h>

#include <vector>

#include "absl/status/statusor.h"

namespace sandboxd {

enum class SeccompKind { kDefault, kStrict };

// The filter of a sandbox's execs. `kDefault` allows what package managers, compilers, language
// runtimes, debuggers and sanitizers need; `kStrict` lacks tracing, foreign memory and personality.
// Both allow what a slot itself still does after it has loaded the filter.
absl::StatusOr<std::vector<sock_filter>> ExecSeccompFilter(SeccompKind kind);

// The filter of PID 1, which then only waits for its end.
absl::StatusOr<std::vector<sock_filter>> InitSeccompFilter();

}  // namespace sandboxd

#endif  // SANDBOXD_POLICY_SECCOMP_PROFILES_H_
