#include "rootfs/image.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sandboxd {
namespace {

absl::Status NotFound(const std::string& path, absl::string_view why) {
  return ReasonError(absl::StatusCode::kNotFound, "IMAGE_NOT_FOUND", absl::StrCat("image ", path),
                     absl::StrCat("no image ", path, ": ", why));
}

UniqueFd OpenPlain(int dir, const std::string& path, uint64_t resolve) {
  const open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                        .mode = 0,
                        .resolve = resolve | RESOLVE_NO_SYMLINKS};
  return UniqueFd(static_cast<int>(syscall(SYS_openat2, dir, path.c_str(), &how, sizeof how)));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Image>> OpenDirectoryImage(const std::string& directory,
                                                                const std::string& path) {
  const UniqueFd top = OpenPlain(AT_FDCWD, directory, 0);
  const std::string rest = path == directory ? "." : path.substr(directory.size() + 1);
  UniqueFd root;
  if (top.valid()) root = OpenPlain(top.get(), rest, RESOLVE_BENEATH);
  if (!root.valid()) {
    const bool leads_elsewhere = errno == ELOOP || errno == EXDEV;
    return NotFound(path, leads_elsewhere ? "give the directory's real path, without symbolic links"
                                          : strerror(errno));
  }
  for (const char* name : {"proc", "sys", "dev"}) {
    struct stat status;
    if (fstatat(root.get(), name, &status, AT_SYMLINK_NOFOLLOW) < 0) continue;
    if (S_ISDIR(status.st_mode)) continue;
    return ReasonError(absl::StatusCode::kFailedPrecondition, "IMAGE_UNUSABLE",
                       absl::StrCat("image ", path),
                       absl::StrCat("the image ", path, " has a /", name,
                                    " that is not a directory; the sandbox's own goes there"));
  }
  auto image = std::make_shared<Image>();
  image->reference = path;
  image->layers.push_back(std::move(root));
  return image;
}

absl::StatusOr<UniqueFd> CloneTree(int directory) {
  UniqueFd tree(open_tree(directory, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH));
  if (!tree.valid()) return ErrnoError("cloning the mount of an image");
  return tree;
}

absl::StatusOr<UniqueFd> CloneReadOnly(int directory) {
  ASSIGN_OR_RETURN(UniqueFd tree, CloneTree(directory));
  mount_attr attributes = {};
  attributes.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  attributes.propagation = MS_PRIVATE;
  if (mount_setattr(tree.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) < 0) {
    return ErrnoError("making a mount read-only");
  }
  return tree;
}

}  // namespace sandboxd
