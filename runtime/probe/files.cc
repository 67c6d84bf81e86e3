#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <cerrno>

#include "runtime/probe/measure.h"
#include "runtime/probe/text.h"

namespace sandboxd::probe {
namespace {

constexpr uint32_t kMaxEntries = 4096;   // Of one directory.
constexpr uint32_t kOverflowId = 65534;  // What an id without a number inside shows as.

void MeasureFileSystem(const char* path, ProbeFileSystem& out) {
  struct statfs status;
  if (statfs(path, &status) < 0) return;
  out = {static_cast<uint64_t>(status.f_type), static_cast<uint64_t>(status.f_flags)};
}

// Calls `visit(directory, name)` for each entry but "." and "..". False where the directory cannot
// be listed, or not to its end.
template <typename Visit>
bool ForEachEntry(const char* path, Visit visit) {
  const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  struct Entry {  // linux_dirent64, getdents64(2)
    uint64_t inode;
    int64_t offset;
    unsigned short size;
    unsigned char type;
    char name[];
  };
  alignas(Entry) static char buffer[32768];
  uint32_t count = 0;
  long size = 0;
  while (count < kMaxEntries && (size = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0) {
    for (long at = 0; at < size;) {
      const Entry* entry = reinterpret_cast<const Entry*>(buffer + at);
      at += entry->size;
      if (strcmp(entry->name, ".") == 0 || strcmp(entry->name, "..") == 0) continue;
      ++count;
      visit(fd, entry->name);
    }
  }
  close(fd);
  return size == 0;
}

// Whether anything at all can be read at `path`.
bool ShowsSomething(int fd, const char* path) {
  struct stat status;
  if (fstat(fd, &status) < 0) return true;
  if (S_ISDIR(status.st_mode)) {
    bool any = false;
    const bool listed = ForEachEntry(path, [&any](int, const char*) { any = true; });
    return any || !listed;
  }
  char byte;
  return read(fd, &byte, 1) > 0;
}

void LookBehindMask(const char* path, ProbeFinding& finding) {
  const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0 && errno == ENOENT) return;  // This kernel does not have it.
  ++finding.seen;
  if (fd < 0) return;
  if (ShowsSomething(fd, path)) AddBad(finding, path);
  close(fd);
}

void LookAtReadOnly(const char* path, ProbeFinding& finding) {
  struct statfs status = {};
  if (statfs(path, &status) < 0 && errno == ENOENT) return;  // As above.
  ++finding.seen;
  if ((status.f_flags & ST_RDONLY) == 0) AddBad(finding, path);
}

struct DevEntry {
  const char* name;
  dev_t device;  // 0: not a device.
};

bool IsExpected(int directory, const char* name) {
  const DevEntry expected[] = {
      {"null", makedev(1, 3)},
      {"zero", makedev(1, 5)},
      {"full", makedev(1, 7)},
      {"random", makedev(1, 8)},
      {"urandom", makedev(1, 9)},
      {"tty", makedev(5, 0)},
      {"fd", 0},
      {"stdin", 0},
      {"stdout", 0},
      {"stderr", 0},
      {"ptmx", 0},
      {"pts", 0},
      {"shm", 0},
      {"mqueue", 0},
  };
  struct stat status;
  if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) < 0) return false;
  const bool is_device = S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode);
  for (const DevEntry& entry : expected) {
    if (strcmp(entry.name, name) != 0) continue;
    return entry.device == 0 ? !is_device
                             : S_ISCHR(status.st_mode) && status.st_rdev == entry.device;
  }
  return false;
}

void MeasureDev(ProbeFinding& finding) {
  const bool listed = ForEachEntry("/dev", [&finding](int directory, const char* name) {
    ++finding.seen;
    if (!IsExpected(directory, name)) AddBad(finding, name);
  });
  if (!listed) AddBad(finding, "/dev");
}

// Whether one of the options between commas is `option`.
bool HasOption(const char* options, const char* option) {
  const size_t length = strlen(option);
  for (const char* part = options; part != nullptr; part = strchr(part, ',')) {
    if (*part == ',') ++part;
    if (strncmp(part, option, length) == 0 && (part[length] == ',' || part[length] == '\0')) {
      return true;
    }
  }
  return false;
}

// One line of mountinfo (proc(5)): the mount point is the fifth field, its options the sixth; the
// type comes after " - ".
void LookAtMount(char* line, ProbeFinding& finding) {
  char* fields[6];
  char* rest = line;
  for (char*& field : fields) field = rest == nullptr ? nullptr : strsep(&rest, " ");
  if (rest == nullptr) return AddBad(finding, "mountinfo");
  if (!HasOption(fields[5], "rw")) return;
  ++finding.seen;
  // A pseudo-terminal is a device, and a new instance holds nothing else.
  const bool terminals = strstr(rest, "- devpts ") != nullptr;
  if (HasOption(fields[5], "nosuid") && (terminals || HasOption(fields[5], "nodev"))) return;
  AddBad(finding, fields[4]);
}

void MeasureMounts(ProbeFinding& finding) {
  static char text[262144];
  if (!ReadText("/proc/self/mountinfo", text, sizeof text)) return AddBad(finding, "mountinfo");
  char* rest = text;
  while (char* line = strsep(&rest, "\n")) {
    if (*line != '\0') LookAtMount(line, finding);
  }
}

bool OnMount(int directory, const char* name, struct statx& status, uint64_t mount) {
  constexpr unsigned kMask = STATX_UID | STATX_GID | STATX_MNT_ID;
  if (statx(directory, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, kMask, &status) < 0) {
    return false;
  }
  return mount == 0 || status.stx_mnt_id == mount;
}

// The root itself is the private upper layer's; its entries come from the image.
void MeasureRoot(ProbeFinding& finding) {
  struct statx root = {};
  if (!OnMount(AT_FDCWD, "/", root, 0)) return AddBad(finding, "/");
  const bool listed = ForEachEntry("/", [&](int directory, const char* name) {
    struct statx status = {};
    if (!OnMount(directory, name, status, root.stx_mnt_id)) return;
    ++finding.seen;
    if (status.stx_uid == kOverflowId || status.stx_gid == kOverflowId) AddBad(finding, name);
  });
  if (!listed) AddBad(finding, "/");
}

// The rest of `argument`, if it begins with `prefix`.
const char* After(const char* argument, const char* prefix) {
  const size_t length = strlen(prefix);
  return strncmp(argument, prefix, length) == 0 ? argument + length : nullptr;
}

}  // namespace

void MeasureFiles(char** paths, ProbeAnswer& answer) {
  struct stat input;
  if (fstat(STDIN_FILENO, &input) == 0 && S_ISCHR(input.st_mode)) answer.device = input.st_rdev;
  MeasureFileSystem("/dev", answer.dev);
  MeasureFileSystem("/sys", answer.sys);
  MeasureFileSystem("/sys/fs/cgroup", answer.cgroup);
  for (char** path = paths; *path != nullptr; ++path) {
    if (const char* masked = After(*path, kProbeMasked)) LookBehindMask(masked, answer.masked);
    if (const char* fixed = After(*path, kProbeReadOnly)) LookAtReadOnly(fixed, answer.read_only);
  }
  MeasureDev(answer.dev_entries);
  MeasureMounts(answer.mounts);
  MeasureRoot(answer.root_entries);
}

}  // namespace sandboxd::probe
