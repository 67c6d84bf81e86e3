#include "policy/seccomp_profiles.h"

#include <asm/ioctls.h>
#include <linux/kd.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>

#include "policy/seccomp_builder.h"

namespace sandboxd {
namespace {

struct Entry {
  const char* syscall;
  const char* reason;  // For entries that a reviewer would ask about.
};

// Files, memory, processes, time, sockets: what programs are made of. A name without a reason acts
// only on what the process already has or may open, under the kernel's ordinary checks.
constexpr Entry kCommon[] = {
    {"accept", ""},
    {"accept4", ""},
    {"access", ""},
    {"alarm", ""},
    {"arch_prctl", ""},
    {"bind", ""},
    {"brk", ""},
    {"capget", ""},
    {"capset", "the slot drops its capabilities under the filter; it can only lose some"},
    {"chdir", ""},
    {"chmod", ""},
    {"chown", ""},
    {"clock_getres", ""},
    {"clock_gettime", ""},
    {"clock_nanosleep", ""},
    {"close", ""},
    {"close_range", ""},
    {"connect", ""},
    {"copy_file_range", ""},
    {"creat", ""},
    {"dup", ""},
    {"dup2", ""},
    {"dup3", ""},
    {"epoll_create", ""},
    {"epoll_create1", ""},
    {"epoll_ctl", ""},
    {"epoll_ctl_old", ""},
    {"epoll_pwait", ""},
    {"epoll_pwait2", ""},
    {"epoll_wait", ""},
    {"epoll_wait_old", ""},
    {"eventfd", ""},
    {"eventfd2", ""},
    {"execve", ""},
    {"execveat", "programs in memory files; the isolation probe is one"},
    {"exit", ""},
    {"exit_group", ""},
    {"faccessat", ""},
    {"faccessat2", ""},
    {"fadvise64", ""},
    {"fallocate", ""},
    {"fchdir", ""},
    {"fchmod", ""},
    {"fchmodat", ""},
    {"fchown", ""},
    {"fchownat", ""},
    {"fcntl", ""},
    {"fdatasync", ""},
    {"fgetxattr", ""},
    {"flistxattr", ""},
    {"flock", ""},
    {"fork", ""},
    {"fremovexattr", ""},
    {"fsetxattr", ""},
    {"fstat", ""},
    {"fstatfs", ""},
    {"fsync", ""},
    {"ftruncate", ""},
    {"futex", ""},
    {"futex_waitv", ""},
    {"futimesat", ""},
    {"getcpu", ""},
    {"getcwd", ""},
    {"getdents", ""},
    {"getdents64", ""},
    {"getegid", ""},
    {"geteuid", ""},
    {"getgid", ""},
    {"getgroups", ""},
    {"getitimer", ""},
    {"getpeername", ""},
    {"getpgid", ""},
    {"getpgrp", ""},
    {"getpid", ""},
    {"getppid", ""},
    {"getpriority", ""},
    {"getrandom", ""},
    {"getresgid", ""},
    {"getresuid", ""},
    {"getrlimit", ""},
    {"get_robust_list", ""},
    {"getrusage", ""},
    {"getsid", ""},
    {"getsockname", ""},
    {"getsockopt", ""},
    {"get_thread_area", ""},
    {"gettid", ""},
    {"gettimeofday", ""},
    {"getuid", ""},
    {"getxattr", ""},
    {"inotify_add_watch", ""},
    {"inotify_init", ""},
    {"inotify_init1", ""},
    {"inotify_rm_watch", ""},
    {"ioprio_get", ""},
    {"ioprio_set", "the kernel refuses the real-time class"},
    {"kill", ""},
    {"landlock_add_rule", "a program may only confine itself further"},
    {"landlock_create_ruleset", "as above"},
    {"landlock_restrict_self", "as above"},
    {"lchown", ""},
    {"lgetxattr", ""},
    {"link", ""},
    {"linkat", ""},
    {"listen", ""},
    {"listxattr", ""},
    {"llistxattr", ""},
    {"lremovexattr", ""},
    {"lseek", ""},
    {"lsetxattr", ""},
    {"lstat", ""},
    {"madvise", ""},
    {"membarrier", ""},
    {"memfd_create", ""},
    {"memfd_secret", "locked memory, under RLIMIT_MEMLOCK"},
    {"mincore", ""},
    {"mkdir", ""},
    {"mkdirat", ""},
    {"mlock", "under RLIMIT_MEMLOCK"},
    {"mlock2", ""},
    {"mlockall", ""},
    {"mmap", ""},
    {"mprotect", ""},
    {"mq_getsetattr", ""},
    {"mq_notify", ""},
    {"mq_open", ""},
    {"mq_timedreceive", ""},
    {"mq_timedsend", ""},
    {"mq_unlink", ""},
    {"mremap", ""},
    {"msgctl", "System V IPC is the sandbox's own namespace"},
    {"msgget", ""},
    {"msgrcv", ""},
    {"msgsnd", ""},
    {"msync", ""},
    {"munlock", ""},
    {"munlockall", ""},
    {"munmap", ""},
    {"nanosleep", ""},
    {"newfstatat", ""},
    {"open", ""},
    {"openat", ""},
    {"openat2", ""},
    {"pause", ""},
    {"pidfd_open", "of processes it can see"},
    {"pidfd_send_signal", ""},
    {"pipe", ""},
    {"pipe2", ""},
    {"pkey_alloc", ""},
    {"pkey_free", ""},
    {"pkey_mprotect", ""},
    {"poll", ""},
    {"ppoll", ""},
    {"prctl", ""},
    {"pread64", ""},
    {"preadv", ""},
    {"preadv2", ""},
    {"prlimit64", ""},
    {"process_madvise", "needs the rights of ptrace"},
    {"process_mrelease", "of dying processes only"},
    {"pselect6", ""},
    {"pwrite64", ""},
    {"pwritev", ""},
    {"pwritev2", ""},
    {"read", ""},
    {"readahead", ""},
    {"readlink", ""},
    {"readlinkat", ""},
    {"readv", ""},
    {"recvfrom", ""},
    {"recvmmsg", ""},
    {"recvmsg", ""},
    {"remap_file_pages", ""},
    {"removexattr", ""},
    {"rename", ""},
    {"renameat", ""},
    {"renameat2", ""},
    {"restart_syscall", ""},
    {"rmdir", ""},
    {"rseq", ""},
    {"rt_sigaction", ""},
    {"rt_sigpending", ""},
    {"rt_sigprocmask", ""},
    {"rt_sigqueueinfo", ""},
    {"rt_sigreturn", ""},
    {"rt_sigsuspend", ""},
    {"rt_sigtimedwait", ""},
    {"rt_tgsigqueueinfo", ""},
    {"sched_getaffinity", ""},
    {"sched_getattr", ""},
    {"sched_getparam", ""},
    {"sched_get_priority_max", ""},
    {"sched_get_priority_min", ""},
    {"sched_getscheduler", ""},
    {"sched_rr_get_interval", ""},
    {"sched_setaffinity", ""},
    {"sched_setattr", "the kernel refuses real-time and deadline classes without CAP_SYS_NICE"},
    {"sched_setparam", ""},
    {"sched_setscheduler", "as sched_setattr"},
    {"sched_yield", ""},
    {"seccomp", "a program may only confine itself further"},
    {"select", ""},
    {"semctl", ""},
    {"semget", ""},
    {"semop", ""},
    {"semtimedop", ""},
    {"sendfile", ""},
    {"sendmmsg", ""},
    {"sendmsg", ""},
    {"sendto", ""},
    {"setfsgid", ""},
    {"setfsuid", ""},
    {"setgid", "the slot changes user under the filter; without capabilities it gains nothing"},
    {"setgroups", "as setgid"},
    {"setitimer", ""},
    {"setpgid", ""},
    {"setpriority", ""},
    {"setregid", ""},
    {"setresgid", "as setgid"},
    {"setresuid", "as setgid"},
    {"setreuid", ""},
    {"setrlimit", ""},
    {"set_robust_list", ""},
    {"setsid", ""},
    {"setsockopt", ""},
    {"set_thread_area", ""},
    {"set_tid_address", ""},
    {"setuid", "as setgid"},
    {"setxattr", ""},
    {"shmat", ""},
    {"shmctl", ""},
    {"shmdt", ""},
    {"shmget", ""},
    {"shutdown", ""},
    {"sigaltstack", ""},
    {"signalfd", ""},
    {"signalfd4", ""},
    {"splice", ""},
    {"stat", ""},
    {"statfs", ""},
    {"statx", ""},
    {"symlink", ""},
    {"symlinkat", ""},
    {"sync", ""},
    {"sync_file_range", ""},
    {"syncfs", ""},
    {"sysinfo", ""},
    {"tee", ""},
    {"tgkill", ""},
    {"time", ""},
    {"timer_create", ""},
    {"timer_delete", ""},
    {"timer_getoverrun", ""},
    {"timer_gettime", ""},
    {"timer_settime", ""},
    {"timerfd_create", ""},
    {"timerfd_gettime", ""},
    {"timerfd_settime", ""},
    {"times", ""},
    {"tkill", ""},
    {"truncate", ""},
    {"umask", ""},
    {"uname", ""},
    {"unlink", ""},
    {"unlinkat", ""},
    {"utime", ""},
    {"utimensat", ""},
    {"utimes", ""},
    {"vfork", ""},
    {"vmsplice", ""},
    {"wait4", ""},
    {"waitid", ""},
    {"write", ""},
    {"writev", ""},
};

// Only in `default`.
constexpr Entry kDefaultOnly[] = {
    {"chroot", "package managers; needs CAP_SYS_CHROOT, which is the sandbox's own"},
    {"kcmp", "debuggers; needs the rights of ptrace"},
    {"pidfd_getfd", "needs the rights of ptrace"},
    {"process_vm_readv", "debuggers; needs the rights of ptrace"},
    {"process_vm_writev", "as above"},
    {"ptrace", "debuggers and sanitizers, on processes of the same user inside"},
};

constexpr uint32_t kNamespaceFlags = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                     CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

constexpr uint32_t kInjectingIoctls[] = {
    TIOCSTI,    // Puts bytes into a terminal's input, which may be another's.
    TIOCLINUX,  // The same on the console.
    TIOCSETD,   // Loads line disciplines.
    TIOCCONS,   // Redirects the console.
    KDSETLED,
};

// fs.aio-max-nr is one account for the host and all sandboxes, which any of them could exhaust. As
// on a kernel without it, programs do their input and output in threads.
void AddAsynchronousIo(SeccompBuilder& builder) { builder.Deny("io_setup", ENOSYS); }

void AddSockets(SeccompBuilder& builder) {
  for (const uint32_t family : {AF_UNIX, AF_INET, AF_INET6}) {
    builder.AllowIf("socket", {.index = 0, .value = family});
  }
  // Routing information only, which is the sandbox's own network namespace.
  builder.AllowIf("socket", {.index = 0, .value = AF_NETLINK}, {.index = 2, .value = 0});
  builder.AllowIf("socketpair", {.index = 0, .value = AF_UNIX});
}

void AddProcesses(SeccompBuilder& builder, SeccompKind kind) {
  builder.AllowIf("clone", {.index = 0, .mask = kNamespaceFlags, .value = 0});
  // Its flags are in memory, where a filter cannot look; C libraries fall back to clone.
  builder.Deny("clone3", ENOSYS);
  builder.AllowIf("unshare", {.index = 0, .mask = kNamespaceFlags | CLONE_NEWTIME, .value = 0});
  builder.AllowIf("personality", {.index = 0, .value = PER_LINUX});
  builder.AllowIf("personality", {.index = 0, .value = 0xffffffff});  // A question.
  if (kind == SeccompKind::kDefault) {
    builder.AllowIf("personality", {.index = 0, .value = ADDR_NO_RANDOMIZE});
  }
}

// Regular files, FIFOs and sockets; never a device.
void AddNodes(SeccompBuilder& builder) {
  for (const uint32_t type : {0u, unsigned{S_IFREG}, unsigned{S_IFIFO}, unsigned{S_IFSOCK}}) {
    builder.AllowIf("mknod", {.index = 1, .mask = S_IFMT, .value = type});
    builder.AllowIf("mknodat", {.index = 2, .mask = S_IFMT, .value = type});
  }
}

}  // namespace

absl::StatusOr<std::vector<sock_filter>> ExecSeccompFilter(SeccompKind kind) {
  SeccompBuilder builder;
  for (const Entry& entry : kCommon) builder.Allow(entry.syscall);
  if (kind == SeccompKind::kDefault) {
    for (const Entry& entry : kDefaultOnly) builder.Allow(entry.syscall);
  }
  AddAsynchronousIo(builder);
  AddSockets(builder);
  AddProcesses(builder, kind);
  AddNodes(builder);
  builder.AllowUnless(
      "ioctl", 1, std::vector<uint32_t>(std::begin(kInjectingIoctls), std::end(kInjectingIoctls)));
  return builder.Build();
}

absl::StatusOr<std::vector<sock_filter>> InitSeccompFilter() {
  SeccompBuilder builder;
  builder.Allow("pause").Allow("write").Allow("exit_group").Allow("rt_sigreturn");
  builder.Allow("restart_syscall");
  return builder.Build();
}

}  // namespace sandboxd
