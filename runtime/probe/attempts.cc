#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>

#include "runtime/probe/measure.h"

namespace sandboxd::probe {
namespace {

constexpr int kMadeNoProcess = -2;

// The outcome of a call whose success is a descriptor.
int Opened(long fd) {
  if (fd < 0) return errno;
  close(static_cast<int>(fd));
  return 0;
}

int Done(long rc) { return rc < 0 ? errno : 0; }

int TryIoUring() {
  io_uring_params params = {};
  return Opened(syscall(SYS_io_uring_setup, 1, &params));
}

int TryKeyctl() {
  return Done(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0));
}

int TryBpf() {
  bpf_attr attributes = {};
  attributes.map_type = BPF_MAP_TYPE_ARRAY;
  attributes.key_size = attributes.value_size = sizeof(uint32_t);
  attributes.max_entries = 1;
  return Opened(syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof attributes));
}

int TryUserNamespace() { return Done(syscall(SYS_unshare, CLONE_NEWUSER)); }

// The call 20 of i386 is getpid, which every filter for i386 would let through.
int TryForeignAbi() {
#ifdef __x86_64__
  long rc = 20;
  asm volatile("int $0x80" : "+a"(rc) : : "memory", "r8", "r9", "r10", "r11");
  return rc < 0 ? static_cast<int>(-rc) : 0;
#else
  return ENOSYS;
#endif
}

// For what would change this process, or end it: a child tries it. A kernel without the foreign ABI
// kills the child.
int InChild(int (*attempt)()) {
  const pid_t pid = fork();
  if (pid == 0) _exit(attempt());
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) return kMadeNoProcess;
  return WIFEXITED(status) ? WEXITSTATUS(status) : kNotPossible;
}

int TryMakeDevice() {
  constexpr char kPath[] = "/dev/shm/.sandboxd-probe";
  const int error = Done(mknod(kPath, S_IFCHR | 0600, makedev(1, 3)));
  if (error == 0) unlink(kPath);
  return error;
}

// Asks without opening: no driver is reached, whatever the answer.
int TryDevice() { return Done(syscall(SYS_faccessat2, STDIN_FILENO, "", R_OK, AT_EMPTY_PATH)); }

int TryMakeFile(const char* path) {
  const int error = Opened(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (error == 0) unlink(path);
  return error;
}

int TryMakeDirectory(const char* path) {
  const int error = Done(mkdir(path, 0700));
  if (error == 0) rmdir(path);
  return error;
}

int TryRaiseRlimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_CORE, &limit) < 0) return errno;
  if (limit.rlim_max == RLIM_INFINITY) return 0;
  ++limit.rlim_max;
  return Done(setrlimit(RLIMIT_CORE, &limit));
}

}  // namespace

bool MakeAttempts(ProbeAnswer& answer) {
  int32_t* outcomes = answer.attempts;
  outcomes[kTryIoUring] = TryIoUring();
  outcomes[kTryKeyctl] = TryKeyctl();
  outcomes[kTryBpf] = TryBpf();
  outcomes[kTryUserNamespace] = InChild(TryUserNamespace);
  outcomes[kTryCryptoSocket] = Opened(socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  outcomes[kTryForeignAbi] = InChild(TryForeignAbi);
  outcomes[kTryRawSocket] = Opened(socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP));
  outcomes[kTryMakeDevice] = TryMakeDevice();
  outcomes[kTryDevice] = TryDevice();
  outcomes[kTryWriteDev] = TryMakeFile("/dev/.sandboxd-probe");
  outcomes[kTryWriteSys] = TryMakeDirectory("/sys/.sandboxd-probe");
  outcomes[kTryWriteCgroup] = TryMakeDirectory("/sys/fs/cgroup/.sandboxd-probe");
  outcomes[kTryRaiseRlimit] = TryRaiseRlimit();
  for (size_t i = 0; i < kProbeAttempts; ++i) {
    if (outcomes[i] == kMadeNoProcess) return false;
  }
  return true;
}

}  // namespace sandboxd::probe
