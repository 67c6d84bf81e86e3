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

// The directory `path`, which is `allowed` or beneath it, as an image. `allowed` is the operator's
// and trusted; everything beneath may belong to a client that changes it meanwhile, so the kernel
// walks it in one call that follows no symbolic link and does not leave it (openat2(2)).
// IMAGE_NOT_FOUND where it does not exist, is no directory, or its path is not its real one;
// IMAGE_UNUSABLE where its /proc, /sys or /dev is something else than a directory, since the
// sandbox's own go there.
absl::StatusOr<std::shared_ptr<const Image>> OpenDirectoryImage(const std::string& allowed,
                                                                const std::string& path);

// A detached copy of the mount that `directory` is in, starting there (open_tree(2)).
absl::StatusOr<UniqueFd> CloneTree(int directory);

// The same, read-only, nosuid, nodev, and cut off from mount propagation.
absl::StatusOr<UniqueFd> CloneReadOnly(int directory);

}  // namespace sandboxd

#endif  // SANDBOXD_ROOTFS_IMAGE_H_
