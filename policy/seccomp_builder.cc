#include "policy/seccomp_builder.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace sandboxd {
namespace {

constexpr uint32_t kX32Bit = 0x40000000;
constexpr int kSearchEnd = 1024;

// The highest system call number that libseccomp has a name for.
uint32_t LastKnownNumber() {
  static const uint32_t last = [] {
    uint32_t found = 0;
    for (int number = 0; number < kSearchEnd; ++number) {
      char* name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_X86_64, number);
      if (name != nullptr) found = static_cast<uint32_t>(number);
      free(name);
    }
    return found;
  }();
  return last;
}

sock_filter Load(size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset));
}

// Goes in front of libseccomp's program, which cannot say "all numbers above".
std::vector<sock_filter> UnknownNumbers() {
  return {
      Load(offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 4),
      Load(offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, kX32Bit, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, LastKnownNumber(), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
  };
}

// libseccomp 2.5 exports only to a descriptor.
absl::StatusOr<std::vector<sock_filter>> Export(scmp_filter_ctx filter) {
  UniqueFd file(memfd_create("seccomp", MFD_CLOEXEC));
  if (!file.valid()) return ErrnoError("creating a memory file");
  if (const int rc = seccomp_export_bpf(filter, file.get()); rc < 0) {
    return ErrnoError(-rc, "exporting the filter");
  }
  const off_t size = lseek(file.get(), 0, SEEK_END);
  std::vector<sock_filter> program(static_cast<size_t>(size) / sizeof(sock_filter));
  if (pread(file.get(), program.data(), static_cast<size_t>(size), 0) != size) {
    return ErrnoError("reading the filter");
  }
  return program;
}

}  // namespace

SeccompBuilder::SeccompBuilder() : filter_(seccomp_init(SCMP_ACT_ERRNO(EPERM))) {
  if (filter_ == nullptr) {
    status_ = absl::ResourceExhaustedError("making a seccomp filter");
    return;
  }
  int rc = seccomp_attr_set(filter_, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
  // 2: a binary tree, which loads and judges several times faster than a list.
  if (rc == 0) rc = seccomp_attr_set(filter_, SCMP_FLTATR_CTL_OPTIMIZE, 2);
  if (rc < 0) status_ = ErrnoError(-rc, "setting up a seccomp filter");
}

SeccompBuilder::~SeccompBuilder() {
  if (filter_ != nullptr) seccomp_release(filter_);
}

int SeccompBuilder::Number(absl::string_view syscall) {
  const int number =
      seccomp_syscall_resolve_name_arch(SCMP_ARCH_X86_64, std::string(syscall).c_str());
  if (number < 0 && status_.ok()) {
    status_ = absl::InvalidArgumentError(absl::StrCat("no system call ", syscall));
  }
  return number;
}

void SeccompBuilder::Add(absl::string_view syscall, uint32_t action,
                         const std::vector<ArgumentRule>& rules) {
  const int number = Number(syscall);
  if (!status_.ok()) return;
  std::vector<scmp_arg_cmp> compares;
  for (const ArgumentRule& rule : rules) {
    if (rule.index > 5) {
      status_ = absl::InvalidArgumentError(absl::StrCat(syscall, " has no argument ", rule.index));
      return;
    }
    compares.push_back({rule.index, SCMP_CMP_MASKED_EQ, rule.mask, rule.value & rule.mask});
  }
  const int rc = seccomp_rule_add_array(filter_, action, number,
                                        static_cast<unsigned>(compares.size()), compares.data());
  if (rc < 0) status_ = ErrnoError(-rc, absl::StrCat("adding a rule for ", syscall));
}

SeccompBuilder& SeccompBuilder::Allow(absl::string_view syscall) {
  Add(syscall, SCMP_ACT_ALLOW, {});
  return *this;
}

SeccompBuilder& SeccompBuilder::AllowIf(absl::string_view syscall, ArgumentRule rule) {
  Add(syscall, SCMP_ACT_ALLOW, {rule});
  return *this;
}

SeccompBuilder& SeccompBuilder::AllowIf(absl::string_view syscall, ArgumentRule first,
                                        ArgumentRule second) {
  Add(syscall, SCMP_ACT_ALLOW, {first, second});
  return *this;
}

SeccompBuilder& SeccompBuilder::Deny(absl::string_view syscall, int error) {
  Add(syscall, SCMP_ACT_ERRNO(static_cast<uint32_t>(error)), {});
  return *this;
}

// A value differs from a forbidden one in at least one bit. Walking the bits from the top, each
// rule fixes the bits above and flips one: together they match every other value, without a
// comparison that looks at more than 32 bits.
SeccompBuilder& SeccompBuilder::AllowUnless(absl::string_view syscall, unsigned index,
                                            const std::vector<uint32_t>& values) {
  for (int bit = 31; bit >= 0; --bit) {
    const uint32_t below = (uint32_t{1} << bit) - 1;
    const uint32_t mask = ~below;
    std::vector<uint32_t> done;
    for (const uint32_t value : values) {
      const uint32_t flipped = (value & mask) ^ (uint32_t{1} << bit);
      const bool leads_to_another = std::any_of(
          values.begin(), values.end(), [&](uint32_t other) { return (other & mask) == flipped; });
      if (leads_to_another || std::find(done.begin(), done.end(), flipped) != done.end()) continue;
      done.push_back(flipped);
      AllowIf(syscall, {.index = index, .mask = mask, .value = flipped});
    }
  }
  return *this;
}

absl::StatusOr<std::vector<sock_filter>> SeccompBuilder::Build() {
  if (!status_.ok()) return status_;
  std::vector<sock_filter> program = UnknownNumbers();
  ASSIGN_OR_RETURN(const std::vector<sock_filter> rules, Export(filter_));
  program.insert(program.end(), rules.begin(), rules.end());
  if (program.size() > BPF_MAXINSNS) return absl::ResourceExhaustedError("the filter is too long");
  return program;
}

}  // namespace sandboxd
