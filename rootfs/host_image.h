#ifndef SANDBOXD_ROOTFS_HOST_IMAGE_H_
#define SANDBOXD_ROOTFS_HOST_IMAGE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rootfs/image.h"

namespace sandboxd {

// The built-in image `host`: a small root of its own under `store` (etc with passwd, group, hosts,
// nsswitch.conf, the host's public certificates, alternatives and loader cache; root, tmp, var,
// home), with the host's /usr bound read-only. /usr keeps its owners, so what only the host's root
// may read stays unreadable. Its page cache is shared with the host's own programs.
//
// The root is named after its content and made once; an update of the host's files makes a new one,
// beside that of running sandboxes.
absl::StatusOr<std::shared_ptr<const Image>> MakeHostImage(const std::string& store);

}  // namespace sandboxd

#endif  // SANDBOXD_ROOTFS_HOST_IMAGE_H_
