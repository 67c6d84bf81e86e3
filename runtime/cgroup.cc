#include "runtime/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/id.h"
#include "base/status.h"

namespace sandboxd {
namespace {

constexpr absl::string_view kWanted[] = {"memory", "pids", "cpu", "cpuset", "io"};
constexpr absl::string_view kNeeded[] = {"memory", "pids", "cpu"};

// The mount point of the first cgroup2 file system (proc(5), mountinfo: after " - " comes the
// type).
absl::StatusOr<std::string> FindCgroup2() {
  ASSIGN_OR_RETURN(const std::string mounts, ReadFile(AT_FDCWD, "/proc/self/mountinfo", 8 << 20));
  for (const absl::string_view line : absl::StrSplit(mounts, '\n')) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    const std::vector<absl::string_view> fields = absl::StrSplit(halves.first, ' ');
    if (fields.size() > 4 && absl::StartsWith(halves.second, "cgroup2 ")) {
      return std::string(fields[4]);
    }
  }
  return absl::FailedPreconditionError(
      "no cgroup2 file system is mounted; mount one at /sys/fs/cgroup");
}

absl::StatusOr<absl::flat_hash_set<std::string>> Controllers(int dir, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(dir, absl::StrCat(path, "cgroup.controllers")));
  return absl::flat_hash_set<std::string>(
      absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty()));
}

// Passes the wanted controllers on to the children of `dir`. One that cannot be enabled stays
// unavailable there, which Controllers() of a child shows.
void EnableControllers(int dir, const std::string& path,
                       const absl::flat_hash_set<std::string>& available) {
  for (const absl::string_view name : kWanted) {
    if (!available.contains(name)) continue;
    WriteExisting(dir, absl::StrCat(path, "cgroup.subtree_control"), absl::StrCat("+", name))
        .IgnoreError();
  }
}

int Bpf(bpf_cmd command, bpf_attr& attributes) {
  return static_cast<int>(syscall(SYS_bpf, command, &attributes, sizeof attributes));
}

absl::Status RemoveDirectory(int dir, const std::string& path) {
  if (unlinkat(dir, path.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return absl::OkStatus();
  return ErrnoError(absl::StrCat("removing the cgroup ", path));
}

struct CloseDir {
  void operator()(DIR* dir) const { closedir(dir); }
};

absl::StatusOr<std::vector<std::string>> Children(int dir, const std::string& path) {
  UniqueFd fd(openat(dir, path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) return ErrnoError(absl::StrCat("opening the cgroup ", path));
  std::unique_ptr<DIR, CloseDir> stream(fdopendir(fd.get()));
  if (stream == nullptr) return ErrnoError(absl::StrCat("listing the cgroup ", path));
  (void)fd.Release();
  std::vector<std::string> names;
  while (const dirent* entry = readdir(stream.get())) {
    if (entry->d_type == DT_DIR && entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

}  // namespace

absl::StatusOr<CgroupTree> CgroupTree::Open(const std::string& name, bool allow_hybrid) {
  ASSIGN_OR_RETURN(const std::string mount, FindCgroup2());
  ASSIGN_OR_RETURN(UniqueFd top, OpenDirectory(AT_FDCWD, mount));
  ASSIGN_OR_RETURN(const auto available, Controllers(top.get(), ""));
  for (const absl::string_view needed : kNeeded) {
    if (available.contains(needed) || allow_hybrid) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "the cgroup2 hierarchy at ", mount, " lacks the controller ", needed,
        ", which is needed for limits; boot with systemd.unified_cgroup_hierarchy=1, or set "
        "daemon.allow_hybrid_cgroups to run without those limits"));
  }
  std::string made;
  for (const absl::string_view part : absl::StrSplit(name, '/', absl::SkipEmpty())) {
    EnableControllers(top.get(), made, available);
    absl::StrAppend(&made, part);
    if (mkdirat(top.get(), made.c_str(), 0755) < 0 && errno != EEXIST) {
      return ErrnoError(absl::StrCat("making the cgroup ", mount, "/", made));
    }
    absl::StrAppend(&made, "/");
  }
  ASSIGN_OR_RETURN(UniqueFd root, OpenDirectory(top.get(), made));
  CgroupTree tree(absl::StrCat(mount, "/", name), std::move(root));
  ASSIGN_OR_RETURN(tree.controllers_, Controllers(tree.root_.get(), ""));
  EnableControllers(tree.root_.get(), "", tree.controllers_);
  return tree;
}

absl::Status CgroupTree::AttachDeviceFilter(absl::string_view program) {
  bpf_attr load = {};
  load.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
  load.insn_cnt = static_cast<uint32_t>(program.size() / sizeof(bpf_insn));
  load.insns = reinterpret_cast<uint64_t>(program.data());
  load.license = reinterpret_cast<uint64_t>("Apache-2.0");
  device_filter_.Reset(Bpf(BPF_PROG_LOAD, load));
  if (!device_filter_.valid()) return ErrnoError("loading the device filter");
  bpf_attr attach = {};
  attach.target_fd = static_cast<uint32_t>(root_.get());
  attach.attach_bpf_fd = static_cast<uint32_t>(device_filter_.get());
  attach.attach_type = BPF_CGROUP_DEVICE;
  // Without a flag the program is the only one and replaces that of an earlier daemon at once.
  if (Bpf(BPF_PROG_ATTACH, attach) < 0) {
    return ErrnoError(absl::StrCat("attaching the device filter to ", path_));
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> CgroupTree::Make(const std::string& id,
                                          const std::vector<CgroupSetting>& settings) const {
  if (mkdirat(root_.get(), id.c_str(), 0755) < 0) {
    return ErrnoError(absl::StrCat("making the cgroup ", path_, "/", id));
  }
  UniqueFd group(openat(root_.get(), id.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!group.valid()) return ErrnoError(absl::StrCat("opening the cgroup ", path_, "/", id));
  EnableControllers(group.get(), "", controllers_);
  for (const char* name : {"shim", "box", "box/init"}) {
    if (mkdirat(group.get(), name, 0755) < 0) {
      const absl::Status status = ErrnoError(absl::StrCat("making the cgroup ", id, "/", name));
      Remove(id).IgnoreError();
      return status;
    }
  }
  for (const auto& [file, value] : settings) {
    if (!has_controller(file.substr(0, file.find('.')))) continue;
    const absl::Status status = WriteExisting(group.get(), absl::StrCat("box/", file), value);
    if (!status.ok()) {
      Remove(id).IgnoreError();
      return status;
    }
  }
  return group;
}

absl::Status CgroupTree::Remove(const std::string& id) const {
  const std::string box = absl::StrCat(id, "/box");
  const auto children = Children(root_.get(), box);
  if (children.ok()) {
    for (const std::string& child : *children) {
      RETURN_IF_ERROR(RemoveDirectory(root_.get(), absl::StrCat(box, "/", child)));
    }
  }
  for (const char* name : {"/box", "/shim", ""}) {
    RETURN_IF_ERROR(RemoveDirectory(root_.get(), absl::StrCat(id, name)));
  }
  return absl::OkStatus();
}

absl::Status CgroupTree::Kill(const std::string& id) const {
  return WriteExisting(root_.get(), absl::StrCat(id, "/cgroup.kill"), "1");
}

absl::StatusOr<std::vector<std::string>> CgroupTree::List() const {
  ASSIGN_OR_RETURN(std::vector<std::string> names, Children(root_.get(), "."));
  names.erase(std::remove_if(names.begin(), names.end(),
                             [](const std::string& name) { return !IsId(name); }),
              names.end());
  return names;
}

void CgroupTree::RemoveRoot() const { rmdir(path_.c_str()); }

}  // namespace sandboxd
