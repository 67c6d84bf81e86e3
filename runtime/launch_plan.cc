#include "runtime/launch_plan.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "policy/seccomp_profiles.h"
#include "runtime/plan_writer.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

namespace sandboxd {
namespace {

constexpr uint64_t kPlain = MS_NOSUID | MS_NODEV | MS_NOEXEC;
// Pseudo-terminals of one sandbox, of the 3072 that kernel.pty.max leaves to all of them.
constexpr int kMaxTerminals = 128;

struct NamespaceLayer {
  Layer layer;
  uint64_t flag;
};
constexpr NamespaceLayer kNamespaces[] = {
    {Layer::kUserNamespace, CLONE_NEWUSER},     {Layer::kMountNamespace, CLONE_NEWNS},
    {Layer::kPidNamespace, CLONE_NEWPID},       {Layer::kNetNamespace, CLONE_NEWNET},
    {Layer::kIpcNamespace, CLONE_NEWIPC},       {Layer::kUtsNamespace, CLONE_NEWUTS},
    {Layer::kCgroupNamespace, CLONE_NEWCGROUP},
};

MountSpec Mount(const char* type, const char* target, uint64_t flags, std::string data = "") {
  return {MountOp::kMount, type, target, type, std::move(data), flags};
}

void AddDev(const Profile& profile, LayerSet layers, std::vector<MountSpec>& mounts) {
  if (!layers.has(Layer::kFreshDev)) return;  // What the image has, then.
  mounts.push_back({MountOp::kBind, "/template/dev", "/stage/dev", "", "", 0});
  mounts.push_back(
      Mount("devpts", "/stage/dev/pts", MS_NOSUID | MS_NOEXEC,
            absl::StrCat("newinstance,mode=620,ptmxmode=666,gid=5,max=", kMaxTerminals)));
  mounts.push_back(Mount("tmpfs", "/stage/dev/shm", kPlain,
                         absl::StrCat("mode=1777,size=", profile.shm_bytes, ",nr_inodes=",
                                      TmpfsInodes(static_cast<uint64_t>(profile.shm_bytes)))));
  if (!layers.has(Layer::kIpcNamespace)) return;
  mounts.push_back(Mount("mqueue", "/stage/dev/mqueue", kPlain));
}

// Masks and read-only binds of those paths of the profile that begin with `prefix`.
void AddMasks(const Profile& profile, LayerSet layers, absl::string_view prefix,
              std::vector<MountSpec>& mounts) {
  if (!layers.has(Layer::kProcMasks)) return;
  const auto add = [&](MountOp op, const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
      if (!absl::StartsWith(path, prefix)) continue;
      mounts.push_back({op, "", absl::StrCat("/stage/", path), "", "", 0});
    }
  };
  add(MountOp::kMask, profile.masked);
  add(MountOp::kReadOnly, profile.read_only);
}

uint64_t WritableAttributes(LayerSet layers) {
  return layers.has(Layer::kNosuidNodev) ? MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV : 0;
}

std::string Bytes(const std::vector<sock_filter>& program) {
  return std::string(reinterpret_cast<const char*>(program.data()),
                     program.size() * sizeof(sock_filter));
}

absl::string_view OpName(MountOp op) {
  switch (op) {
    case MountOp::kMount:
      return "mount";
    case MountOp::kBind:
      return "bind";
    case MountOp::kMask:
      return "mask";
    case MountOp::kReadOnly:
      return "read-only";
  }
  return "unknown";
}

}  // namespace

uint64_t NamespaceFlags(const Profile& profile, LayerSet layers) {
  uint64_t flags = 0;
  for (const NamespaceLayer& entry : kNamespaces) {
    if (layers.has(entry.layer)) flags |= entry.flag;
  }
  if (profile.time_namespace && layers.has(Layer::kTimeNamespace)) flags |= CLONE_NEWTIME;
  return flags;
}

// proc, sysfs, mqueue and cgroup2 show a namespace each, which must be the sandbox's own before its
// root may mount them. Where it is not, the launch program's are bound, or there is none.
std::vector<MountSpec> EarlyMounts(const Profile& profile, LayerSet layers) {
  std::vector<MountSpec> mounts;
  AddDev(profile, layers, mounts);
  mounts.push_back(layers.has(Layer::kPidNamespace)
                       ? Mount("proc", "/stage/proc", kPlain)
                       : MountSpec{MountOp::kBind, "/proc", "/stage/proc", "", "", 0});
  AddMasks(profile, layers, "proc/", mounts);
  return mounts;
}

std::vector<MountSpec> LateMounts(const Profile& profile, LayerSet layers) {
  std::vector<MountSpec> mounts;
  const uint64_t sys_flags = kPlain | (layers.has(Layer::kSysReadOnly) ? MS_RDONLY : 0);
  mounts.push_back(layers.has(Layer::kNetNamespace)
                       ? Mount("sysfs", "/stage/sys", sys_flags)
                       : MountSpec{MountOp::kBind, "/sys", "/stage/sys", "", "", sys_flags});
  const uint64_t group_flags = kPlain | (layers.has(Layer::kCgroupReadOnly) ? MS_RDONLY : 0);
  if (layers.has(Layer::kCgroupNamespace)) {
    mounts.push_back(Mount("cgroup2", "/stage/sys/fs/cgroup", group_flags));
  }
  AddMasks(profile, layers, "sys/", mounts);
  return mounts;
}

std::vector<AttachSpec> RootMounts(const RootSpec& root, LayerSet layers) {
  std::vector<AttachSpec> attaches;
  for (size_t i = 0; i < root.bind_targets.size(); ++i) {
    attaches.push_back({.kind = AttachKind::kPassed,
                        .source = "",
                        .target = root.bind_targets[i],
                        .index = static_cast<uint32_t>(i)});
  }
  for (const char* name : {"dev", "proc", "sys"}) {
    if (name == absl::string_view("dev") && !layers.has(Layer::kFreshDev)) continue;
    attaches.push_back(
        {.kind = AttachKind::kStaged, .source = absl::StrCat("/stage/", name), .target = name});
  }
  for (const TmpfsSpec& tmpfs : root.tmpfs) {
    attaches.push_back({.kind = AttachKind::kTmpfs,
                        .source = "",
                        .target = tmpfs.path.substr(1),
                        .index = 0,
                        .mode = tmpfs.mode,
                        .size = tmpfs.size_bytes,
                        .attributes = WritableAttributes(layers)});
  }
  return attaches;
}

std::string BuildPreparePlan(const Profile& profile, LayerSet layers) {
  PlanWriter<PreparePlan> writer(PlanKind::kPrepare);
  const auto text = [&writer](const std::string& value) {
    return value.empty() ? 0 : writer.AddString(value);
  };
  const auto array = [&](const std::vector<MountSpec>& specs) {
    std::vector<PlanMount> mounts;
    mounts.reserve(specs.size());
    for (const MountSpec& mount : specs) {
      mounts.push_back({mount.op, text(mount.source), text(mount.target), text(mount.type),
                        text(mount.data), 0, mount.flags});
    }
    return writer.AddArray<PlanMount>(mounts);
  };
  const PlanArray early = array(EarlyMounts(profile, layers));
  const PlanArray late = array(LateMounts(profile, layers));
  PreparePlan& plan = writer.fixed();
  plan.namespaces = NamespaceFlags(profile, layers);
  plan.flags = (layers.has(Layer::kSessionKeyring) ? kPrepareSessionKeyring : 0) |
               (layers.has(Layer::kOwnSession) ? kPrepareOwnSession : 0) |
               (layers.has(Layer::kNoNewPrivileges) ? kPrepareNoNewPrivileges : 0);
  plan.processes = static_cast<uint32_t>(profile.pids_max);
  plan.capabilities = RootCapabilities(profile, layers);
  plan.root_bytes = static_cast<uint64_t>(profile.root_bytes);
  plan.root_inodes = static_cast<uint64_t>(profile.root_inodes);
  plan.early_mounts = early;
  plan.late_mounts = late;
  return std::move(writer).Finish();
}

std::string BuildLaunchPlan(const RootSpec& root, LayerSet layers) {
  PlanWriter<LaunchPlan> writer(PlanKind::kLaunch);
  std::vector<PlanAttach> attaches;
  for (const AttachSpec& attach : RootMounts(root, layers)) {
    const PlanString source = attach.source.empty() ? 0 : writer.AddString(attach.source);
    const PlanString target = writer.AddString(attach.target);
    attaches.push_back({attach.kind, source, target, attach.index, attach.mode, 0, attach.size,
                        attach.attributes});
  }
  const PlanArray array = writer.AddArray<PlanAttach>(attaches);
  const PlanString hostname =
      layers.has(Layer::kUtsNamespace) ? writer.AddString(root.hostname) : 0;
  LaunchPlan& plan = writer.fixed();
  plan.hostname = hostname;
  plan.layer_count = root.layers;
  plan.root_attributes = WritableAttributes(layers);
  plan.flags = (root.read_only ? kLaunchReadOnlyRoot : 0) |
               (layers.has(Layer::kIdShift) ? kLaunchShiftLayers : 0);
  plan.attaches = array;
  return std::move(writer).Finish();
}

uint64_t RootCapabilities(const Profile& profile, LayerSet layers) {
  return layers.has(Layer::kCapabilities) ? profile.capabilities : ~uint64_t{0};
}

std::vector<PlanRlimit> ExecRlimits(const Profile& profile, LayerSet layers) {
  std::vector<PlanRlimit> limits;
  if (!layers.has(Layer::kRlimits)) return limits;
  const auto add = [&limits](int resource, uint64_t wanted, uint64_t soft) {
    rlimit own = {};
    getrlimit(static_cast<__rlimit_resource>(resource), &own);
    // A process without CAP_SYS_RESOURCE may only lower its hard limit.
    const uint64_t hard = std::min<uint64_t>(wanted, own.rlim_max);
    limits.push_back(
        {static_cast<uint32_t>(resource), 0, soft == 0 ? hard : std::min(soft, hard), hard});
  };
  for (const RlimitSetting& setting : profile.rlimits) {
    add(setting.resource, setting.value, setting.soft);
  }
  // The second line behind pids.max: counted for each user in the sandbox's user namespace, whose
  // own limit is on all of them together (prepare.cc).
  add(RLIMIT_NPROC, static_cast<uint64_t>(profile.pids_max), 0);
  return limits;
}

absl::StatusOr<std::string> ExecFilter(const Profile& profile, LayerSet layers) {
  if (!layers.has(Layer::kSeccomp)) return std::string();
  ASSIGN_OR_RETURN(const std::vector<sock_filter> program, ExecSeccompFilter(profile.seccomp));
  return Bytes(program);
}

absl::StatusOr<std::string> InitFilterBytes(LayerSet layers) {
  if (!layers.has(Layer::kSeccomp)) return std::string();
  ASSIGN_OR_RETURN(const std::vector<sock_filter> program, InitSeccompFilter());
  return Bytes(program);
}

std::string DumpMounts(const std::vector<MountSpec>& mounts) {
  std::string dump;
  for (const MountSpec& mount : mounts) {
    absl::StrAppend(&dump, OpName(mount.op), " ", mount.source, " ", mount.target, " ", mount.type,
                    " ", mount.data, " ", absl::Hex(mount.flags), "\n");
  }
  return dump;
}

}  // namespace sandboxd
