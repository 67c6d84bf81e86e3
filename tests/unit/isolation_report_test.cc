#include "runtime/isolation_report.h"

#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sandboxd {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kBase = 0x70000000;

// What the probe writes where every layer of `strict` is in force.
ProbeAnswer GoodAnswer() {
  ProbeAnswer answer = {};
  answer.magic = kProbeMagic;
  answer.size = sizeof answer;
  for (size_t i = 0; i < kProbeNamespaces; ++i) answer.namespaces[i] = 100 + i;
  answer.uid_map = answer.gid_map = {.lines = 1, .inside = 0, .outside = kBase, .count = 65536};
  answer.no_new_privileges = 1;
  answer.seccomp_mode = 2;
  answer.pid = answer.session = 7;
  for (int32_t& outcome : answer.attempts) outcome = EPERM;
  answer.attempts[kTryWriteDev] = answer.attempts[kTryWriteSys] = EROFS;
  answer.attempts[kTryWriteCgroup] = EROFS;
  answer.device = kRefusedDevice;
  answer.dev = {TMPFS_MAGIC, ST_RDONLY};
  answer.sys = {SYSFS_MAGIC, ST_RDONLY};
  answer.cgroup = {CGROUP2_SUPER_MAGIC, ST_RDONLY};
  for (ProbeFinding* finding : {&answer.masked, &answer.read_only, &answer.dev_entries,
                                &answer.mounts, &answer.root_entries}) {
    finding->seen = 10;
  }
  return answer;
}

// The host beside it, which has other namespaces.
ReportSubject Subject(const Profile& profile) {
  HostView host;
  host.daemon.fill(1);
  host.shim.fill(1);
  host.shim[1] = 2;
  host.keys = 3;
  return {profile, kBase, {{RLIMIT_CORE, 0, 0, 0}, {RLIMIT_NOFILE, 0, 1024, 1024}}, host};
}

std::string Bytes(const ProbeAnswer& answer) {
  return std::string(reinterpret_cast<const char*>(&answer), sizeof answer);
}

// The names of the layers that are not in force.
std::set<std::string> Missing(const ProbeAnswer& answer, const ReportSubject& subject) {
  std::set<std::string> names;
  for (const LayerReport& layer : JudgeLayers(answer, subject)) {
    if (!layer.in_force.value_or(false)) names.emplace(LayerName(layer.layer));
  }
  return names;
}

void SetBad(ProbeFinding& finding, uint32_t bad) {
  finding.bad = bad;
  strcpy(finding.first_bad, "/x");
}

TEST(JudgeLayersTest, AGoodAnswerPutsEveryLayerInForce) {
  EXPECT_THAT(Missing(GoodAnswer(), Subject(StrictProfile())), IsEmpty());
}

TEST(JudgeLayersTest, AnAnswerWithoutMeasurementsPutsNoneInForce) {
  ReportSubject subject = Subject(StrictProfile());
  subject.host = {};

  EXPECT_EQ(Missing(ProbeAnswer{}, subject).size(), AllLayers().size());
}

TEST(JudgeLayersTest, ALayerThatTheProfileLacksIsNeitherInForceNorNot) {
  ProbeAnswer answer = GoodAnswer();
  answer.namespaces[7] = 1;
  for (const ProbeCapabilitySet set : {kEffective, kPermitted, kBounding}) {
    answer.capabilities[set] = DefaultProfile().capabilities;
  }

  for (const LayerReport& layer : JudgeLayers(answer, Subject(DefaultProfile()))) {
    const bool has_it = layer.layer != Layer::kTimeNamespace;
    EXPECT_EQ(layer.in_force, has_it ? std::optional<bool>(true) : std::nullopt)
        << LayerName(layer.layer);
  }
}

TEST(JudgeLayersTest, AKernelWithoutKeyringsHasNoneToShare) {
  ReportSubject subject = Subject(StrictProfile());
  subject.host.keys = -1;

  EXPECT_THAT(Missing(GoodAnswer(), subject), IsEmpty());
}

TEST(JudgeLayersTest, TheEvidenceNamesWhatIsWrong) {
  ProbeAnswer answer = GoodAnswer();
  SetBad(answer.mounts, 2);
  answer.attempts[kTryBpf] = 0;

  for (const LayerReport& layer : JudgeLayers(answer, Subject(StrictProfile()))) {
    if (layer.layer == Layer::kNosuidNodev) {
      EXPECT_EQ(layer.evidence, "2 of 10 writable mounts are not nosuid and nodev, first /x");
    }
    if (layer.layer == Layer::kSeccomp) {
      EXPECT_THAT(layer.evidence, HasSubstr("not refused: bpf"));
    }
  }
}

struct Fault {
  const char* name;
  std::function<void(ProbeAnswer&)> make;
  std::set<std::string> missing;
};

// One thing that is wrong, and the layers that it shows to be missing.
const Fault kFaults[] = {
    {"HostsUserNamespace", [](auto& a) { a.namespaces[0] = 1; }, {"user_namespace"}},
    {"ShimsMountNamespace", [](auto& a) { a.namespaces[1] = 2; }, {"mount_namespace"}},
    {"HostsPidNamespace", [](auto& a) { a.namespaces[2] = 1; }, {"pid_namespace"}},
    {"UnreadNetNamespace", [](auto& a) { a.namespaces[3] = 0; }, {"net_namespace"}},
    {"HostsTimeNamespace", [](auto& a) { a.namespaces[7] = 1; }, {"time_namespace"}},
    {"IdentityMap", [](auto& a) { a.uid_map.outside = 0; }, {"user_namespace", "id_shift"}},
    {"LargerMap", [](auto& a) { a.gid_map.count = 65537; }, {"user_namespace", "id_shift"}},
    {"EffectiveCapability", [](auto& a) { a.capabilities[kEffective] = 1; }, {"capabilities"}},
    {"BoundingCapability", [](auto& a) { a.capabilities[kBounding] = 1; }, {"capabilities"}},
    {"AmbientCapability", [](auto& a) { a.capabilities[kAmbient] = 1; }, {"capabilities"}},
    {"RawSocket", [](auto& a) { a.attempts[kTryRawSocket] = 0; }, {"capabilities"}},
    {"NewPrivileges", [](auto& a) { a.no_new_privileges = 0; }, {"no_new_privs"}},
    {"NoFilter", [](auto& a) { a.seccomp_mode = 0; }, {"seccomp"}},
    {"ForeignAbi", [](auto& a) { a.attempts[kTryForeignAbi] = 0; }, {"seccomp"}},
    {"IoUringOutOfMemory", [](auto& a) { a.attempts[kTryIoUring] = ENOMEM; }, {"seccomp"}},
    {"Device", [](auto& a) { a.attempts[kTryDevice] = 0; }, {"device_filter"}},
    {"DeviceRefusedByItsMode", [](auto& a) { a.attempts[kTryDevice] = EACCES; }, {"device_filter"}},
    {"Mknod", [](auto& a) { a.attempts[kTryMakeDevice] = 0; }, {"device_filter"}},
    {"ReadableMask", [](auto& a) { SetBad(a.masked, 1); }, {"proc_masks"}},
    {"NoMasks", [](auto& a) { a.masked = {}; }, {"proc_masks"}},
    {"WritableProc", [](auto& a) { SetBad(a.read_only, 1); }, {"proc_masks"}},
    {"WritableSys", [](auto& a) { a.sys.flags = 0; }, {"sys_read_only"}},
    {"MkdirInSys", [](auto& a) { a.attempts[kTryWriteSys] = 0; }, {"sys_read_only"}},
    {"WritableCgroup", [](auto& a) { a.cgroup.flags = 0; }, {"cgroup_read_only"}},
    {"DevOfTheImage", [](auto& a) { a.dev.type = OVERLAYFS_SUPER_MAGIC; }, {"fresh_dev"}},
    {"ForeignDevice", [](auto& a) { SetBad(a.dev_entries, 1); }, {"fresh_dev"}},
    {"FileInDev", [](auto& a) { a.attempts[kTryWriteDev] = 0; }, {"fresh_dev"}},
    {"LooseMount", [](auto& a) { SetBad(a.mounts, 1); }, {"nosuid_nodev"}},
    {"SharedSession", [](auto& a) { a.session = 0; }, {"own_session"}},
    {"MostFilesUnshifted", [](auto& a) { SetBad(a.root_entries, 9); }, {"id_shift"}},
    {"OneFileOfNobody", [](auto& a) { SetBad(a.root_entries, 1); }, {}},
    {"Rlimit", [](auto& a) { a.rlimits[RLIMIT_NOFILE].hard = 1025; }, {"rlimits"}},
    {"RlimitRaised", [](auto& a) { a.attempts[kTryRaiseRlimit] = 0; }, {"rlimits"}},
};

class FaultTest : public ::testing::TestWithParam<Fault> {};
INSTANTIATE_TEST_SUITE_P(Faults, FaultTest, ::testing::ValuesIn(kFaults),
                         [](const auto& fault) { return fault.param.name; });

TEST_P(FaultTest, ShowsInItsLayerAndNoOther) {
  ProbeAnswer answer = GoodAnswer();
  GetParam().make(answer);

  const auto parsed = ParseProbeAnswer(Bytes(answer));

  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(Missing(*parsed, Subject(StrictProfile())), GetParam().missing);
}

TEST(ParseProbeAnswerTest, OnlyTheExactSizeIsTaken) {
  const std::string bytes = Bytes(GoodAnswer());

  EXPECT_TRUE(ParseProbeAnswer(bytes).ok());
  EXPECT_FALSE(ParseProbeAnswer("").ok());
  EXPECT_FALSE(ParseProbeAnswer(bytes.substr(1)).ok());
  EXPECT_FALSE(ParseProbeAnswer(bytes + '\0').ok());
}

TEST(ParseProbeAnswerTest, FieldsThatNoProbeWritesAreRefused) {
  const std::function<void(ProbeAnswer&)> faults[] = {
      [](auto& a) { ++a.magic; },
      [](auto& a) { ++a.size; },
      [](auto& a) { a.device = 0; },
      [](auto& a) { a.attempts[0] = -2; },
      [](auto& a) { a.attempts[kProbeAttempts - 1] = 4096; },
      [](auto& a) { memset(a.masked.first_bad, 'x', kProbeText), a.masked.bad = 1; },
      [](auto& a) { strcpy(a.mounts.first_bad, "\x1b[2J"), a.mounts.bad = 1; },
      [](auto& a) { a.root_entries.bad = 1; },                  // Without a name.
      [](auto& a) { strcpy(a.dev_entries.first_bad, "mem"); },  // A name, and none is bad.
  };
  for (const auto& fault : faults) {
    ProbeAnswer answer = GoodAnswer();
    fault(answer);

    EXPECT_EQ(ParseProbeAnswer(Bytes(answer)).status().code(), absl::StatusCode::kDataLoss)
        << "fault " << &fault - faults;
  }
}

}  // namespace
}  // namespace sandboxd
