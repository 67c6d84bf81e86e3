#include "sandboxd/server/sandboxes.h"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "base/log.h"
#include "base/memfd.h"
#include "base/status.h"
#include "rootfs/host_image.h"
#include "runtime/plan_writer.h"
#include "sandboxd/server/sandbox_json.h"

namespace sandboxd::server {
namespace {

constexpr size_t kMinPrefix = 4;

std::string Object(absl::string_view id) { return absl::StrCat("sandbox ", id); }

absl::Status NotFound(absl::string_view reference) {
  return ReasonError(absl::StatusCode::kNotFound, "SANDBOX_NOT_FOUND", Object(reference),
                     absl::StrCat("no sandbox ", reference, "; `sandboxctl list` shows yours"));
}

bool MaySee(uid_t uid, uid_t owner) { return uid == 0 || uid == owner; }

absl::StatusOr<UniqueFd> BytesFile(const char* name, const std::string& bytes) {
  return SealedMemfd(name, absl::MakeConstSpan(bytes.data(), bytes.size()));
}

bool IsBeneath(absl::string_view path, absl::string_view directory) {
  return path == directory || absl::StartsWith(path, absl::StrCat(directory, "/"));
}

}  // namespace

Sandboxes::~Sandboxes() { *alive_ = false; }

absl::Status Sandboxes::Start() {
  for (const auto& [name, profile] : config_.profiles) RETURN_IF_ERROR(CompileProfile(profile));
  if (config_.host_image) {
    ASSIGN_OR_RETURN(host_image_, MakeHostImage(absl::StrCat(config_.state_dir, "/images")));
  }
  RETURN_IF_ERROR(Recover());
  for (const std::string& name : config_.pool_profiles) pool_.Add(name, profiles_.at(name).box);
  pool_.Fill();
  return absl::OkStatus();
}

absl::Status Sandboxes::CompileProfile(const Profile& profile) {
  CompiledProfile compiled;
  BoxProfile& box = compiled.box;
  ASSIGN_OR_RETURN(box.prepare_plan, PlanFile("prepare-plan", BuildPreparePlan(profile, layers_)));
  ASSIGN_OR_RETURN(const std::string init_filter, InitFilterBytes(layers_));
  ASSIGN_OR_RETURN(box.init_filter, BytesFile("init-filter", init_filter));
  ASSIGN_OR_RETURN(const std::string exec_filter, ExecFilter(profile, layers_));
  ASSIGN_OR_RETURN(box.exec_filter, BytesFile("exec-filter", exec_filter));
  box.settings = {{"pids.max", absl::StrCat(profile.pids_max)},
                  {"memory.max", absl::StrCat(profile.memory_max)},
                  {"memory.swap.max", "0"}};
  compiled.exec_rlimits = ExecRlimits(profile, layers_);
  profiles_[profile.name] = std::move(compiled);
  return absl::OkStatus();
}

void Sandboxes::Confine(const Sandbox& sandbox, ExecSpec& spec) const {
  spec.capabilities = RootCapabilities(sandbox.profile(), layers_);
  spec.rlimits = profiles_.at(sandbox.profile().name).exec_rlimits;
}

std::vector<std::string> Sandboxes::images() const {
  std::vector<std::string> names;
  if (host_image_ != nullptr && config_.host_image) names.emplace_back("host");
  names.insert(names.end(), config_.image_directories.begin(), config_.image_directories.end());
  return names;
}

absl::StatusOr<std::shared_ptr<const Image>> Sandboxes::FindImage(const std::string& reference) {
  const std::string object = absl::StrCat("image ", reference);
  if (reference == "host") {
    if (host_image_ != nullptr && config_.host_image) return host_image_;
    return ReasonError(absl::StatusCode::kPermissionDenied, "IMAGE_NOT_ALLOWED", object,
                       "the operator has switched the image host off (images.host)");
  }
  if (!absl::StartsWith(reference, "/")) {
    return ReasonError(absl::StatusCode::kNotFound, "IMAGE_NOT_FOUND", object,
                       absl::StrCat("no image ", reference,
                                    "; there is `host`, and directories that the operator allows"));
  }
  // Judged by name first: whether other paths of the host exist is nobody's business.
  for (const std::string& directory : config_.image_directories) {
    if (IsBeneath(reference, directory)) return OpenDirectoryImage(directory, reference);
  }
  return ReasonError(absl::StatusCode::kPermissionDenied, "IMAGE_NOT_ALLOWED", object,
                     absl::StrCat(reference, " is not beneath a directory of images.directories"));
}

absl::Status Sandboxes::CheckCreate(uid_t owner, const CreateSpec& spec) {
  if (draining_) {
    return ReasonError(absl::StatusCode::kUnavailable, "SHUTTING_DOWN", "daemon",
                       "the daemon is shutting down");
  }
  if (!config_.profiles.contains(spec.profile) || !profiles_.contains(spec.profile)) {
    return ReasonError(absl::StatusCode::kNotFound, "PROFILE_NOT_FOUND",
                       absl::StrCat("profile ", spec.profile),
                       absl::StrCat("no profile ", spec.profile));
  }
  const auto over = [](const char* name, size_t value) {
    return ReasonError(absl::StatusCode::kResourceExhausted, "OVER_CEILING", name,
                       absl::StrCat("at most ", value, " are allowed (", name, ")"));
  };
  if (sandboxes_.size() + creating_ >= static_cast<size_t>(config_.limits.sandboxes)) {
    return over("limits.sandboxes", static_cast<size_t>(config_.limits.sandboxes));
  }
  if (creating_ >= static_cast<size_t>(config_.limits.creates_at_once)) {
    return over("limits.creates_at_once", static_cast<size_t>(config_.limits.creates_at_once));
  }
  if (spec.name.empty()) return absl::OkStatus();
  bool taken = names_pending_.contains({owner, spec.name});
  for (const auto& [id, sandbox] : sandboxes_) {
    taken = taken || (sandbox->owner() == owner && sandbox->spec().name == spec.name);
  }
  if (!taken) return absl::OkStatus();
  return ReasonError(absl::StatusCode::kAlreadyExists, "NAME_IN_USE",
                     absl::StrCat("name ", spec.name),
                     absl::StrCat("you have a sandbox named ", spec.name, " already"));
}

void Sandboxes::Create(uid_t owner, CreateSpec spec, CreateCallback callback) {
  if (!spec.idempotency_key.empty()) {
    if (const auto it = keys_pending_.find({owner, spec.idempotency_key});
        it != keys_pending_.end()) {
      it->second.emplace_back(std::move(spec), std::move(callback));
      return;
    }
    for (const auto& [id, sandbox] : sandboxes_) {
      if (sandbox->owner() != owner || sandbox->spec().idempotency_key != spec.idempotency_key) {
        continue;
      }
      if (sandbox->spec() == spec) return callback(Created{sandbox.get(), false});
      return callback(ReasonError(absl::StatusCode::kAlreadyExists, "IDEMPOTENCY_KEY_REUSED",
                                  "params.idempotency_key",
                                  "the idempotency key was used with other parameters"));
    }
  }
  if (absl::Status status = CheckCreate(owner, spec); !status.ok()) return callback(status);
  auto image = FindImage(spec.image);
  if (!image.ok()) return callback(image.status());
  ++creating_;
  if (!spec.name.empty()) names_pending_[{owner, spec.name}] = true;
  if (!spec.idempotency_key.empty()) keys_pending_.try_emplace({owner, spec.idempotency_key});
  std::unique_ptr<Box> box = pool_.Take(spec.profile);
  if (box == nullptr) {
    auto prepared = Box::Prepare(host_, profiles_.at(spec.profile).box);
    if (!prepared.ok()) {
      return Finish(owner, spec, nullptr, prepared.status(), std::move(callback));
    }
    box = *std::move(prepared);
  }
  LaunchBox(owner, std::move(spec), *image, std::move(box), std::move(callback));
}

void Sandboxes::LaunchBox(uid_t owner, CreateSpec spec, std::shared_ptr<const Image> image,
                          std::unique_ptr<Box> box, CreateCallback callback) {
  RootSpec root;
  root.hostname = !spec.hostname.empty() ? spec.hostname
                  : !spec.name.empty()   ? spec.name
                                         : box->id().substr(0, 12);
  root.read_only = spec.read_only_root;
  root.layers = static_cast<uint32_t>(image->layers.size());
  root.tmpfs = spec.tmpfs;
  for (const ImageBind& bind : image->binds) root.bind_targets.push_back(bind.target);

  std::vector<UniqueFd> fds;
  auto prepare = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(UniqueFd plan, PlanFile("launch-plan", BuildLaunchPlan(root, layers_)));
    fds.push_back(std::move(plan));
    for (const UniqueFd& layer : image->layers) {
      ASSIGN_OR_RETURN(UniqueFd tree, CloneTree(layer.get()));
      fds.push_back(std::move(tree));
    }
    for (const ImageBind& bind : image->binds) {
      ASSIGN_OR_RETURN(UniqueFd tree, CloneReadOnly(bind.source.get()));
      fds.push_back(std::move(tree));
    }
    return absl::OkStatus();
  };
  if (absl::Status status = prepare(); !status.ok()) {
    return Finish(owner, spec, std::move(box), status, std::move(callback));
  }
  Box* raw = box.get();
  raw->Launch(fds,
              [this, owner, spec = std::move(spec), box = std::move(box),
               callback = std::move(callback)](absl::Status status, const StageFailure&) mutable {
                Finish(owner, spec, std::move(box), status, std::move(callback));
              });
}

void Sandboxes::Finish(uid_t owner, const CreateSpec& spec, std::unique_ptr<Box> box,
                       const absl::Status& launched, CreateCallback callback) {
  --creating_;
  if (!spec.name.empty()) names_pending_.erase({owner, spec.name});
  auto waiting = keys_pending_.extract({owner, spec.idempotency_key});
  absl::Status status = launched;
  std::unique_ptr<Sandbox> sandbox;
  if (status.ok()) {
    StageTimes stages = box->stages();
    sandbox = std::make_unique<Sandbox>(*this, events_, config_, config_.profiles.at(spec.profile),
                                        spec, owner, std::move(box), absl::Now());
    sandbox->set_stages(std::move(stages));
    if (spec.timeout_ms != 0) {
      sandbox->set_deadline(EventLoop::BootTimeNanos() + spec.timeout_ms * 1'000'000);
    }
    status = SaveState(*sandbox);
    if (!status.ok()) {
      Sandbox* raw = sandbox.get();
      raw->Kill("killed", [sandbox = std::move(sandbox)](absl::Status) {});
    }
  } else if (box != nullptr) {
    Box::Discard(std::move(box));
  }
  pool_.Fill();
  if (status.ok()) {
    Sandbox* raw = sandbox.get();
    Register(std::move(sandbox));
    events_.Add("created", raw->id(), owner);
    callback(Created{raw, true});
  } else {
    callback(status);
  }
  if (waiting.empty()) return;
  for (auto& [same, again] : waiting.mapped()) Create(owner, std::move(same), std::move(again));
}

void Sandboxes::Register(std::unique_ptr<Sandbox> sandbox) {
  ArmDeadline(*sandbox);
  sandboxes_[sandbox->id()] = std::move(sandbox);
}

void Sandboxes::ArmDeadline(Sandbox& sandbox) {
  if (sandbox.deadline() == 0) return;
  const std::string& id = sandbox.id();
  deadlines_[id] = host_.loop.After(
      absl::Nanoseconds(sandbox.deadline() - EventLoop::BootTimeNanos()), [this, id] {
        deadlines_.erase(id);
        const auto it = sandboxes_.find(id);
        if (it != sandboxes_.end()) Kill(*it->second, "expired", [](absl::Status) {});
      });
}

// The order is the argument: another user's name must not take what was meant for an id of one's
// own.
absl::StatusOr<Sandbox*> Sandboxes::Find(uid_t uid, absl::string_view reference) {
  const auto exact = sandboxes_.find(std::string(reference));
  if (exact != sandboxes_.end() && MaySee(uid, exact->second->owner())) {
    return exact->second.get();
  }
  Sandbox* others = nullptr;
  for (const auto& [id, sandbox] : sandboxes_) {
    if (sandbox->spec().name.empty() || sandbox->spec().name != reference) continue;
    if (sandbox->owner() == uid) return sandbox.get();
    if (MaySee(uid, sandbox->owner())) others = sandbox.get();
  }
  Sandbox* found = nullptr;
  for (auto it = sandboxes_.lower_bound(std::string(reference));
       reference.size() >= kMinPrefix && it != sandboxes_.end() &&
       absl::StartsWith(it->first, reference);
       ++it) {
    if (!MaySee(uid, it->second->owner())) continue;
    if (found != nullptr) {
      return ReasonError(absl::StatusCode::kInvalidArgument, "INVALID_FIELD", "params.sandbox",
                         absl::StrCat("several sandboxes begin with ", reference));
    }
    found = it->second.get();
  }
  if (found == nullptr) found = others;
  if (found == nullptr) return NotFound(reference);
  return found;
}

const Sandboxes::Ended* Sandboxes::FindEnded(uid_t uid, absl::string_view id) const {
  for (auto it = ended_.rbegin(); it != ended_.rend(); ++it) {
    if (it->id == id && MaySee(uid, it->owner)) return &*it;
  }
  return nullptr;
}

std::vector<const Sandbox*> Sandboxes::Visible(uid_t uid) const {
  std::vector<const Sandbox*> visible;
  for (const auto& [id, sandbox] : sandboxes_) {
    if (MaySee(uid, sandbox->owner())) visible.push_back(sandbox.get());
  }
  std::sort(visible.begin(), visible.end(), [](const Sandbox* a, const Sandbox* b) {
    return std::make_pair(a->created_at(), a->id()) < std::make_pair(b->created_at(), b->id());
  });
  return visible;
}

void Sandboxes::Kill(Sandbox& sandbox, absl::string_view reason, Box::KilledCallback callback) {
  const std::string id = sandbox.id();
  sandbox.Kill(reason, [this, id, alive = alive_,
                        callback = std::move(callback)](absl::Status status) mutable {
    if (*alive && status.ok()) {
      const auto it = sandboxes_.find(id);
      if (it != sandboxes_.end()) {
        const std::string why = it->second->end_reason();
        const std::string message = it->second->end_message();
        Remove(id, why, message);
      }
    } else if (*alive) {
      events_.Add("stuck", id, 0, {{"message", std::string(status.message())}});
      Log(LogLevel::kError, "sandbox stuck",
          {{"sandbox_id", id}, {"error", std::string(status.message())}});
    }
    callback(status);
  });
}

void Sandboxes::OnEnded(Sandbox& sandbox, absl::string_view reason, const std::string& message) {
  Log(LogLevel::kWarning, "sandbox ended by itself",
      {{"sandbox_id", sandbox.id()}, {"reason", std::string(reason)}, {"detail", message}});
  Kill(sandbox, reason, [](absl::Status) {});
}

void Sandboxes::Remove(const std::string& id, absl::string_view reason,
                       const std::string& message) {
  const auto it = sandboxes_.find(id);
  if (it == sandboxes_.end()) return;
  if (const auto timer = deadlines_.find(id); timer != deadlines_.end()) {
    host_.loop.CancelTimer(timer->second);
    deadlines_.erase(timer);
  }
  Ended ended{id,
              it->second->owner(),
              it->second->created_at(),
              {absl::Now(), std::string(reason), message},
              SandboxRow(*it->second)};
  ended.row["state"] = "ended";
  events_.Add(reason == "expired" ? "expired"
              : reason == "lost"  ? "lost"
                                  : "killed",
              id, ended.owner, {{"reason", std::string(reason)}});
  ended_.push_back(std::move(ended));
  while (ended_.size() > static_cast<size_t>(config_.limits.ended_kept)) ended_.pop_front();
  // The caller may be one of its own callbacks.
  host_.loop.Defer([sandbox = std::move(it->second)] {});
  sandboxes_.erase(it);
  std::vector<EndWaiter> due;
  for (auto waiter = waiters_.begin(); waiter != waiters_.end();) {
    if (waiter->second.first == id) {
      due.push_back(std::move(waiter->second.second));
      waiter = waiters_.erase(waiter);
    } else {
      ++waiter;
    }
  }
  for (EndWaiter& waiter : due) waiter(ended_.back());
}

uint64_t Sandboxes::WaitEnd(const std::string& id, EndWaiter waiter) {
  waiters_[next_wait_] = {id, std::move(waiter)};
  return next_wait_++;
}

void Sandboxes::AbandonWait(uint64_t wait) { waiters_.erase(wait); }

void Sandboxes::Drain(absl::AnyInvocable<void()> on_pool_gone) {
  draining_ = true;
  pool_.Drain(std::move(on_pool_gone));
}

nlohmann::json Sandboxes::Describe(const Sandbox& sandbox) const {
  return SandboxDetails(sandbox, host_.cgroups);
}

}  // namespace sandboxd::server
