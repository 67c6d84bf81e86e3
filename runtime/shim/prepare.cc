#include <fcntl.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cerrno>
#include <initializer_list>

#include "runtime/shim/channel.h"
#include "runtime/shim/context.h"
#include "runtime/shim/init.h"
#include "runtime/shim/namespaces.h"
#include "runtime/shim/sys.h"

namespace sandboxd::shim {
namespace {

// "0 <base> <count>" into /proc/<pid>/<file>.
int WriteIdMap(const Context& context, const char* file) {
  char path[64];
  char base[32];
  char line[64];
  FormatNumber(path, "/proc/", static_cast<uint64_t>(context.init_pid), file);
  FormatNumber(base, "0 ", context.id_base, " ");
  FormatNumber(line, base, context.id_count);
  return WriteFileAt(AT_FDCWD, path, line);
}

int OpenNamespace(const Context& context, const char* file) {
  char path[64];
  FormatNumber(path, "/proc/", static_cast<uint64_t>(context.init_pid), file);
  return open(path, O_RDONLY | O_CLOEXEC);
}

// The kernel charges what a user namespace uses (inotify instances, pending signals, processes, …)
// also to its owner, who is the caller's effective user: for root that would be one account for the
// host and all sandboxes, which any of them could exhaust. Each is owned by its own first id. With
// the real user changed too, the namespace keeps RLIMIT_NPROC as the limit of that account.
int CloneOwned(clone_args& args, uint32_t owner, uint32_t processes) {
  // Whatever the host's root may: nothing inside runs before others.
  constexpr rlimit kNone = {.rlim_cur = 0, .rlim_max = 0};
  if (setrlimit(RLIMIT_RTPRIO, &kNone) < 0 || setrlimit(RLIMIT_NICE, &kNone) < 0) return -1;
  if ((args.flags & CLONE_NEWUSER) == 0) return Clone3(args);
  rlimit limit = {};
  if (getrlimit(RLIMIT_NPROC, &limit) < 0) return -1;
  if (limit.rlim_max > processes) limit.rlim_max = processes;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NPROC, &limit) < 0) return -1;
  // Capabilities stay through the change; a new user namespace resets this flag for the child.
  if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0) return -1;
  if (syscall(SYS_setresuid, owner, owner, 0) < 0) return -1;
  const int pid = Clone3(args);
  if (pid == 0) return 0;
  const int error = errno;
  if (syscall(SYS_setresuid, 0, 0, 0) < 0) _exit(1);
  errno = error;
  return pid;
}

int CloneInit(Context& context) {
  int link[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link) < 0) return errno;
  const int group = openat(context.box, "init", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (group < 0) return errno;
  clone_args args = {};
  args.flags = (context.prepare.As<PreparePlan>()->namespaces & ~kLateNamespaces) |
               CLONE_INTO_CGROUP | CLONE_PIDFD;
  args.pidfd = reinterpret_cast<uint64_t>(&context.init_pidfd);
  args.exit_signal = SIGCHLD;
  args.cgroup = static_cast<uint64_t>(group);
  context.init_pid =
      CloneOwned(args, context.id_base, context.prepare.As<PreparePlan>()->processes);
  if (context.init_pid == 0) {
    CloseAllBut({link[1]});
    RunInit(link[1], context.prepare);
  }
  const int error = context.init_pid < 0 ? errno : 0;
  close(group);
  close(link[1]);
  context.init_link = link[0];
  return error;
}

// Waits for init's word that it reached `step`.
StageFailure AwaitInit(Context& context, InitStep step, Stage stage) {
  InitReport report;
  FdList fds;
  const long size = Receive(context.init_link, &report, sizeof report, fds, /*wait=*/true);
  if (size <= 0) return {stage, size < 0 ? static_cast<int32_t>(-size) : ECHILD, 0};
  if (report.failure.stage != Stage::kNone) return report.failure;
  context.watch.Merge(report.times, report.time_count);
  return report.step == step ? StageFailure{} : StageFailure{stage, EPROTO, 0};
}

}  // namespace

StageFailure BeginPrepare(Context& context) {
  const uint64_t namespaces = context.prepare.As<PreparePlan>()->namespaces;
  context.watch.Start();
  if (const int error = CloneInit(context); error != 0) return {Stage::kCloneInit, error, 0};
  context.watch.Lap(Stage::kCloneInit);
  context.user_namespace = OpenNamespace(context, "/ns/user");
  context.mount_namespace = OpenNamespace(context, "/ns/mnt");
  if (context.user_namespace < 0 || context.mount_namespace < 0) return {Stage::kIdMaps, errno, 0};
  context.namespaces_pid = StartNamespaces(context);
  if (context.namespaces_pid < 0) return {Stage::kFork, -context.namespaces_pid, 0};
  for (const char* file : {"/uid_map", "/gid_map"}) {
    if ((namespaces & CLONE_NEWUSER) == 0) break;
    if (const int error = WriteIdMap(context, file); error != 0) return {Stage::kIdMaps, error, 0};
  }
  const InitOrder go = InitOrder::kGo;
  if (const int error = Send(context.init_link, &go, sizeof go); error != 0) {
    return {Stage::kIdMaps, error, 0};
  }
  context.watch.Lap(Stage::kIdMaps);
  if (const int error = MakeUpper(context); error != 0) return {Stage::kUpper, error, 0};
  context.watch.Lap(Stage::kUpper);
  // For children only (setns(2)): slots are born into it. The shim stays outside.
  if ((namespaces & CLONE_NEWPID) != 0 && setns(context.init_pidfd, CLONE_NEWPID) < 0) {
    return {Stage::kEnterNamespaces, errno, 0};
  }
  return {};
}

StageFailure FinishPrepare(Context& context) {
  const StageFailure failure = FinishNamespaces(context.namespaces_pid);
  if (failure.stage != Stage::kNone) return failure;
  return AwaitInit(context, InitStep::kStaged, Stage::kStageMounts);
}

StageFailure AwaitReady(Context& context) {
  return AwaitInit(context, InitStep::kReady, Stage::kPivotRoot);
}

}  // namespace sandboxd::shim
