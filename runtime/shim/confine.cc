#include "runtime/shim/confine.h"

#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "runtime/shim/sys.h"

namespace sandboxd::shim {

int BecomeRootInside() {
  // The calls themselves: glibc's wrappers would signal threads they believe in.
  if (syscall(SYS_setgroups, 0, nullptr) < 0) return errno;
  if (syscall(SYS_setresgid, 0, 0, 0) < 0) return errno;
  if (syscall(SYS_setresuid, 0, 0, 0) < 0) return errno;
  // A change of ids makes a process what fs.suid_dumpable says: with 1, open to others inside.
  return Result(prctl(PR_SET_DUMPABLE, 0));
}

int NewSessionKeyring() {
  const int error = Result(syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr));
  return error == ENOSYS ? 0 : error;  // A kernel without keyrings has none to share.
}

int LimitBoundingSet(uint64_t mask) {
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0) return errno;
  for (int capability = 0; capability < 64; ++capability) {
    if ((mask >> capability & 1) != 0) continue;
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0) {
      if (errno == EINVAL) break;  // Past the last one that this kernel knows.
      return errno;
    }
  }
  return 0;
}

int SetCapabilities(uint64_t mask) {
  __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct data[2] = {};
  for (int word = 0; word < 2; ++word) {
    data[word].permitted = data[word].effective = static_cast<uint32_t>(mask >> (32 * word));
  }
  return Result(syscall(SYS_capset, &header, data));
}

int SetNoNewPrivileges() { return Result(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)); }

int LoadSeccompFilter(int fd) {
  struct stat status;
  if (fstat(fd, &status) < 0) return errno;
  if (status.st_size == 0) return 0;
  const size_t size = static_cast<size_t>(status.st_size);
  if (size % sizeof(sock_filter) != 0 || size / sizeof(sock_filter) > BPF_MAXINSNS) return EBADMSG;
  void* program = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (program == MAP_FAILED) return errno;
  close(fd);
  const sock_fprog filter = {.len = static_cast<unsigned short>(size / sizeof(sock_filter)),
                             .filter = static_cast<sock_filter*>(program)};
  // Not unmapped: the filter may forbid it, and an exec drops the mapping anyway.
  return Result(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter));
}

}  // namespace sandboxd::shim
