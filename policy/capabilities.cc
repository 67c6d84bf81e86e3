#include "policy/capabilities.h"

#include <linux/capability.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace sandboxd {
namespace {

struct Grantable {
  int number;
  const char* name;
  bool by_default;
  const char* reason;
};

constexpr Grantable kGrantable[] = {
    {CAP_CHOWN, "CHOWN", true, "tar and package managers set owners"},
    {CAP_DAC_OVERRIDE, "DAC_OVERRIDE", true, "root writes others' files inside"},
    {CAP_FOWNER, "FOWNER", true, "root changes modes of others' files inside"},
    {CAP_FSETID, "FSETID", true, "keeps setgid bits when package managers write"},
    {CAP_KILL, "KILL", true, "root signals others' processes inside"},
    {CAP_SETGID, "SETGID", true, "su, package managers' unprivileged helpers"},
    {CAP_SETUID, "SETUID", true, "as SETGID"},
    {CAP_SETFCAP, "SETFCAP", true, "package managers set file capabilities, inert outside"},
    {CAP_NET_BIND_SERVICE, "NET_BIND_SERVICE", true, "servers on low ports inside"},
    {CAP_SYS_CHROOT, "SYS_CHROOT", true, "package managers chroot into a target"},
    {CAP_SETPCAP, "SETPCAP", false, "programs that drop their bounding set"},
    {CAP_AUDIT_WRITE, "AUDIT_WRITE", false, "login programs write audit records"},
    {CAP_IPC_LOCK, "IPC_LOCK", false, "locks memory beyond RLIMIT_MEMLOCK"},
    {CAP_LEASE, "LEASE", false, "file leases of others' files"},
};

}  // namespace

uint64_t DefaultCapabilities() {
  uint64_t mask = 0;
  for (const Grantable& entry : kGrantable) {
    if (entry.by_default) mask |= uint64_t{1} << entry.number;
  }
  return mask;
}

absl::StatusOr<uint64_t> ParseCapabilities(const std::vector<std::string>& names) {
  uint64_t mask = 0;
  for (const std::string& given : names) {
    std::string name = absl::AsciiStrToUpper(given);
    if (absl::StartsWith(name, "CAP_")) name = name.substr(4);
    bool found = false;
    for (const Grantable& entry : kGrantable) {
      if (name != entry.name) continue;
      mask |= uint64_t{1} << entry.number;
      found = true;
    }
    if (!found) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the capability ", given, " is unknown or cannot be granted to a sandbox; possible are ",
          CapabilityNames(~uint64_t{0})));
    }
  }
  return mask;
}

std::string CapabilityNames(uint64_t mask) {
  std::vector<absl::string_view> names;
  for (const Grantable& entry : kGrantable) {
    if ((mask >> entry.number & 1) != 0) names.push_back(entry.name);
  }
  return names.empty() ? "none" : absl::StrJoin(names, ",");
}

}  // namespace sandboxd
