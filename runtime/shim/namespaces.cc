#include "runtime/shim/namespaces.h"

#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>

#include "runtime/shim/channel.h"
#include "runtime/shim/init.h"
#include "runtime/shim/sys.h"

namespace sandboxd::shim {
namespace {

// What the process's exit code says: the step that failed.
constexpr Stage kSteps[] = {Stage::kNone, Stage::kEnterNamespaces, Stage::kCgroupNamespace,
                            Stage::kNetworkNamespace, Stage::kLoopback};
constexpr int kStepBits = 3;

// errno values fit into the rest of an exit code only up to 31: larger ones are cut off, and say
// EIO. None of these calls has one.
[[noreturn]] void Fail(int step) {
  const int error = errno < 1 << (8 - kStepBits) ? errno : EIO;
  _exit(error << kStepBits | step);
}

int LoopbackUp() {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  ifreq request = {};
  strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  const int error = Result(ioctl(fd, SIOCSIFFLAGS, &request));
  close(fd);
  return error;
}

[[noreturn]] void Make(const Context& context) {
  const uint64_t namespaces = context.prepare.As<PreparePlan>()->namespaces;
  int fds[2];
  size_t count = 0;
  if ((namespaces & CLONE_NEWUSER) != 0 && setns(context.user_namespace, CLONE_NEWUSER) < 0) {
    Fail(1);
  }
  if ((namespaces & CLONE_NEWCGROUP) != 0) {
    if (unshare(CLONE_NEWCGROUP) < 0) Fail(2);
    fds[count] = open("/proc/self/ns/cgroup", O_RDONLY | O_CLOEXEC);
    if (fds[count++] < 0) Fail(2);
  }
  if ((namespaces & CLONE_NEWNET) != 0) {
    if (unshare(CLONE_NEWNET) < 0) Fail(3);
    fds[count] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (fds[count++] < 0) Fail(3);
    errno = LoopbackUp();
    if (errno != 0) Fail(4);
  }
  const InitOrder order = InitOrder::kJoin;
  errno = Send(context.init_link, &order, sizeof order, fds, count);
  if (errno != 0) Fail(1);
  _exit(0);
}

}  // namespace

// The root of a cgroup namespace is the group of whoever makes it: this process is born in `box`.
// Were init born there instead and moved to its leaf afterwards, that would cost an RCU grace
// period (11 ms on an idle host).
pid_t StartNamespaces(const Context& context) {
  clone_args args = {};
  args.flags = CLONE_INTO_CGROUP;
  args.exit_signal = SIGCHLD;
  args.cgroup = static_cast<uint64_t>(context.box);
  const pid_t pid = Clone3(args);
  if (pid == 0) Make(context);
  return pid < 0 ? -errno : pid;
}

StageFailure FinishNamespaces(pid_t pid) {
  siginfo_t info = {};
  if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED) < 0) {
    return {Stage::kNetworkNamespace, errno, 0};
  }
  if (info.si_code != CLD_EXITED) return {Stage::kNetworkNamespace, ECHILD, 0};
  const unsigned step = static_cast<unsigned>(info.si_status) & ((1u << kStepBits) - 1);
  if (step == 0) return {};
  return {step < sizeof kSteps / sizeof *kSteps ? kSteps[step] : Stage::kNetworkNamespace,
          info.si_status >> kStepBits, 0};
}

}  // namespace sandboxd::shim
