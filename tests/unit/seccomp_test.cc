// The kernel is the oracle: a child loads the filter and tries.
#include <linux/audit.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include <gtest/gtest.h>

#include "policy/capabilities.h"
#include "policy/seccomp_builder.h"
#include "policy/seccomp_profiles.h"

namespace sandboxd {
namespace {

// The errno of `call` under `filter`; 0 where it succeeded.
int ErrnoUnder(const std::vector<sock_filter>& filter, long (*call)()) {
  const pid_t pid = fork();
  if (pid == 0) {
    sock_fprog program = {static_cast<unsigned short>(filter.size()),
                          const_cast<sock_filter*>(filter.data())};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, 2, &program) < 0) {
      _exit(255);
    }
    _exit(call() < 0 ? errno : 0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class SeccompTest : public ::testing::TestWithParam<SeccompKind> {
 protected:
  std::vector<sock_filter> filter_ = *ExecSeccompFilter(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Kinds, SeccompTest,
                         ::testing::Values(SeccompKind::kDefault, SeccompKind::kStrict));

TEST_P(SeccompTest, OrdinaryCallsWork) {
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(SYS_getpid); }), 0);
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0); }), 0);
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(SYS_socket, AF_INET, SOCK_DGRAM, 0); }), 0);
}

TEST_P(SeccompTest, KernelSurfaceIsRefused) {
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(SYS_io_uring_setup, 1, nullptr); }), EPERM);
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(SYS_bpf, 0, nullptr, 0); }), EPERM);
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(SYS_userfaultfd, 0); }), EPERM);
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(SYS_keyctl, 0, 0); }), EPERM);
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(SYS_perf_event_open, 0, 0, 0, 0, 0); }), EPERM);
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(SYS_open_by_handle_at, 0, 0, 0); }), EPERM);
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(SYS_mount, 0, 0, 0, 0, 0); }), EPERM);
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(SYS_fsopen, "tmpfs", 0); }), EPERM);
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(SYS_setns, 0, 0); }), EPERM);
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(SYS_reboot, 0, 0, 0, 0); }), EPERM);
}

TEST_P(SeccompTest, HighBitsOfAnArgumentChangeNothing) {
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(SYS_socket, 38, SOCK_SEQPACKET, 0); }), EPERM);
  EXPECT_EQ(
      ErrnoUnder(filter_, [] { return syscall(SYS_socket, 38 | 1L << 32, SOCK_SEQPACKET, 0); }),
      EPERM);
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(SYS_ioctl, 0, TIOCSTI, ""); }), EPERM);
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(SYS_ioctl, 0, TIOCSTI | 1L << 32, ""); }),
            EPERM);
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(SYS_ioctl, -1, TIOCGWINSZ, ""); }), EBADF);
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(SYS_socket, AF_VSOCK, SOCK_STREAM, 0); }),
            EPERM);
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(SYS_socket, AF_NETLINK, SOCK_RAW, 12); }),
            EPERM);
}

TEST_P(SeccompTest, NamespacesCannotBeMade) {
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(SYS_unshare, 0x10000000); }), EPERM);
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(SYS_clone, 0x10000000, 0, 0, 0, 0); }), EPERM);
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(SYS_clone3, nullptr, 0); }), ENOSYS);
}

TEST_P(SeccompTest, UnknownNumbersAndForeignAbisLookUnimplemented) {
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(900); }), ENOSYS);
  EXPECT_EQ(ErrnoUnder(filter_, [] { return syscall(0x40000000 | SYS_getpid); }), ENOSYS);
}

TEST(SeccompKindTest, OnlyDefaultMayTrace) {
  EXPECT_EQ(ErrnoUnder(*ExecSeccompFilter(SeccompKind::kStrict),
                       [] { return syscall(SYS_ptrace, 0, 0, 0, 0); }),
            EPERM);
  EXPECT_EQ(ErrnoUnder(*ExecSeccompFilter(SeccompKind::kDefault),
                       [] { return syscall(SYS_ptrace, 0, 0, 0, 0); }),
            0);
}

TEST(SeccompBuilderTest, BuildReturnsTheFirstMistake) {
  EXPECT_FALSE(SeccompBuilder().Allow("no_such_call").Build().ok());
  EXPECT_FALSE(SeccompBuilder().AllowIf("read", {.index = 9}).Build().ok());
}

TEST(CapabilitiesTest, ForbiddenOnesCannotBeNamed) {
  for (const char* name :
       {"SYS_ADMIN", "NET_RAW", "NET_ADMIN", "SYS_PTRACE", "MKNOD", "nonsense"}) {
    EXPECT_FALSE(ParseCapabilities({name}).ok()) << name;
  }
  EXPECT_EQ(*ParseCapabilities({"cap_chown", "KILL"}), 0x21u);
}

}  // namespace
}  // namespace sandboxd
