#include "runtime/prober.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/memfd.h"
#include "base/status.h"

extern "C" {
extern const char sandboxd_probe_program_begin[];
extern const char sandboxd_probe_program_end[];
}

namespace sandboxd {
namespace {

// A node that everybody may read, on a file system that is attached nowhere.
absl::StatusOr<UniqueFd> MakeRefusedDevice() {
  const UniqueFd context(fsopen("tmpfs", FSOPEN_CLOEXEC));
  if (!context.valid() || fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) < 0) {
    return ErrnoError("making the probe's file system");
  }
  const UniqueFd mount(fsmount(context.get(), FSMOUNT_CLOEXEC, MOUNT_ATTR_NODEV));
  if (!mount.valid()) return ErrnoError("mounting the probe's file system");
  if (mknodat(mount.get(), "device", S_IFCHR, kRefusedDevice) < 0 ||
      fchmodat(mount.get(), "device", 0444, 0) < 0) {
    return ErrnoError("making the probe's device node");
  }
  UniqueFd device(openat(mount.get(), "device", O_PATH | O_CLOEXEC | O_NOFOLLOW));
  if (!device.valid()) return ErrnoError("opening the probe's device node");
  return device;
}

absl::Status LookAtNamespaces(const std::string& process,
                              std::array<uint64_t, kProbeNamespaces>& inodes) {
  for (size_t i = 0; i < kProbeNamespaces; ++i) {
    const std::string path = absl::StrCat("/proc/", process, "/ns/", kProbeNamespaceNames[i]);
    struct stat status;
    if (stat(path.c_str(), &status) < 0) return ErrnoError(absl::StrCat("looking at ", path));
    inodes[i] = status.st_ino;
  }
  return absl::OkStatus();
}

// The shim is the parent of the sandbox's PID 1.
absl::StatusOr<std::string> ParentOf(pid_t pid) {
  const std::string path = absl::StrCat("/proc/", pid, "/status");
  ASSIGN_OR_RETURN(const std::string text, ReadFile(AT_FDCWD, path));
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::ConsumePrefix(&line, "PPid:\t")) return std::string(line);
  }
  return absl::InternalError(absl::StrCat(path, " names no parent"));
}

// The number of keys of `uid`: "UID: USAGE KEYS/INSTANTIATED …", proc(5). -1: no keyrings at all.
absl::StatusOr<int64_t> CountKeys(uint32_t uid) {
  const auto text = ReadFile(AT_FDCWD, "/proc/key-users", 16 << 20);
  if (absl::IsNotFound(text.status())) return -1;
  if (!text.ok()) return text.status();
  const std::string wanted = absl::StrCat(uid, ":");
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, absl::ByAnyChar(" /"), absl::SkipEmpty());
    int64_t keys = 0;
    if (fields.size() > 2 && fields[0] == wanted && absl::SimpleAtoi(fields[2], &keys)) return keys;
  }
  return 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Prober>> Prober::Create() {
  ASSIGN_OR_RETURN(UniqueFd program, SealedMemfd("sandboxd-probe",
                                                 absl::MakeConstSpan(sandboxd_probe_program_begin,
                                                                     sandboxd_probe_program_end),
                                                 /*executable=*/true));
  if (fchmod(program.get(), 0111) < 0) return ErrnoError("setting the mode of the probe");
  ASSIGN_OR_RETURN(UniqueFd device, MakeRefusedDevice());
  return std::unique_ptr<Prober>(new Prober(std::move(program), std::move(device)));
}

std::vector<std::string> Prober::Arguments(const Profile& profile) {
  std::vector<std::string> arguments = {"sandboxd-probe"};
  for (const std::string& path : profile.masked) {
    arguments.push_back(absl::StrCat(kProbeMasked, "/", path));
  }
  for (const std::string& path : profile.read_only) {
    arguments.push_back(absl::StrCat(kProbeReadOnly, "/", path));
  }
  return arguments;
}

absl::StatusOr<HostView> Prober::LookAtHost(pid_t init, uint32_t id_base) {
  HostView view;
  RETURN_IF_ERROR(LookAtNamespaces("self", view.daemon));
  ASSIGN_OR_RETURN(const std::string shim, ParentOf(init));
  RETURN_IF_ERROR(LookAtNamespaces(shim, view.shim));
  ASSIGN_OR_RETURN(view.keys, CountKeys(id_base));
  return view;
}

}  // namespace sandboxd
