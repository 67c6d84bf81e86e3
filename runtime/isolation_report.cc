#include "runtime/isolation_report.h"

#include <linux/magic.h>
#include <linux/seccomp.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "policy/capabilities.h"
#include "runtime/id_ranges.h"

namespace sandboxd {
namespace {

constexpr int32_t kMaxErrno = 4095;

struct Verdict {
  std::optional<bool> in_force;
  std::string evidence;
};

// The calls that the filter must refuse, whatever else would refuse them.
struct FilteredCall {
  ProbeAttempt attempt;
  const char* name;
};
constexpr FilteredCall kFilteredCalls[] = {
    {kTryIoUring, "io_uring_setup"},
    {kTryKeyctl, "keyctl"},
    {kTryBpf, "bpf"},
    {kTryUserNamespace, "unshare(CLONE_NEWUSER)"},
    {kTryCryptoSocket, "socket(AF_ALG)"},
    {kTryForeignAbi, "int 0x80"},
};

bool IsPlausible(const ProbeFinding& finding) {
  const char* end = static_cast<const char*>(memchr(finding.first_bad, '\0', kProbeText));
  if (end == nullptr) return false;
  for (const char* c = finding.first_bad; c < end; ++c) {
    if (*c <= ' ' || *c > '~') return false;
  }
  return (finding.bad > 0) == (end > finding.first_bad);
}

std::string Outcome(int32_t error) {
  if (error == kNotPossible) return "the kernel has no such thing";
  return error == 0 ? "went through" : absl::StrCat("refused with ", ErrnoName(error));
}

std::string Fraction(const ProbeFinding& finding, absl::string_view good, absl::string_view bad) {
  if (finding.bad == 0) return absl::StrCat(finding.seen, " ", good);
  return absl::StrCat(finding.bad, " of ", finding.seen, " ", bad, ", first ", finding.first_bad);
}

bool IsClean(const ProbeFinding& finding) { return finding.seen > 0 && finding.bad == 0; }

bool IsMapped(const ProbeIdMap& map, uint32_t base) {
  return map.lines == 1 && map.inside == 0 && map.outside == base && map.count == kIdsPerSandbox;
}

bool HasIdMaps(const ProbeAnswer& answer, const ReportSubject& subject) {
  return IsMapped(answer.uid_map, subject.id_base) && IsMapped(answer.gid_map, subject.id_base);
}

std::string MapText(const ProbeIdMap& map) {
  return absl::StrCat(map.inside, " ", map.outside, " ", map.count);
}

// `index`: see kProbeNamespaceNames. The shim's are not the host's where it has its own too.
Verdict JudgeNamespace(const ProbeAnswer& answer, const ReportSubject& subject, size_t index) {
  const uint64_t own = answer.namespaces[index];
  const uint64_t host = subject.host.daemon[index];
  const uint64_t shim = subject.host.shim[index];
  const bool differs = own != 0 && own != host && own != shim;
  return {differs, absl::StrCat(kProbeNamespaceNames[index], ":[", own, "], ",
                                own == shim && own != host ? "the launch program's" : "the host's",
                                " is ", own == shim ? shim : host)};
}

Verdict JudgeUserNamespace(const ProbeAnswer& answer, const ReportSubject& subject) {
  Verdict verdict = JudgeNamespace(answer, subject, 0);
  verdict.in_force = *verdict.in_force && HasIdMaps(answer, subject);
  absl::StrAppend(&verdict.evidence, "; uid_map ", MapText(answer.uid_map));
  return verdict;
}

Verdict JudgeNetNamespace(const ProbeAnswer& answer, const ReportSubject& subject) {
  Verdict verdict = JudgeNamespace(answer, subject, 3);
  absl::StrAppend(&verdict.evidence, "; network interfaces: ", answer.interfaces);
  return verdict;
}

Verdict JudgeTimeNamespace(const ProbeAnswer& answer, const ReportSubject& subject) {
  if (!subject.profile.time_namespace) {
    return {std::nullopt, absl::StrCat("the profile ", subject.profile.name, " does not have it")};
  }
  Verdict verdict = JudgeNamespace(answer, subject, 7);
  absl::StrAppend(&verdict.evidence, "; offsets ", answer.monotonic_offset, " s and ",
                  answer.boottime_offset, " s");
  return verdict;
}

Verdict JudgeCapabilities(const ProbeAnswer& answer, const ReportSubject& subject) {
  const uint64_t allowed = subject.profile.capabilities;
  const uint64_t* sets = answer.capabilities;
  const bool in_force = sets[kEffective] == allowed && sets[kPermitted] == allowed &&
                        sets[kBounding] == allowed && sets[kInheritable] == 0 &&
                        sets[kAmbient] == 0 && answer.attempts[kTryRawSocket] == EPERM;
  return {in_force, absl::StrCat("CapEff ", absl::Hex(sets[kEffective]), ", CapBnd ",
                                 absl::Hex(sets[kBounding]), ", CapAmb ", absl::Hex(sets[kAmbient]),
                                 "; raw socket ", Outcome(answer.attempts[kTryRawSocket]))};
}

Verdict JudgeSeccomp(const ProbeAnswer& answer) {
  std::vector<absl::string_view> refused;
  std::vector<absl::string_view> others;
  for (const FilteredCall& call : kFilteredCalls) {
    const int32_t error = answer.attempts[call.attempt];
    if (error == kNotPossible && call.attempt == kTryForeignAbi) continue;
    (error == EPERM || error == ENOSYS ? refused : others).emplace_back(call.name);
  }
  std::string evidence = absl::StrCat("mode ", answer.seccomp_mode);
  if (!refused.empty()) absl::StrAppend(&evidence, "; refused: ", absl::StrJoin(refused, ", "));
  if (!others.empty()) absl::StrAppend(&evidence, "; not refused: ", absl::StrJoin(others, ", "));
  return {answer.seccomp_mode == SECCOMP_MODE_FILTER && others.empty(), evidence};
}

Verdict JudgeDeviceFilter(const ProbeAnswer& answer) {
  return {
      answer.attempts[kTryDevice] == EPERM && answer.attempts[kTryMakeDevice] != 0,
      absl::StrCat("access to a device that is not allowed: ", Outcome(answer.attempts[kTryDevice]),
                   "; mknod ", Outcome(answer.attempts[kTryMakeDevice]))};
}

Verdict JudgeProcMasks(const ProbeAnswer& answer) {
  return {IsClean(answer.masked) && IsClean(answer.read_only),
          absl::StrCat(Fraction(answer.masked, "hidden paths show nothing", "can be read"), "; ",
                       Fraction(answer.read_only, "are read-only", "are writable"))};
}

Verdict JudgeReadOnly(const ProbeFileSystem& system, int32_t attempt) {
  const bool read_only = (system.flags & ST_RDONLY) != 0;
  return {read_only && attempt != 0, absl::StrCat("mounted ", read_only ? "read-only" : "writable",
                                                  "; mkdir ", Outcome(attempt))};
}

Verdict JudgeDev(const ProbeAnswer& answer) {
  const bool own = answer.dev.type == TMPFS_MAGIC && (answer.dev.flags & ST_RDONLY) != 0;
  return {own && IsClean(answer.dev_entries) && answer.attempts[kTryWriteDev] == EROFS,
          absl::StrCat(own ? "a read-only tmpfs; " : "not a read-only tmpfs; ",
                       Fraction(answer.dev_entries, "entries, all known", "entries are unknown"),
                       "; a new file ", Outcome(answer.attempts[kTryWriteDev]))};
}

Verdict JudgeMounts(const ProbeAnswer& answer) {
  return {IsClean(answer.mounts), Fraction(answer.mounts, "writable mounts, all nosuid and nodev",
                                           "writable mounts are not nosuid and nodev")};
}

// No call by which a process could look at its own keyring passes the filter; the host's count of
// keys shows it.
Verdict JudgeKeyring(const ProbeAnswer& answer, const ReportSubject& subject) {
  if (subject.host.keys < 0) return {true, "the kernel has no keyrings"};
  return {subject.host.keys > 0, absl::StrCat("keyrings of the sandbox's root: ", subject.host.keys,
                                              "; keyctl ", Outcome(answer.attempts[kTryKeyctl]))};
}

Verdict JudgeSession(const ProbeAnswer& answer) {
  return {answer.pid > 0 && answer.session == answer.pid,
          absl::StrCat("process ", answer.pid, " is in the session ", answer.session)};
}

// Not all, but most: an image may have files of ids beyond the sandbox's range, or of `nobody`,
// whose number is the one that stands for those.
Verdict JudgeIdShift(const ProbeAnswer& answer, const ReportSubject& subject) {
  const ProbeFinding& entries = answer.root_entries;
  return {HasIdMaps(answer, subject) && (entries.bad == 0 || entries.bad < entries.seen / 2),
          absl::StrCat("gid_map ", MapText(answer.gid_map), "; ",
                       Fraction(entries, "entries of / have owners inside",
                                "entries of / have no owner inside"))};
}

Verdict JudgeRlimits(const ProbeAnswer& answer, const ReportSubject& subject) {
  size_t held = 0;
  for (const PlanRlimit& limit : subject.rlimits) {
    if (limit.resource >= kProbeRlimits) continue;
    const ProbeRlimit& own = answer.rlimits[limit.resource];
    held += own.soft <= limit.soft && own.hard <= limit.hard ? 1 : 0;
  }
  return {held == subject.rlimits.size() && answer.attempts[kTryRaiseRlimit] != 0,
          absl::StrCat(held, " of ", subject.rlimits.size(), " limits hold; raising one ",
                       Outcome(answer.attempts[kTryRaiseRlimit]))};
}

Verdict Judge(Layer layer, const ProbeAnswer& answer, const ReportSubject& subject) {
  switch (layer) {
    case Layer::kUserNamespace:
      return JudgeUserNamespace(answer, subject);
    case Layer::kMountNamespace:
      return JudgeNamespace(answer, subject, 1);
    case Layer::kPidNamespace:
      return JudgeNamespace(answer, subject, 2);
    case Layer::kNetNamespace:
      return JudgeNetNamespace(answer, subject);
    case Layer::kIpcNamespace:
      return JudgeNamespace(answer, subject, 4);
    case Layer::kUtsNamespace:
      return JudgeNamespace(answer, subject, 5);
    case Layer::kCgroupNamespace:
      return JudgeNamespace(answer, subject, 6);
    case Layer::kTimeNamespace:
      return JudgeTimeNamespace(answer, subject);
    case Layer::kCapabilities:
      return JudgeCapabilities(answer, subject);
    case Layer::kNoNewPrivileges:
      return {answer.no_new_privileges == 1,
              absl::StrCat("PR_GET_NO_NEW_PRIVS says ", answer.no_new_privileges)};
    case Layer::kSeccomp:
      return JudgeSeccomp(answer);
    case Layer::kDeviceFilter:
      return JudgeDeviceFilter(answer);
    case Layer::kProcMasks:
      return JudgeProcMasks(answer);
    case Layer::kSysReadOnly:
      return JudgeReadOnly(answer.sys, answer.attempts[kTryWriteSys]);
    case Layer::kCgroupReadOnly:
      return JudgeReadOnly(answer.cgroup, answer.attempts[kTryWriteCgroup]);
    case Layer::kFreshDev:
      return JudgeDev(answer);
    case Layer::kNosuidNodev:
      return JudgeMounts(answer);
    case Layer::kSessionKeyring:
      return JudgeKeyring(answer, subject);
    case Layer::kOwnSession:
      return JudgeSession(answer);
    case Layer::kIdShift:
      return JudgeIdShift(answer, subject);
    case Layer::kRlimits:
      return JudgeRlimits(answer, subject);
  }
  return {false, "not measured"};
}

}  // namespace

absl::StatusOr<ProbeAnswer> ParseProbeAnswer(absl::string_view bytes) {
  ProbeAnswer answer;
  if (bytes.size() != sizeof answer) {
    return absl::DataLossError(
        absl::StrCat("its answer has ", bytes.size(), " bytes instead of ", sizeof answer));
  }
  memcpy(&answer, bytes.data(), sizeof answer);
  if (answer.magic != kProbeMagic || answer.size != sizeof answer) {
    return absl::DataLossError("its answer does not begin as one");
  }
  for (const ProbeFinding* finding : {&answer.masked, &answer.read_only, &answer.dev_entries,
                                      &answer.mounts, &answer.root_entries}) {
    if (!IsPlausible(*finding)) return absl::DataLossError("a finding of its answer is not sound");
  }
  for (const int32_t error : answer.attempts) {
    if (error < kNotPossible || error > kMaxErrno) {
      return absl::DataLossError("an outcome of its answer is no errno");
    }
  }
  if (answer.device != kRefusedDevice) {
    return absl::DataLossError("it was not given the device that it has to try");
  }
  return answer;
}

std::vector<LayerReport> JudgeLayers(const ProbeAnswer& answer, const ReportSubject& subject) {
  std::vector<LayerReport> report;
  for (const Layer layer : AllLayers()) {
    Verdict verdict = Judge(layer, answer, subject);
    report.push_back({layer, verdict.in_force, std::move(verdict.evidence)});
  }
  return report;
}

}  // namespace sandboxd
