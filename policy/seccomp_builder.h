#ifndef SANDBOXD_POLICY_SECCOMP_BUILDER_H_
#define SANDBOXD_POLICY_SECCOMP_BUILDER_H_

#include <linux/filter.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sandboxd {

// A condition on one argument: (argument & mask) == value. Only the low 32 bits can be named,
// because the kernel truncates `int` arguments: a 64-bit comparison can be passed by setting a high
// bit (`socket(1 | 1 << 32, …)` opens AF_UNIX).
struct ArgumentRule {
  unsigned index = 0;
  uint32_t mask = 0xffffffff;
  uint32_t value = 0;
};

// Builds an allow-list filter for x86-64 in kernel-ready bytes. What no rule names fails with
// EPERM; numbers above those known to libseccomp fail with ENOSYS, so that a C library falls back;
// other ABIs (i386, x32) fail with ENOSYS. The first mistake is remembered, and Build() returns it.
class SeccompBuilder {
 public:
  SeccompBuilder();
  ~SeccompBuilder();
  SeccompBuilder(const SeccompBuilder&) = delete;
  SeccompBuilder& operator=(const SeccompBuilder&) = delete;

  SeccompBuilder& Allow(absl::string_view syscall);
  // Allowed where the condition holds; several calls for one system call add alternatives.
  SeccompBuilder& AllowIf(absl::string_view syscall, ArgumentRule rule);
  // Allowed where both hold.
  SeccompBuilder& AllowIf(absl::string_view syscall, ArgumentRule first, ArgumentRule second);
  // Fails with `error` rather than EPERM.
  SeccompBuilder& Deny(absl::string_view syscall, int error);
  // Allowed unless the argument's low 32 bits are one of `values`.
  SeccompBuilder& AllowUnless(absl::string_view syscall, unsigned index,
                              const std::vector<uint32_t>& values);

  absl::StatusOr<std::vector<sock_filter>> Build();

 private:
  int Number(absl::string_view syscall);
  void Add(absl::string_view syscall, uint32_t action, const std::vector<ArgumentRule>& rules);

  void* filter_;
  absl::Status status_;
};

}  // namespace sandboxd

#endif  // SANDBOXD_POLICY_SECCOMP_BUILDER_H_
