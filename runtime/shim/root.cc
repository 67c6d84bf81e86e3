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

constexpr size_t kFirstLayer = 1;  // After the plan.

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

// The overlay as a detached mount that init will attach.
int OpenRoot(const LaunchPlan& plan, int& root) {
  root = open_tree(AT_FDCWD, kWorkRoot, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  if (root < 0) return errno;
  mount_attr attributes = {};
  attributes.attr_set = plan.root_attributes;
  attributes.propagation = MS_PRIVATE;
  return Result(mount_setattr(root, "", AT_EMPTY_PATH, &attributes, sizeof attributes));
}

}  // namespace

// A tmpfs with the root's limits, holding the upper and work directories, owned by the sandbox's
// root: without that `/` would belong to an id that the sandbox does not have.
int MakeUpper(Context& context) {
  const PreparePlan& plan = *context.prepare.As<PreparePlan>();
  const int tmpfs = fsopen("tmpfs", FSOPEN_CLOEXEC);
  if (tmpfs < 0) return errno;
  char bytes[32];
  char inodes[32];
  FormatNumber(bytes, "", plan.root_bytes);
  FormatNumber(inodes, "", plan.root_inodes);
  if (fsconfig(tmpfs, FSCONFIG_SET_STRING, "size", bytes, 0) < 0 ||
      fsconfig(tmpfs, FSCONFIG_SET_STRING, "nr_inodes", inodes, 0) < 0 ||
      fsconfig(tmpfs, FSCONFIG_SET_STRING, "mode", "0700", 0) < 0 ||
      fsconfig(tmpfs, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) < 0) {
    return errno;
  }
  context.upper = fsmount(tmpfs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
  const int saved = errno;
  close(tmpfs);
  if (context.upper < 0) return saved;
  if (move_mount(context.upper, "", AT_FDCWD, kWorkUpper, MOVE_MOUNT_F_EMPTY_PATH) < 0) {
    return errno;
  }
  for (const char* name : {"upper", "work"}) {
    if (mkdirat(context.upper, name, 0755) < 0 ||
        fchownat(context.upper, name, context.id_base, context.id_base, AT_SYMLINK_NOFOLLOW) < 0) {
      return errno;
    }
  }
  return 0;
}

StageFailure BuildRoot(Context& context, FdList& fds) {
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
  for (uint32_t i = 0; i < plan.layer_count; ++i) {
    error = ShiftLayer(context, plan, fds.fds[kFirstLayer + i]);
    if (error != 0) return {Stage::kShiftLayer, error, i};
  }
  context.watch.Lap(Stage::kShiftLayer);
  error = MountOverlay(fds, plan.layer_count, context.upper);
  close(context.upper);
  context.upper = -1;
  if (error == 0) error = OpenRoot(plan, context.root);
  if (error != 0) return {Stage::kOverlay, error, 0};
  context.watch.Lap(Stage::kOverlay);
  return {};
}

StageFailure HandRootOver(Context& context, FdList& fds) {
  context.watch.Start();
  const LaunchPlan& plan = *context.launch.As<LaunchPlan>();
  int passed[kMaxFds];
  size_t count = 0;
  passed[count++] = fds.fds[0];
  passed[count++] = context.init_filter;
  passed[count++] = context.root;
  for (size_t i = kFirstLayer + plan.layer_count; i < fds.count; ++i) passed[count++] = fds.fds[i];
  const InitOrder order = InitOrder::kLaunch;
  const int error = Send(context.init_link, &order, sizeof order, passed, count);
  close(context.root);
  context.root = -1;
  context.launch.Unmap();
  if (error != 0) return {Stage::kSendRoot, error, 0};
  context.watch.Lap(Stage::kSendRoot);
  return {};
}

}  // namespace sandboxd::shim
