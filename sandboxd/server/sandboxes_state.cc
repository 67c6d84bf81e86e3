// How sandboxes survive their daemon: a small state file each, and what a new daemon makes of those
// it finds. On a tmpfs, since it dies with the kernel, as the sandbox does.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/id.h"
#include "base/log.h"
#include "base/status.h"
#include "sandboxd/server/sandboxes.h"

namespace sandboxd::server {
namespace {

constexpr char kStateName[] = "/state";
constexpr size_t kQuarantined = 16;

}  // namespace

absl::Status Sandboxes::SaveState(const Sandbox& sandbox) const {
  const nlohmann::json body = {{"id", sandbox.id()},
                               {"owner", sandbox.owner()},
                               {"created_at_ns", absl::ToUnixNanos(sandbox.created_at())},
                               {"deadline_ns", sandbox.deadline()},
                               {"params", ToParams(sandbox.spec())}};
  return ReplaceFile(AT_FDCWD, absl::StrCat(sandbox.box().directory(), kStateName),
                     EncodeState(boot_id_, sandbox.box().id_base(), body), 0600);
}

absl::Status Sandboxes::Recover() {
  ASSIGN_OR_RETURN(boot_id_, ReadFile(AT_FDCWD, "/proc/sys/kernel/random/boot_id"));
  absl::StripTrailingAsciiWhitespace(&boot_id_);
  std::vector<std::string> ids;
  DIR* directory = opendir(host_.run_dir.c_str());
  if (directory == nullptr) return ErrnoError(absl::StrCat("listing ", host_.run_dir));
  while (const dirent* entry = readdir(directory)) {
    if (IsId(entry->d_name)) ids.emplace_back(entry->d_name);
  }
  closedir(directory);
  ASSIGN_OR_RETURN(const std::vector<std::string> groups, host_.cgroups.List());
  for (const std::string& group : groups) {
    if (std::find(ids.begin(), ids.end(), group) == ids.end()) ids.push_back(group);
  }
  for (const std::string& id : ids) AdoptOne(id);
  return absl::OkStatus();
}

void Sandboxes::AdoptOne(const std::string& id) {
  const std::string path = absl::StrCat(host_.run_dir, "/", id, kStateName);
  const auto text = ReadFile(AT_FDCWD, path, 16 << 20);
  const State state = text.ok() ? DecodeState(*text, boot_id_) : State();
  absl::Status status = absl::NotFoundError("it was not finished");
  switch (state.verdict) {
    case StateVerdict::kSound:
      status = Readopt(id, state);
      if (status.ok()) return;
      break;
    case StateVerdict::kOtherBoot:
      status = absl::NotFoundError("it is from before the kernel's start");
      break;
    case StateVerdict::kNewer:
      // A later daemon's, which may come back: its ids are not given to another.
      host_.ids.Adopt(state.id_base).IgnoreError();
      return Log(LogLevel::kWarning, "a sandbox of a newer version is left alone",
                 {{"sandbox_id", id}, {"file", path}});
    case StateVerdict::kDamaged:
      if (!text.ok()) break;
      status = absl::DataLossError(
          absl::StrCat("its state file is damaged; it is kept in ", Quarantine(id, *text)));
      break;
  }
  Log(LogLevel::kWarning, "removing what is left of a sandbox",
      {{"sandbox_id", id}, {"reason", std::string(status.message())}});
  // Until it has gone its ids are not another's.
  const bool known = state.verdict == StateVerdict::kSound;
  const bool reserved = known && host_.ids.Adopt(state.id_base).ok();
  Box::Destroy(host_, id,
               [this, id, known, reserved, base = state.id_base](absl::Status destroyed) {
                 if (!destroyed.ok()) {
                   Log(LogLevel::kError, "a sandbox's remains cannot be removed",
                       {{"sandbox_id", id}, {"error", std::string(destroyed.message())}});
                 } else if (reserved) {
                   host_.ids.Return(base);
                 }
                 if (known) events_.Add("lost", id, 0);
               });
}

// Keeps a damaged file for a person to look at; returns where. The newest kQuarantined are kept.
std::string Sandboxes::Quarantine(const std::string& id, const std::string& text) {
  const std::string directory = absl::StrCat(config_.run_dir, "/quarantine");
  std::string path = absl::StrCat(directory, "/", id);
  mkdir(directory.c_str(), 0700);
  std::vector<std::pair<int64_t, std::string>> kept;
  if (DIR* stream = opendir(directory.c_str())) {
    while (const dirent* entry = readdir(stream)) {
      struct stat status;
      if (!IsId(entry->d_name) || fstatat(dirfd(stream), entry->d_name, &status, 0) < 0) continue;
      kept.emplace_back(status.st_mtime, absl::StrCat(directory, "/", entry->d_name));
    }
    closedir(stream);
  }
  std::sort(kept.begin(), kept.end());
  for (size_t i = 0; i + kQuarantined <= kept.size(); ++i) unlink(kept[i].second.c_str());
  const absl::Status status = ReplaceFile(AT_FDCWD, path, text, 0600);
  return status.ok() ? path : std::string(status.message());
}

absl::Status Sandboxes::Readopt(const std::string& id, const State& state) {
  const auto number = [&body = state.body](const char* key) {
    const auto it = body.find(key);
    return it != body.end() && it->is_number_integer() ? it->get<int64_t>() : -1;
  };
  if (number("owner") < 0 || !state.body.contains("params")) {
    return absl::DataLossError("its state file is not of a form that this daemon knows");
  }
  // It was allowed when it was made: a limit lowered since is for new ones.
  Config limits = config_;
  limits.limits.timeout_max_ms = limits.limits.tmpfs_bytes = limits.limits.tmpfs_mounts = INT64_MAX;
  ASSIGN_OR_RETURN(CreateSpec spec, ParseCreate(state.body["params"], limits));
  const auto profile = config_.profiles.find(spec.profile);
  ASSIGN_OR_RETURN(std::unique_ptr<Box> box, Box::Connect(host_, id, state.id_base));
  auto sandbox = std::make_unique<Sandbox>(
      *this, events_, config_,
      profile != config_.profiles.end() ? profile->second : StrictProfile(), std::move(spec),
      static_cast<uid_t>(number("owner")), std::move(box),
      absl::FromUnixNanos(number("created_at_ns")));
  sandbox->set_deadline(std::max<int64_t>(0, number("deadline_ns")));
  Sandbox* raw = sandbox.get();
  Register(std::move(sandbox));
  raw->box().Adopt([this, raw](absl::Status status) {
    if (!status.ok()) return OnEnded(*raw, "lost", std::string(status.message()));
    events_.Add("adopted", raw->id(), raw->owner());
  });
  return absl::OkStatus();
}

}  // namespace sandboxd::server
