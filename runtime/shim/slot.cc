#include "runtime/shim/slot.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <initializer_list>

#include "runtime/shim/channel.h"
#include "runtime/shim/confine.h"
#include "runtime/shim/program.h"
#include "runtime/shim/sys.h"

namespace sandboxd::shim {
namespace {

constexpr int kReadySeconds = 10;

struct Pipes {
  int stdin_read;
  int stdout_write;
  int stderr_write;
  int control;
};

// A pipe whose inode belongs to an id that the sandbox does not have. Inside it may be opened anew
// through /proc/self/fd (as `> /dev/stderr` does) in the one direction that `mode` allows; its mode
// and owner cannot be changed there, so nothing inside can take back what it wrote.
int MakePipe(int (&ends)[2], mode_t mode) {
  if (pipe2(ends, O_CLOEXEC) < 0) return errno;
  return Result(fchmod(ends[0], mode));
}

int MakePipes(Slot& slot, Pipes& inside) {
  int in[2];
  int out[2];
  int err[2];
  int control[2];
  if (const int error = MakePipe(in, 0444); error != 0) return error;
  if (const int error = MakePipe(out, 0222); error != 0) return error;
  if (const int error = MakePipe(err, 0222); error != 0) return error;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) < 0) return errno;
  slot.stdin_write = in[1];
  slot.stdout_read = out[0];
  slot.stderr_read = err[0];
  slot.control = control[0];
  inside = {in[0], out[1], err[1], control[1]};
  return 0;
}

}  // namespace

StageFailure MakeSlot(const Context& context, uint64_t group, Slot& slot) {
  slot = {};
  slot.group = group;
  char name[32];
  FormatNumber(name, "exec-", group);
  if (mkdirat(context.box, name, 0755) < 0) return {Stage::kCgroup, errno, 0};
  const int directory = openat(context.box, name, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (directory < 0) return {Stage::kCgroup, errno, 0};
  Pipes pipes = {-1, -1, -1, -1};
  StageFailure failure = {};
  if (const int error = MakePipes(slot, pipes); error != 0) failure = {Stage::kPipes, error, 0};
  if (failure.stage == Stage::kNone) {
    clone_args args = {};
    args.flags = CLONE_INTO_CGROUP;
    args.exit_signal = SIGCHLD;
    args.cgroup = static_cast<uint64_t>(directory);
    slot.pid = Clone3(args);
    if (slot.pid == 0) {
      RunSlot({.control = pipes.control,
               .stdin_read = pipes.stdin_read,
               .stdout_write = pipes.stdout_write,
               .stderr_write = pipes.stderr_write,
               .init_pidfd = context.init_pidfd,
               .mount_namespace = context.mount_namespace,
               .filter = context.exec_filter,
               .prepare = context.prepare.As<PreparePlan>()});
    }
    if (slot.pid < 0) failure = {Stage::kFork, errno, 0};
  }
  close(directory);
  for (const int fd : {pipes.stdin_read, pipes.stdout_write, pipes.stderr_write, pipes.control}) {
    if (fd >= 0) close(fd);
  }
  return failure;
}

int EnterSlot(const Slot& slot) {
  const SlotOrder order = SlotOrder::kEnter;
  return Send(slot.control, &order, sizeof order);
}

StageFailure AwaitSlot(Slot& slot) {
  if (slot.pid_inside != 0) return {};
  const timeval limit = {.tv_sec = kReadySeconds, .tv_usec = 0};
  setsockopt(slot.control, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  SlotReport report;
  FdList fds;
  const long size = Receive(slot.control, &report, sizeof report, fds, /*wait=*/true);
  if (size <= 0) return {Stage::kFork, size < 0 ? static_cast<int32_t>(-size) : ECHILD, 0};
  slot.pid_inside = report.pid_inside;
  return report.failure;
}

bool SlotIsSound(const Slot& slot) {
  siginfo_t info = {};
  // Not WNOWAIT alone: WSTOPPED sees a stop that has not been waited for; nobody else waits here.
  const int rc =
      waitid(P_PID, static_cast<id_t>(slot.pid), &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT);
  return rc == 0 && info.si_pid == 0;
}

void CloseSlot(Slot& slot) {
  for (int* fd : {&slot.control, &slot.stdin_write, &slot.stdout_read, &slot.stderr_read}) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
}

}  // namespace sandboxd::shim
