// Small files that the project itself owns. Never used on a sandbox's or an image's tree.
#ifndef SANDBOXD_BASE_FILE_H_
#define SANDBOXD_BASE_FILE_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/unique_fd.h"

namespace sandboxd {

// Reads a whole file, relative to `dir` (AT_FDCWD: the working directory). RESOURCE_EXHAUSTED
// above `limit` bytes.
absl::StatusOr<std::string> ReadFile(int dir, const std::string& path, size_t limit = 1 << 20);

// Writes to an existing file in one write(2), as cgroup and /proc files need it.
absl::Status WriteExisting(int dir, const std::string& path, absl::string_view content);

// Creates or replaces `path` with `content`: a temporary file beside it, then rename(2). With
// `sync` it also survives a power cut (fsync of the file and of its directory).
absl::Status ReplaceFile(int dir, const std::string& path, absl::string_view content, mode_t mode,
                         bool sync = false);

// Opens a directory. `flags` are added to O_RDONLY|O_DIRECTORY|O_CLOEXEC|O_NOFOLLOW.
absl::StatusOr<UniqueFd> OpenDirectory(int dir, const std::string& path, int flags = 0);

// mkdir(2) that accepts an existing directory; missing parents are made with the same mode.
absl::Status MakeDirectories(const std::string& path, mode_t mode);

// Removes `path` beneath `dir` and all in it without following a symbolic link or crossing into
// another file system's mount (unlinkat(2) gives EBUSY there). A missing path is no error.
absl::Status RemoveTree(int dir, const std::string& path);

}  // namespace sandboxd

#endif  // SANDBOXD_BASE_FILE_H_
