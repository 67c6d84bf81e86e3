#include "runtime/shim/zygote.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <cerrno>

#include "runtime/shim/channel.h"
#include "runtime/shim/shim.h"
#include "runtime/shim/sys.h"
#include "runtime/shim_protocol.h"

namespace sandboxd::shim {
namespace {

struct Device {
  const char* path;
  unsigned major;
  unsigned minor;
};
constexpr Device kDevices[] = {
    {"template/dev/null", 1, 3},   {"template/dev/zero", 1, 5},    {"template/dev/full", 1, 7},
    {"template/dev/random", 1, 8}, {"template/dev/urandom", 1, 9}, {"template/dev/tty", 5, 0},
};

struct Link {
  const char* path;
  const char* target;
};
constexpr Link kLinks[] = {
    {"template/dev/fd", "/proc/self/fd"},       {"template/dev/stdin", "/proc/self/fd/0"},
    {"template/dev/stdout", "/proc/self/fd/1"}, {"template/dev/stderr", "/proc/self/fd/2"},
    {"template/dev/ptmx", "pts/ptmx"},
};

constexpr const char* kDirectories[] = {
    "proc",  "sys",        "template",   "template/dev", "template/empty",
    "stage", "stage/dev",  "stage/sys",  "stage/proc",   "stage/root",
    "work",  "work/upper", "work/layer", "work/root",
};
constexpr const char* kDevDirectories[] = {"template/dev/pts", "template/dev/shm",
                                           "template/dev/mqueue"};

int MakeDeviceTemplate() {
  if (mount("sandboxd-dev", "template/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k") <
      0) {
    return errno;
  }
  for (const Device& device : kDevices) {
    if (mknod(device.path, S_IFCHR | 0666, makedev(device.major, device.minor)) < 0) return errno;
    if (chmod(device.path, 0666) < 0) return errno;
  }
  for (const Link& link : kLinks) {
    if (symlink(link.target, link.path) < 0) return errno;
  }
  for (const char* path : kDevDirectories) {
    if (mkdir(path, 0755) < 0) return errno;
  }
  return Result(mount(nullptr, "template/dev", nullptr,
                      MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC, nullptr));
}

// A mount namespace that holds only what launches need. Its proc and sysfs are fully visible, which
// the kernel demands before a user namespace may mount its own (mount_too_revealing in
// fs/namespace.c).
int MakePrivateRoot(const char* scratch) {
  umask(0);
  if (unshare(CLONE_NEWNS) < 0) return errno;
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0) return errno;
  if (mount("sandboxd", scratch, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=755,size=64k") <
          0 ||
      chdir(scratch) < 0) {
    return errno;
  }
  for (const char* path : kDirectories) {
    if (mkdir(path, 0755) < 0) return errno;
  }
  constexpr unsigned long kPlain = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  if (mount("proc", "proc", "proc", kPlain, nullptr) < 0) return errno;
  if (mount("sysfs", "sys", "sysfs", kPlain, nullptr) < 0) return errno;
  if (const int error = MakeDeviceTemplate(); error != 0) return error;
  if (PivotRoot(".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0) return errno;
  return Result(mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | kPlain, nullptr));
}

// Standard input, output and error become the template's null device, so that no process of ours
// keeps a descriptor of the host's file systems or of the daemon's log.
int DetachStandardStreams() {
  const int null = open(kTemplateNull, O_RDWR | O_CLOEXEC);
  if (null < 0) return errno;
  for (int fd = 0; fd < 3; ++fd) {
    if (dup2(null, fd) < 0) return errno;
  }
  close(null);
  return 0;
}

// Opens "<cgroup>/shim", where the shim is to start.
int OpenShimCgroup(int cgroup) {
  return openat(cgroup, "shim", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

void Spawn(int link, const SpawnMessage& request, FdList& fds) {
  SpawnedMessage reply = {};
  reply.header = {MessageType::kSpawned, kShimProtocolVersion};
  reply.request = request.request;
  const int group = fds.count == kSpawnDescriptors ? OpenShimCgroup(fds.fds[2]) : -1;
  if (group < 0) {
    reply.error = fds.count == kSpawnDescriptors ? errno : EPROTO;
    Send(link, &reply, sizeof reply);
    return;
  }
  int pidfd = -1;
  clone_args args = {};
  args.flags = CLONE_INTO_CGROUP | CLONE_PIDFD;
  args.pidfd = reinterpret_cast<uint64_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  args.cgroup = static_cast<uint64_t>(group);
  const int pid = Clone3(args);
  if (pid == 0) {
    close(link);
    close(group);
    RunShim(ShimStart{.connection = fds.Take(0),
                      .listener = fds.Take(1),
                      .cgroup = fds.Take(2),
                      .plan = fds.Take(3),
                      .init_filter = fds.Take(4),
                      .exec_filter = fds.Take(5),
                      .id_base = request.id_base,
                      .id_count = request.id_count});
  }
  reply.error = pid < 0 ? errno : 0;
  reply.pid = pid;
  close(group);
  Send(link, &reply, sizeof reply, &pidfd, pid < 0 ? 0 : 1);
  if (pidfd >= 0) close(pidfd);
}

// What the daemon got from whoever started it and keeps for itself. That a nice value cannot be
// taken back without CAP_SYS_NICE is no reason to serve nobody.
void ResetSchedulingAndPersonality() {
  personality(PER_LINUX);
  const sched_param none = {};
  sched_setscheduler(0, SCHED_OTHER, &none);
  setpriority(PRIO_PROCESS, 0, 0);
}

}  // namespace

int RunZygote(int link, char* scratch) {
  // Its own session: a terminal's Ctrl-C ends the daemon in front, not the sandboxes behind it.
  setsid();
  prctl(PR_SET_NAME, "sandboxd-zygote");
  prctl(PR_SET_DUMPABLE, 0);
  ResetSignals();  // Whatever started the daemon may have had some ignored.
  ResetSchedulingAndPersonality();
  signal(SIGPIPE, SIG_IGN);
  signal(SIGCHLD, SIG_IGN);  // Shims that end are reaped by the kernel; the daemon has pidfds.
  int error = MakePrivateRoot(scratch);
  if (error != 0) {
    dprintf(STDERR_FILENO, "sandboxd-zygote: making the private root on %s: %s\n", scratch,
            strerror(error));
    return 1;
  }
  // Every process of ours inside a sandbox shows this command line to it.
  memset(scratch, 0, strlen(scratch));
  error = DetachStandardStreams();
  if (error != 0) return 1;
  CloseAllBut({link});
  while (true) {
    SpawnMessage request;
    FdList fds;
    const long size = Receive(link, &request, sizeof request, fds, /*wait=*/true);
    if (size <= 0) return 0;
    if (request.header.type == MessageType::kSpawn) Spawn(link, request, fds);
    fds.CloseAll();
  }
}

}  // namespace sandboxd::shim
