// An image as a launch needs it: descriptors of verified directories, never path strings.
#ifndef SANDBOXD_ROOTFS_IMAGE_H_
#define SANDBOXD_ROOTFS_IMAGE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/unique_fd.h"

namespace sandboxd {

// A directory of the host that appears in the sandbox read-only, without its submounts and without
// a shift of ids.
struct ImageBind {
  UniqueFd source;     // O_PATH
  std::string target;  // Relative to the root.
};

struct Image {
  std::string reference;
  std::vector<UniqueFd> layers;  // O_PATH directories, top to bottom; ids are shifted.
  std::vector<ImageBind> binds;
  std::vector<std::string> env;
};

// `path`, which is `directory` or, by name, beneath it: opened once, from `directory` downwards,
// and through no symbolic link, so that nobody who can write there makes it lead elsewhere.
// IMAGE_NOT_FOUND where it does not exist or is no directory; IMAGE_UNUSABLE where its /proc, /sys
// or /dev is something else than a directory, since the sandbox's own go there.
absl::StatusOr<std::shared_ptr<const Image>> OpenDirectoryImage(const std::string& directory,
                                                                const std::string& path);

// A detached copy of the mount that `directory` is in, starting there (open_tree(2)).
absl::StatusOr<UniqueFd> CloneTree(int directory);

// The same, read-only, nosuid, nodev, and cut off from mount propagation.
absl::StatusOr<UniqueFd> CloneReadOnly(int directory);

}  // namespace sandboxd

#endif  // SANDBOXD_ROOTFS_IMAGE_H_
