#include "runtime/shim/shim.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <initializer_list>

#include "runtime/shim/channel.h"
#include "runtime/shim/context.h"
#include "runtime/shim/execs.h"
#include "runtime/shim/sys.h"

namespace sandboxd::shim {
namespace {

// How long a kill waits for the kernel before it reports that something is stuck.
constexpr uint64_t kKillLimit = 10'000'000;

class Shim {
 public:
  explicit Shim(const ShimStart& start) {
    context_.connection = start.connection;
    context_.listener = start.listener;
    context_.cgroup = start.cgroup;
    context_.id_base = start.id_base;
    context_.id_count = start.id_count;
    context_.init_filter = start.init_filter;
    context_.exec_filter = start.exec_filter;
    plan_fd_ = start.plan;
  }

  [[noreturn]] void Run() {
    const StageFailure failure = SetUp();
    PreparedMessage message = {};
    message.header = Header(MessageType::kPrepared);
    message.failure = failure;
    message.init_pid = context_.init_pid;
    message.time_count = context_.watch.TakeTo(message.times);
    Send(context_.connection, &message, sizeof message);
    if (failure.stage != Stage::kNone) End();
    context_.state = ShimState::kPrepared;
    if (launch_fds_.count > 0) {
      OnLaunch(launch_fds_);
      launch_fds_.CloseAll();
    } else {
      execs_.RefillSoon();
    }
    while (true) Step();
  }

 private:
  StageFailure SetUp() {
    setsid();
    prctl(PR_SET_NAME, "sandboxd-shim");
    signal(SIGCHLD, SIG_DFL);  // The zygote has it ignored.
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children, nullptr);
    signals_ = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    context_.box = openat(context_.cgroup, "box", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (signals_ < 0 || context_.box < 0) return {Stage::kCgroup, errno, 0};
    zygote_mounts_ = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (zygote_mounts_ < 0) return {Stage::kShimMounts, errno, 0};
    // Layers are attached here, where nobody else's mounts are in the way.
    if (unshare(CLONE_NEWNS) < 0) return {Stage::kShimMounts, errno, 0};
    const int error = context_.prepare.Map(plan_fd_, PlanKind::kPrepare, sizeof(PreparePlan));
    close(plan_fd_);
    if (error != 0) return {Stage::kReadPlan, error, 0};
    StageFailure failure = BeginPrepare(context_);
    if (failure.stage == Stage::kNone) failure = BuildEarly();
    if (failure.stage == Stage::kNone) failure = FinishPrepare(context_);
    return failure;
  }

  // Where the launch was ordered already, its root is built while the preparation goes on.
  StageFailure BuildEarly() {
    MessageHeader header;
    const long size =
        Receive(context_.connection, &header, sizeof header, launch_fds_, /*wait=*/false);
    if (size == -EAGAIN) return {};
    if (size <= 0) End();
    if (header.type == MessageType::kKill) OnKill();
    if (header.type != MessageType::kLaunch || launch_fds_.count == 0) return {};
    return BuildRoot(context_, launch_fds_);
  }

  void Step() {
    static pollfd fds[3 + 3 * kMaxExecs];
    size_t count = 0;
    fds[count++] = {signals_, POLLIN, 0};
    fds[count++] = {context_.connection, POLLIN, 0};
    fds[count++] = {context_.listener, POLLIN, 0};
    count = execs_.Watch(fds, count);
    timespec limit;
    if (ppoll(fds, count, Wait(limit), nullptr) > 0) {
      // Execs first: a program's start is reported before its end.
      execs_.Handle(fds + 3, count - 3);
      if (fds[0].revents != 0) ReapChildren();
      if (fds[1].revents != 0) OnConnection();
      if (fds[2].revents != 0) OnListener();
    }
    execs_.RunDeadlines(MonotonicMicros());
  }

  // How long nothing is due; null: for ever.
  const timespec* Wait(timespec& limit) const {
    const uint64_t deadline = execs_.NextDeadline();
    if (deadline == 0) return nullptr;
    const uint64_t now = MonotonicMicros();
    const uint64_t left = deadline <= now ? 0 : deadline - now;
    limit = {.tv_sec = static_cast<time_t>(left / 1'000'000),
             .tv_nsec = static_cast<long>(left % 1'000'000 * 1000)};
    return &limit;
  }

  void ReapChildren() {
    ForgetSignals();
    while (true) {
      siginfo_t info = {};
      rusage usage = {};
      // The system call, for the rusage that glibc's wrapper drops.
      if (syscall(SYS_waitid, P_ALL, 0, &info, WEXITED | WNOHANG | __WALL, &usage) < 0) return;
      if (info.si_pid == 0) return;
      if (info.si_pid == context_.init_pid) {
        OnInitExit(info);
      } else {
        execs_.Reaped(info.si_pid, info, usage);
      }
    }
  }

  // One SIGCHLD at most is pending, however many children ended (signal(7)).
  void ForgetSignals() {
    signalfd_siginfo ignored;
    (void)!read(signals_, &ignored, sizeof ignored);
  }

  void OnInitExit(const siginfo_t& info) {
    context_.init_pid = -1;
    if (context_.state != ShimState::kRunning) return;
    context_.state = ShimState::kEnded;
    init_exit_.header = Header(MessageType::kInitExited);
    init_exit_.end_code = info.si_code;
    init_exit_.end_status = info.si_status;
    if (context_.connection >= 0) {
      Send(context_.connection, &init_exit_, sizeof init_exit_);
    }
  }

  void OnConnection() {
    union {
      MessageHeader header;
      ExecMessage exec;
      ExecReleaseMessage release;
      SignalMessage signal;
      char bytes[kMaxShimMessage];
    } message;
    FdList fds;
    const long size =
        Receive(context_.connection, message.bytes, sizeof message.bytes, fds, /*wait=*/false);
    if (size == -EAGAIN) return;
    if (size <= 0) return OnDaemonGone();
    switch (message.header.type) {
      case MessageType::kLaunch:
        OnLaunch(fds);
        break;
      case MessageType::kExec:
        execs_.Start(message.exec, fds);
        break;
      case MessageType::kExecRelease:
        execs_.Release(message.release.exec);
        break;
      case MessageType::kSignal:
        execs_.Signal(message.signal);
        break;
      case MessageType::kKill:
        OnKill();
        break;
      case MessageType::kHello:
        OnHello();
        break;
      default:
        break;  // A later version's message that this one does not know.
    }
    fds.CloseAll();
  }

  // A sandbox that was never launched is nobody's. A running one waits for the next daemon.
  void OnDaemonGone() {
    close(context_.connection);
    context_.connection = -1;
    if (context_.state == ShimState::kPrepared) End();
  }

  void OnListener() {
    const int fd = accept4(context_.listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    ucred peer = {};
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != 0) {
      close(fd);
      return;
    }
    if (context_.connection >= 0) close(context_.connection);
    context_.connection = fd;
  }

  void OnLaunch(FdList& fds) {
    LaunchedMessage message = {};
    message.header = Header(MessageType::kLaunched);
    message.failure = Launch(fds);
    message.time_count = context_.watch.TakeTo(message.times);
    const bool failed = message.failure.stage != Stage::kNone;
    if (failed) CleanUp();
    if (!failed) context_.state = ShimState::kRunning;
    Send(context_.connection, &message, sizeof message);
    if (failed) _exit(0);
  }

  StageFailure Launch(FdList& fds) {
    if (context_.state != ShimState::kPrepared) return {Stage::kReadPlan, EBUSY, 0};
    StageFailure failure = execs_.Settle();
    if (failure.stage == Stage::kNone && context_.root < 0) failure = BuildRoot(context_, fds);
    if (failure.stage == Stage::kNone) failure = HandRootOver(context_, fds);
    if (failure.stage != Stage::kNone) return failure;
    // In a mount namespace of its own the slot is not concerned by the pivot.
    if ((context_.prepare.As<PreparePlan>()->namespaces & CLONE_NEWNS) != 0) execs_.MakeWaiting();
    failure = AwaitReady(context_);
    if (failure.stage == Stage::kNone) execs_.Refill();
    return failure;
  }

  void OnHello() {
    HelloReplyMessage reply = {};
    reply.header = Header(MessageType::kHelloReply);
    reply.state = context_.state;
    reply.init_pid = context_.init_pid;
    execs_.Describe(reply);
    const int self = PidfdOpen(getpid());
    Send(context_.connection, &reply, sizeof reply, &self, self >= 0 ? 1 : 0);
    if (self >= 0) close(self);
    execs_.SendStatus();
    if (context_.state == ShimState::kEnded) {
      Send(context_.connection, &init_exit_, sizeof init_exit_);
    }
  }

  void OnKill() {
    KilledMessage message = {};
    message.header = Header(MessageType::kKilled);
    message.failure = CleanUp();
    Send(context_.connection, &message, sizeof message);
    if (message.failure.stage == Stage::kNone) _exit(0);
  }

  [[noreturn]] void End() {
    CleanUp();
    _exit(0);
  }

  // Ends every process of the box at once and removes its groups. Mounts, namespaces and tmpfs go
  // with the processes that held them.
  StageFailure CleanUp() {
    const uint64_t deadline = MonotonicMicros() + kKillLimit;
    // What keeps the sandbox's namespaces alive: they are to end with init, and not with the shim.
    for (int* fd : {&context_.mount_namespace, &context_.user_namespace, &context_.init_pidfd,
                    &context_.upper, &context_.root}) {
      if (*fd >= 0) close(*fd);
      *fd = -1;
    }
    int error = WriteFileAt(context_.box, "cgroup.kill", "1");
    if (error != 0 && error != ENOENT) return {Stage::kKill, error, 0};
    context_.state = ShimState::kEnded;
    // While the kernel ends them: what would otherwise be left to do after them.
    execs_.CloseAll();
    execs_.RemoveGroups();
    DropMounts();
    error = ReapAll(deadline);
    if (error == 0) error = AwaitEmpty(deadline);
    if (error != 0) return {Stage::kReap, error, 0};
    error = execs_.RemoveGroups();
    for (const char* name : {"box/init", "box"}) {
      if (error != 0) break;
      if (unlinkat(context_.cgroup, name, AT_REMOVEDIR) < 0 && errno != ENOENT) error = errno;
    }
    return {error == 0 ? Stage::kNone : Stage::kRemoveCgroup, error, 0};
  }

  // The shim's mount namespace ends here, with the layers; otherwise its own exit would wait for
  // that.
  void DropMounts() {
    if (zygote_mounts_ < 0) return;
    setns(zygote_mounts_, CLONE_NEWNS);
    close(zygote_mounts_);
    zygote_mounts_ = -1;
  }

  // Init's exit waits for every process of its pid namespace, and those may be our children too:
  // all are waited for together.
  int ReapAll(uint64_t deadline) {
    while (true) {
      siginfo_t info = {};
      const int rc = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | __WALL);
      if (rc < 0) return errno == ECHILD ? 0 : errno;
      if (info.si_pid != 0) continue;
      const uint64_t now = MonotonicMicros();
      if (now >= deadline) return ETIMEDOUT;
      pollfd fd = {signals_, POLLIN, 0};
      poll(&fd, 1, static_cast<int>((deadline - now) / 1000 + 1));
      ForgetSignals();
    }
  }

  // Trusts the kernel's `populated 0`, not the absence of a pid that we know of.
  int AwaitEmpty(uint64_t deadline) {
    const int fd = openat(context_.box, "cgroup.events", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT ? 0 : errno;
    int error = 0;
    while (true) {
      char text[256] = {};
      if (pread(fd, text, sizeof text - 1, 0) < 0) {
        error = errno;
        break;
      }
      if (strstr(text, "populated 0") != nullptr) break;
      const uint64_t now = MonotonicMicros();
      if (now >= deadline) {
        error = ETIMEDOUT;
        break;
      }
      pollfd event = {fd, POLLPRI, 0};
      poll(&event, 1, static_cast<int>((deadline - now) / 1000 + 1));
    }
    close(fd);
    return error;
  }

  Context context_;
  Execs execs_{context_};
  InitExitedMessage init_exit_ = {};
  FdList launch_fds_;  // Of a launch that came before the box was prepared.
  int plan_fd_ = -1;
  int signals_ = -1;
  int zygote_mounts_ = -1;
};

}  // namespace

void RunShim(const ShimStart& start) {
  static Shim shim(start);  // Not on the stack: the table of execs is large.
  shim.Run();
}

}  // namespace sandboxd::shim
