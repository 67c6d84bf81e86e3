// The root of a sandbox: idmapped lower layers under a private tmpfs upper, one overlay. One path
// for every kernel from 6.1 on: layers are attached in the shim's own mount namespace and named to
// overlayfs by descriptor (6.1 and 6.12 refuse detached layers; see overlayfs.rst,
// mount_setattr(2)).
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <initializer_list>

#include "runtime/shim/channel.h"
#include "runtime/shim/context.h"
#include "runtime/shim/init.h"
#include "runtime/shim/sys.h"
#include "runtime/shim/zygote.h"

namespace sandboxd::shim {
namespace {

constexpr size_t kFirstLayer = 3;  // After the plan and the two filters.

struct Upper {
  int error;
  int directory;
};

// A tmpfs with the root's limits, holding the upper and work directories, owned by the sandbox's
// root: without that `/` would belong to an id that the sandbox does not have.
Upper MakeUpper(const Context& context, const LaunchPlan& plan) {
  const int tmpfs = fsopen("tmpfs", FSOPEN_CLOEXEC);
  if (tmpfs < 0) return {errno, -1};
  char bytes[32];
  char inodes[32];
  FormatNumber(bytes, "", plan.root_bytes);
  FormatNumber(inodes, "", plan.root_inodes);
  if (fsconfig(tmpfs, FSCONFIG_SET_STRING, "size", bytes, 0) < 0 ||
      fsconfig(tmpfs, FSCONFIG_SET_STRING, "nr_inodes", inodes, 0) < 0 ||
      fsconfig(tmpfs, FSCONFIG_SET_STRING, "mode", "0700", 0) < 0 ||
      fsconfig(tmpfs, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) < 0) {
    return {errno, -1};
  }
  const int directory = fsmount(tmpfs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
  const int saved = errno;
  close(tmpfs);
  if (directory < 0) return {saved, -1};
  if (move_mount(directory, "", AT_FDCWD, kWorkUpper, MOVE_MOUNT_F_EMPTY_PATH) < 0) {
    return {errno, directory};
  }
  for (const char* name : {"upper", "work"}) {
    if (mkdirat(directory, name, 0755) < 0 ||
        fchownat(directory, name, context.id_base, context.id_base, AT_SYMLINK_NOFOLLOW) < 0) {
      return {errno, directory};
    }
  }
  return {0, directory};
}

int ShiftLayer(const Context& context, const LaunchPlan& plan, int layer) {
  mount_attr attributes = {};
  attributes.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  attributes.propagation = MS_PRIVATE;
  if ((plan.flags & kLaunchShiftLayers) != 0) {
    attributes.attr_set |= MOUNT_ATTR_IDMAP;
    attributes.userns_fd = static_cast<uint64_t>(context.user_namespace);
  }
  if (mount_setattr(layer, "", AT_EMPTY_PATH, &attributes, sizeof attributes) < 0) return errno;
  // All on one directory, each over the last: overlayfs gets them by descriptor, not by name.
  return Result(move_mount(layer, "", AT_FDCWD, kWorkLayer, MOVE_MOUNT_F_EMPTY_PATH));
}

// "lowerdir=/proc/self/fd/7:/proc/self/fd/8,upperdir=…" within the one page that mount(2) takes.
int MountOverlay(const FdList& fds, uint32_t layers, int upper) {
  static char options[4096];
  char part[64];
  char* out = stpcpy(options, "xino=off,metacopy=off,index=off,redirect_dir=nofollow");
  for (uint32_t i = 0; i < layers; ++i) {
    const uint64_t fd = static_cast<uint64_t>(fds.fds[kFirstLayer + i]);
    FormatNumber(part, i == 0 ? ",lowerdir=/proc/self/fd/" : ":/proc/self/fd/", fd);
    if (out + strlen(part) + 128 > options + sizeof options) return E2BIG;
    out = stpcpy(out, part);
  }
  out = stpcpy(
      out, FormatNumber(part, ",upperdir=/proc/self/fd/", static_cast<uint64_t>(upper), "/upper"));
  stpcpy(out, FormatNumber(part, ",workdir=/proc/self/fd/", static_cast<uint64_t>(upper), "/work"));
  // What attributes the root has the plan says, to the clone that init gets.
  return Result(mount("sandbox", kWorkRoot, "overlay", 0, options));
}

int SendRoot(const Context& context, const LaunchPlan& plan, FdList& fds) {
  const int root = open_tree(AT_FDCWD, kWorkRoot, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  if (root < 0) return errno;
  mount_attr attributes = {};
  attributes.attr_set = plan.root_attributes;
  attributes.propagation = MS_PRIVATE;
  if (mount_setattr(root, "", AT_EMPTY_PATH, &attributes, sizeof attributes) < 0) return errno;
  int passed[kMaxFds];
  size_t count = 0;
  passed[count++] = fds.fds[0];
  passed[count++] = fds.fds[1];
  passed[count++] = root;
  for (size_t i = kFirstLayer + plan.layer_count; i < fds.count; ++i) passed[count++] = fds.fds[i];
  const InitOrder order = InitOrder::kLaunch;
  const int error = Send(context.init_link, &order, sizeof order, passed, count);
  close(root);
  return error;
}

}  // namespace

StageFailure Launch(Context& context, FdList& fds) {
  context.watch.Start();
  int error = fds.count < kFirstLayer
                  ? EPROTO
                  : context.launch.Map(fds.fds[0], PlanKind::kLaunch, sizeof(LaunchPlan));
  if (error != 0) return {Stage::kReadPlan, error, 0};
  const LaunchPlan& plan = *context.launch.As<LaunchPlan>();
  if (plan.layer_count == 0 || plan.layer_count > kMaxLayers ||
      kFirstLayer + plan.layer_count > fds.count) {
    return {Stage::kReadPlan, EBADMSG, 0};
  }
  const Upper upper = MakeUpper(context, plan);
  if (upper.error != 0) return {Stage::kUpper, upper.error, 0};
  context.watch.Lap(Stage::kUpper);
  for (uint32_t i = 0; i < plan.layer_count; ++i) {
    error = ShiftLayer(context, plan, fds.fds[kFirstLayer + i]);
    if (error != 0) return {Stage::kShiftLayer, error, i};
  }
  context.watch.Lap(Stage::kShiftLayer);
  error = MountOverlay(fds, plan.layer_count, upper.directory);
  close(upper.directory);
  if (error != 0) return {Stage::kOverlay, error, 0};
  context.watch.Lap(Stage::kOverlay);
  error = SendRoot(context, plan, fds);
  if (error != 0) return {Stage::kSendRoot, error, 0};
  context.watch.Lap(Stage::kSendRoot);
  context.exec_filter = fds.Take(2);
  return AwaitReady(context);
}

}  // namespace sandboxd::shim
