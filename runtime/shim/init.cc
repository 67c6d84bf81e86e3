#include "runtime/shim/init.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>

#include "runtime/shim/channel.h"
#include "runtime/shim/confine.h"
#include "runtime/shim/stopwatch.h"
#include "runtime/shim/sys.h"
#include "runtime/shim/zygote.h"

namespace sandboxd::shim {
namespace {

constexpr unsigned long kPlain = MS_NOSUID | MS_NODEV | MS_NOEXEC;

class Init {
 public:
  Init(int link, const PlanView& plan) : link_(link), plan_(plan) {}

  [[noreturn]] void Run() {
    const PreparePlan& plan = *plan_.As<PreparePlan>();
    FdList fds;
    Await(InitOrder::kGo, fds);
    watch_.Start();
    Identify(plan);
    StageMounts(plan.early_mounts, Stage::kStageMounts);
    Join();
    watch_.Lap(Stage::kNetworkNamespace);
    StageMounts(plan.late_mounts, Stage::kLateMounts);
    Report(InitStep::kStaged);

    Await(InitOrder::kLaunch, fds);
    watch_.Start();
    PlanView launch;
    Check(Stage::kReadPlan, launch.Map(fds.Take(0), PlanKind::kLaunch, sizeof(LaunchPlan)));
    BuildRoot(launch, fds);
    Confine(fds.Take(1));
  }

 private:
  void Report(InitStep step, StageFailure failure = {}) {
    InitReport report = {};
    report.step = step;
    report.failure = failure;
    report.time_count = watch_.TakeTo(report.times);
    // write, not send: the only output that init's filter allows.
    (void)!write(link_, &report, sizeof report);
  }

  // Ends init, and with it the sandbox, where `error` is not 0.
  void Check(Stage stage, int error, uint32_t index = 0) {
    if (error == 0) return;
    Report(InitStep::kReady, {stage, error, index});
    _exit(1);
  }

  void Await(InitOrder expected, FdList& fds) {
    InitOrder order;
    if (Receive(link_, &order, sizeof order, fds, /*wait=*/true) <= 0) _exit(0);
    if (order == InitOrder::kJoin && expected == InitOrder::kGo) {
      namespaces_ = fds;
      fds.count = 0;
      return Await(expected, fds);
    }
    Check(Stage::kReadPlan, order == expected ? 0 : EPROTO);
  }

  void Identify(const PreparePlan& plan) {
    Check(Stage::kIdentity, BecomeRootInside());
    // The kernel ends init when the shim dies, and with init everything in its pid namespace. After
    // the change of ids, which clears it.
    Check(Stage::kIdentity, Result(prctl(PR_SET_PDEATHSIG, SIGKILL)));
    if ((plan.flags & kPrepareSessionKeyring) != 0) {
      Check(Stage::kSessionKeyring, NewSessionKeyring());
    }
    if ((plan.flags & kPrepareOwnSession) != 0) Check(Stage::kOwnSession, Result(setsid()));
    // What init has now it keeps; what a program could gain is limited from here on.
    Check(Stage::kCapabilities, LimitBoundingSet(plan.capabilities));
  }

  // The namespaces that another process has made meanwhile (namespaces.h).
  void Join() {
    if (namespaces_.count == 0) Await(InitOrder::kJoin, namespaces_);
    for (size_t i = 0; i < namespaces_.count; ++i) {
      // Of whichever kind it is.
      Check(Stage::kNetworkNamespace, Result(setns(namespaces_.fds[i], 0)));
    }
    namespaces_.CloseAll();
  }

  void StageMounts(const PlanArray& array, Stage stage) {
    const PlanMount* mounts = plan_.Elements<PlanMount>(array);
    Check(stage, mounts == nullptr ? EBADMSG : 0);
    for (uint32_t i = 0; i < array.count; ++i) Check(stage, Apply(mounts[i]), i);
    watch_.Lap(stage);
  }

  // The targets are beneath our own staging directory, on file systems that the kernel makes up:
  // nothing here can be a link that someone planted.
  int Apply(const PlanMount& op) {
    const char* target = plan_.String(op.target);
    const char* source = plan_.String(op.source);
    if (target == nullptr) return EBADMSG;
    switch (op.op) {
      case MountOp::kMount:
        return Result(
            mount(source, target, plan_.String(op.type), op.flags, plan_.String(op.data)));
      case MountOp::kBind:
        if (mount(source, target, nullptr, MS_BIND, nullptr) < 0) return errno;
        if (op.flags == 0) return 0;
        return Result(mount(nullptr, target, nullptr, MS_REMOUNT | MS_BIND | op.flags, nullptr));
      case MountOp::kMask:
        return Mask(target);
      case MountOp::kReadOnly:
        if (mount(target, target, nullptr, MS_BIND | MS_REC, nullptr) < 0) {
          return errno == ENOENT ? 0 : errno;
        }
        return Result(
            mount(nullptr, target, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | kPlain, nullptr));
    }
    return EBADMSG;
  }

  int Mask(const char* target) {
    struct stat status;
    if (lstat(target, &status) < 0) return errno == ENOENT ? 0 : errno;
    const char* cover = S_ISDIR(status.st_mode) ? kTemplateEmpty : kTemplateNull;
    return Result(mount(cover, target, nullptr, MS_BIND, nullptr));
  }

  void BuildRoot(const PlanView& view, FdList& fds) {
    const LaunchPlan& plan = *view.As<LaunchPlan>();
    if (plan.hostname != 0) {
      const char* hostname = view.String(plan.hostname);
      Check(Stage::kHostname, hostname == nullptr ? EBADMSG : 0);
      Check(Stage::kHostname, Result(sethostname(hostname, strlen(hostname))));
    }
    const int root = fds.Take(2);
    Check(Stage::kAttachRoot,
          Result(move_mount(root, "", AT_FDCWD, kStageRoot, MOVE_MOUNT_F_EMPTY_PATH)));
    watch_.Lap(Stage::kAttachRoot);
    const PlanAttach* attaches = view.Elements<PlanAttach>(plan.attaches);
    Check(Stage::kAttachMount, attaches == nullptr ? EBADMSG : 0);
    for (uint32_t i = 0; i < plan.attaches.count; ++i) {
      const char* target = view.String(attaches[i].target);
      const int at = target == nullptr ? -EBADMSG : MountPoint(root, target);
      Check(Stage::kMountPoint, at < 0 ? -at : 0, i);
      Check(Stage::kAttachMount, Attach(view, attaches[i], fds, at), i);
      close(at);
    }
    watch_.Lap(Stage::kAttachMount);
    if ((plan.flags & kLaunchReadOnlyRoot) != 0) {
      mount_attr attributes = {};
      attributes.attr_set = MOUNT_ATTR_RDONLY;
      Check(Stage::kReadOnlyRoot,
            Result(mount_setattr(root, "", AT_EMPTY_PATH, &attributes, sizeof attributes)));
    }
    // pivot_root(".", ".") stacks the old root on the new one, so no directory is needed for it.
    Check(Stage::kPivotRoot, Result(fchdir(root)));
    Check(Stage::kPivotRoot, Result(PivotRoot(".", ".")));
    Check(Stage::kPivotRoot, Result(umount2(".", MNT_DETACH)));
    Check(Stage::kPivotRoot, Result(chdir("/")));
    watch_.Lap(Stage::kPivotRoot);
  }

  // Opens the mount point `path` beneath `root`, making directories that are missing. A symbolic
  // link anywhere in it is an error: the image decides nothing about where a mount lands. Returns a
  // descriptor or -errno.
  int MountPoint(int root, const char* path) {
    constexpr uint64_t kFlags = O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    char part[4096];
    const size_t length = strlen(path);
    if (length >= sizeof part) return -ENAMETOOLONG;
    int fd = OpenInRoot(root, path, kFlags);
    for (size_t end = 0; fd < 0 && errno == ENOENT && end < length;) {
      end += strspn(path + end, "/");
      end += strcspn(path + end, "/");
      memcpy(part, path, end);
      part[end] = '\0';
      fd = OpenInRoot(root, part, kFlags);
      if (fd < 0 && errno == ENOENT) {
        char* name = strrchr(part, '/');
        int parent = root;
        if (name != nullptr) {
          *name++ = '\0';
          parent = OpenInRoot(root, part, kFlags);
        }
        if (parent < 0 || mkdirat(parent, name != nullptr ? name : part, 0755) < 0) return -errno;
        if (parent != root) close(parent);
      } else if (fd < 0) {
        return -errno;
      } else {
        close(fd);
      }
      fd = OpenInRoot(root, path, kFlags);
    }
    return fd < 0 ? -errno : fd;
  }

  int Attach(const PlanView& view, const PlanAttach& attach, FdList& fds, int at) {
    switch (attach.kind) {
      case AttachKind::kStaged:
        return Result(
            move_mount(AT_FDCWD, view.String(attach.source), at, "", MOVE_MOUNT_T_EMPTY_PATH));
      case AttachKind::kPassed:
        return Result(move_mount(fds.Take(3 + attach.index), "", at, "",
                                 MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH));
      case AttachKind::kTmpfs:
        return AttachTmpfs(attach, at);
    }
    return EBADMSG;
  }

  int AttachTmpfs(const PlanAttach& attach, int at) {
    const int context = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (context < 0) return errno;
    char number[32];
    char inodes[32];
    char mode[8];
    char digits[8];
    size_t count = 0;
    for (uint32_t rest = attach.mode & 07777; rest != 0; rest >>= 3) {
      digits[count++] = static_cast<char>('0' + (rest & 7));
    }
    char* out = mode;
    *out++ = '0';
    while (count > 0) *out++ = digits[--count];
    *out = '\0';
    FormatNumber(number, "", attach.size);
    FormatNumber(inodes, "", TmpfsInodes(attach.size));
    if (fsconfig(context, FSCONFIG_SET_STRING, "size", number, 0) < 0 ||
        fsconfig(context, FSCONFIG_SET_STRING, "nr_inodes", inodes, 0) < 0 ||
        fsconfig(context, FSCONFIG_SET_STRING, "mode", mode, 0) < 0 ||
        fsconfig(context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) < 0) {
      return errno;
    }
    const int tmpfs = fsmount(context, FSMOUNT_CLOEXEC, static_cast<unsigned>(attach.attributes));
    if (tmpfs < 0) return errno;
    const int error =
        Result(move_mount(tmpfs, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH));
    close(tmpfs);
    close(context);
    return error;
  }

  // The order is the argument: the filter is last, so it need not allow what comes before; what
  // follows it needs write, pause and exit only.
  [[noreturn]] void Confine(int filter) {
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd < 3; ++fd) dup2(null, fd);
    CloseAllBut({link_, filter});
    signal(SIGCHLD, SIG_IGN);  // Orphans that come to init are reaped by the kernel.
    Check(Stage::kCapabilities, SetCapabilities(0));
    // Without capabilities the kernel takes a filter only from a process that has this.
    Check(Stage::kNoNewPrivileges, SetNoNewPrivileges());
    Check(Stage::kSeccomp, LoadSeccompFilter(filter));
    watch_.Lap(Stage::kSeccomp);
    Report(InitStep::kReady);
    while (true) pause();
  }

  const int link_;
  const PlanView& plan_;
  Stopwatch watch_;
  FdList namespaces_;  // That came before their turn.
};

}  // namespace

void RunInit(int link, const PlanView& plan) {
  prctl(PR_SET_NAME, "init");
  Init(link, plan).Run();
}

}  // namespace sandboxd::shim
