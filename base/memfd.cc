#include "base/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/status.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

namespace sandboxd {
namespace {

// Linux 6.3 asks every caller to say whether the file may be executed; older kernels know neither
// flag and answer EINVAL.
int CreateMemfd(const char* name, bool executable) {
  const unsigned base = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int fd = memfd_create(name, base | (executable ? MFD_EXEC : MFD_NOEXEC_SEAL));
  return fd < 0 && errno == EINVAL ? memfd_create(name, base) : fd;
}

}  // namespace

absl::StatusOr<UniqueFd> SealedMemfd(const char* name, absl::Span<const char> content,
                                     bool executable) {
  UniqueFd fd(CreateMemfd(name, executable));
  if (!fd.valid()) return ErrnoError("creating a memory file");
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = write(fd.get(), content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError("filling a memory file");
    done += static_cast<size_t>(n);
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0) {
    return ErrnoError("sealing a memory file");
  }
  return fd;
}

}  // namespace sandboxd
