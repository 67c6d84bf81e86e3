// How sandboxes survive their daemon: a small state file each, and what a new daemon makes of those
// it finds. On a tmpfs, since it dies with the kernel, as the sandbox does.
#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/id.h"
#include "base/log.h"
#include "base/status.h"
#include "sandboxd/server/sandboxes.h"

namespace sandboxd::server {

absl::Status Sandboxes::SaveState(const Sandbox& sandbox) const {
  const nlohmann::json state = {{"schema", 1},
                                {"id", sandbox.id()},
                                {"owner", sandbox.owner()},
                                {"id_base", sandbox.box().id_base()},
                                {"created_at_ns", absl::ToUnixNanos(sandbox.created_at())},
                                {"deadline_ns", sandbox.deadline()},
                                {"params", ToParams(sandbox.spec())}};
  return ReplaceFile(AT_FDCWD, absl::StrCat(sandbox.box().directory(), "/state.json"), state.dump(),
                     0600);
}

absl::Status Sandboxes::Recover() {
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
  const auto text =
      ReadFile(AT_FDCWD, absl::StrCat(host_.run_dir, "/", id, "/state.json"), 16 << 20);
  const nlohmann::json state =
      text.ok() ? nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false)
                : nlohmann::json();
  const absl::Status status =
      state.is_object() ? Readopt(id, state) : absl::NotFoundError("it was not finished");
  if (status.ok()) return;
  Log(LogLevel::kWarning, "removing what is left of a sandbox",
      {{"sandbox_id", id}, {"reason", std::string(status.message())}});
  Box::Destroy(host_, id, [this, id, known = state.is_object()](absl::Status destroyed) {
    if (!destroyed.ok()) {
      Log(LogLevel::kError, "a sandbox's remains cannot be removed",
          {{"sandbox_id", id}, {"error", std::string(destroyed.message())}});
    }
    if (known) events_.Add("lost", id, 0);
  });
}

absl::Status Sandboxes::Readopt(const std::string& id, const nlohmann::json& state) {
  const auto number = [&state](const char* key) {
    const auto it = state.find(key);
    return it != state.end() && it->is_number_integer() ? it->get<int64_t>() : -1;
  };
  if (number("schema") != 1 || number("owner") < 0 || number("id_base") < 0 ||
      !state.contains("params")) {
    return absl::DataLossError("its state file is not of a form that this daemon knows");
  }
  // It was allowed when it was made: a limit lowered since is for new ones.
  Config limits = config_;
  limits.limits.timeout_max_ms = limits.limits.tmpfs_bytes = limits.limits.tmpfs_mounts = INT64_MAX;
  ASSIGN_OR_RETURN(CreateSpec spec, ParseCreate(state["params"], limits));
  const auto profile = config_.profiles.find(spec.profile);
  ASSIGN_OR_RETURN(std::unique_ptr<Box> box,
                   Box::Connect(host_, id, static_cast<uint32_t>(number("id_base"))));
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
