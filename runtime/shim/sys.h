// System calls that glibc 2.36 does not wrap, and small helpers of the launch program. Every helper
// returns 0 or an errno value; nothing here allocates or logs.
#ifndef SANDBOXD_RUNTIME_SHIM_SYS_H_
#define SANDBOXD_RUNTIME_SHIM_SYS_H_

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include <linux/openat2.h>
#include <linux/sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace sandboxd::shim {

inline int Result(long rc) { return rc < 0 ? errno : 0; }

inline int Clone3(clone_args& args) {
  return static_cast<int>(syscall(SYS_clone3, &args, sizeof args));
}

inline int PivotRoot(const char* new_root, const char* put_old) {
  return static_cast<int>(syscall(SYS_pivot_root, new_root, put_old));
}

inline int PidfdOpen(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

inline int PidfdSendSignal(int pidfd, int signal) {
  return static_cast<int>(syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0));
}

inline int CloseRange(unsigned first, unsigned last) {
  return static_cast<int>(syscall(SYS_close_range, first, last, 0));
}

// Opens beneath `dir` as if it were the root, through no symbolic link at all.
inline int OpenInRoot(int dir, const char* path, uint64_t flags) {
  open_how how = {};
  how.flags = flags;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(syscall(SYS_openat2, dir, path, &how, sizeof how));
}

// Formats "<prefix><number><suffix>" into `out`; the callers' buffers are always large enough.
char* FormatNumber(char* out, const char* prefix, uint64_t number, const char* suffix = "");

// Writes a string to an existing file beneath `dir` with one write(2).
int WriteFileAt(int dir, const char* path, const char* text);

uint64_t MonotonicMicros();

// Closes every descriptor but those of `keep`, of which there are at most 8, and 0 to 2.
void CloseAllBut(std::initializer_list<int> keep);

// Default actions and an empty mask for every signal, as a program expects to start.
void ResetSignals();

}  // namespace sandboxd::shim

#endif  // SANDBOXD_RUNTIME_SHIM_SYS_H_
