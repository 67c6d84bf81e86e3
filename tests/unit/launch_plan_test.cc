#include "runtime/launch_plan.h"

#include <sched.h>
#include <sys/mount.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace sandboxd {
namespace {

using ::testing::HasSubstr;

// Mount flags: 1 read-only, 2 nosuid, 4 nodev, 8 noexec.
TEST(LaunchPlanTest, TheMountsOfTheDefaultProfile) {
  EXPECT_EQ(DumpMounts(EarlyMounts(DefaultProfile(), LayerSet::All())),
            R"(bind /template/dev /stage/dev   0
mount devpts /stage/dev/pts devpts newinstance,mode=620,ptmxmode=666,gid=5,max=128 a
mount tmpfs /stage/dev/shm tmpfs mode=1777,size=67108864,nr_inodes=32832 e
mount mqueue /stage/dev/mqueue mqueue  e
mount proc /stage/proc proc  e
mask  /stage/proc/acpi   0
mask  /stage/proc/asound   0
mask  /stage/proc/config.gz   0
mask  /stage/proc/interrupts   0
mask  /stage/proc/kallsyms   0
mask  /stage/proc/kcore   0
mask  /stage/proc/key-users   0
mask  /stage/proc/keys   0
mask  /stage/proc/kmsg   0
mask  /stage/proc/kpagecgroup   0
mask  /stage/proc/kpagecount   0
mask  /stage/proc/kpageflags   0
mask  /stage/proc/latency_stats   0
mask  /stage/proc/sched_debug   0
mask  /stage/proc/scsi   0
mask  /stage/proc/slabinfo   0
mask  /stage/proc/timer_list   0
mask  /stage/proc/timer_stats   0
mask  /stage/proc/vmallocinfo   0
read-only  /stage/proc/bus   0
read-only  /stage/proc/fs   0
read-only  /stage/proc/irq   0
read-only  /stage/proc/mtrr   0
read-only  /stage/proc/sysrq-trigger   0
read-only  /stage/proc/sys   0
)");
  EXPECT_EQ(DumpMounts(LateMounts(DefaultProfile(), LayerSet::All())),
            R"(mount sysfs /stage/sys sysfs  f
mount cgroup2 /stage/sys/fs/cgroup cgroup2  f
mask  /stage/sys/devices/virtual/dmi   0
mask  /stage/sys/devices/virtual/powercap   0
mask  /stage/sys/firmware   0
mask  /stage/sys/kernel/debug   0
mask  /stage/sys/kernel/security   0
mask  /stage/sys/kernel/tracing   0
)");
}

// A path that begins neither with proc/ nor with sys/ would be in neither part.
TEST(LaunchPlanTest, EveryMaskIsInOneOfTheParts) {
  for (const Profile* profile : {&DefaultProfile(), &StrictProfile()}) {
    const std::string dump = absl::StrCat(DumpMounts(EarlyMounts(*profile, LayerSet::All())),
                                          DumpMounts(LateMounts(*profile, LayerSet::All())));
    for (const std::string& path : profile->masked) {
      EXPECT_THAT(dump, HasSubstr(absl::StrCat("mask  /stage/", path, " ")));
    }
    for (const std::string& path : profile->read_only) {
      EXPECT_THAT(dump, HasSubstr(absl::StrCat("read-only  /stage/", path, " ")));
    }
  }
}

TEST(LaunchPlanTest, StrictHasItsOwnClocks) {
  constexpr uint64_t kNewTime = 0x80;
  EXPECT_EQ(NamespaceFlags(DefaultProfile(), LayerSet::All()),
            uint64_t{CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                     CLONE_NEWUTS | CLONE_NEWCGROUP});
  EXPECT_EQ(NamespaceFlags(StrictProfile(), LayerSet::All()),
            NamespaceFlags(DefaultProfile(), LayerSet::All()) | kNewTime);
}

TEST(LaunchPlanTest, TheRootTakesWhatWasStagedAndWhatTheImageBinds) {
  RootSpec root;
  root.bind_targets = {"usr"};
  root.tmpfs = {{.path = "/scratch", .size_bytes = 4096, .mode = 0700}};

  const std::vector<AttachSpec> mounts = RootMounts(root, LayerSet::All());

  ASSERT_EQ(mounts.size(), 5u);
  EXPECT_EQ(mounts[0].kind, AttachKind::kPassed);
  EXPECT_EQ(mounts[0].target, "usr");
  for (const size_t i : {1, 2, 3}) EXPECT_EQ(mounts[i].kind, AttachKind::kStaged);
  EXPECT_EQ(mounts[4].kind, AttachKind::kTmpfs);
  EXPECT_EQ(mounts[4].target, "scratch");
  EXPECT_EQ(mounts[4].size, 4096u);
  EXPECT_EQ(mounts[4].attributes, uint64_t{MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV});
}

TEST(LaunchPlanTest, ThePlanOfAProfileHasItsLimits) {
  const std::string bytes = BuildPreparePlan(StrictProfile(), LayerSet::All());

  const PreparePlan& plan = *reinterpret_cast<const PreparePlan*>(bytes.data());
  EXPECT_EQ(plan.header.size, bytes.size());
  EXPECT_EQ(plan.capabilities, 0u);
  EXPECT_EQ(plan.root_bytes, static_cast<uint64_t>(StrictProfile().root_bytes));
  EXPECT_EQ(plan.flags, kPrepareSessionKeyring | kPrepareOwnSession | kPrepareNoNewPrivileges);
  EXPECT_GT(plan.early_mounts.count, plan.late_mounts.count);
}

}  // namespace
}  // namespace sandboxd
