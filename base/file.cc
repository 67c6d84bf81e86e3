#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"

namespace sandboxd {
namespace {

absl::Status WriteAll(int fd, absl::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t n = write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(absl::StrCat("writing ", path));
    content.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status SyncDirectoryOf(int dir, const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  UniqueFd fd(openat(dir, parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) < 0) return ErrnoError(absl::StrCat("syncing ", parent));
  return absl::OkStatus();
}

struct CloseDir {
  void operator()(DIR* dir) const { closedir(dir); }
};

}  // namespace

absl::StatusOr<std::string> ReadFile(int dir, const std::string& path, size_t limit) {
  UniqueFd fd(openat(dir, path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoError(absl::StrCat("opening ", path));
  std::string content;
  char buffer[4096];
  while (true) {
    const ssize_t n = read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(absl::StrCat("reading ", path));
    if (n == 0) return content;
    content.append(buffer, static_cast<size_t>(n));
    if (content.size() > limit) {
      return absl::ResourceExhaustedError(absl::StrCat(path, " is larger than ", limit, " bytes"));
    }
  }
}

absl::Status WriteExisting(int dir, const std::string& path, absl::string_view content) {
  UniqueFd fd(openat(dir, path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoError(absl::StrCat("opening ", path));
  if (write(fd.get(), content.data(), content.size()) < 0) {
    return ErrnoError(absl::StrCat("writing \"", content, "\" to ", path));
  }
  return absl::OkStatus();
}

absl::Status ReplaceFile(int dir, const std::string& path, absl::string_view content, mode_t mode,
                         bool sync) {
  const std::string temporary = absl::StrCat(path, ".new");
  UniqueFd fd(
      openat(dir, temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!fd.valid()) return ErrnoError(absl::StrCat("creating ", temporary));
  absl::Status status = WriteAll(fd.get(), content, temporary);
  if (status.ok() && sync && fsync(fd.get()) < 0) {
    status = ErrnoError(absl::StrCat("syncing ", temporary));
  }
  if (status.ok() && renameat(dir, temporary.c_str(), dir, path.c_str()) < 0) {
    status = ErrnoError(absl::StrCat("renaming ", temporary));
  }
  if (!status.ok()) {
    unlinkat(dir, temporary.c_str(), 0);
    return status;
  }
  return sync ? SyncDirectoryOf(dir, path) : absl::OkStatus();
}

absl::StatusOr<UniqueFd> OpenDirectory(int dir, const std::string& path, int flags) {
  UniqueFd fd(openat(dir, path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW | flags));
  if (!fd.valid()) return ErrnoError(absl::StrCat("opening the directory ", path));
  return fd;
}

absl::Status MakeDirectories(const std::string& path, mode_t mode) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (mkdir(part.c_str(), mode) < 0 && errno != EEXIST) {
      return ErrnoError(absl::StrCat("making the directory ", part));
    }
    if (end == std::string::npos) return absl::OkStatus();
  }
}

absl::Status RemoveTree(int dir, const std::string& path) {
  if (unlinkat(dir, path.c_str(), 0) == 0 || errno == ENOENT) return absl::OkStatus();
  if (errno != EISDIR) return ErrnoError(absl::StrCat("removing ", path));
  // Depth first with an explicit stack of names, so that no depth of tree can exhaust ours.
  std::string current = path;
  size_t depth = 0;
  while (true) {
    if (unlinkat(dir, current.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) {
      if (depth == 0) return absl::OkStatus();
      current.resize(current.rfind('/'));
      --depth;
      continue;
    }
    if (errno != ENOTEMPTY) return ErrnoError(absl::StrCat("removing ", current));
    ASSIGN_OR_RETURN(UniqueFd fd, OpenDirectory(dir, current));
    std::unique_ptr<DIR, CloseDir> stream(fdopendir(fd.get()));
    if (stream == nullptr) return ErrnoError(absl::StrCat("listing ", current));
    const int directory = fd.Release();
    std::string child;
    while (const dirent* entry = readdir(stream.get())) {
      const absl::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (unlinkat(directory, entry->d_name, 0) == 0 || errno == ENOENT) continue;
      if (errno != EISDIR) return ErrnoError(absl::StrCat("removing ", current, "/", name));
      child = entry->d_name;
    }
    if (child.empty()) continue;
    absl::StrAppend(&current, "/", child);
    ++depth;
  }
}

}  // namespace sandboxd
