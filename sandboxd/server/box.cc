#include "sandboxd/server/box.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/id.h"
#include "base/socket.h"
#include "base/status.h"
#include "runtime/stage.h"

namespace sandboxd::server {
namespace {

constexpr int kListenBacklog = 8;
constexpr absl::Duration kDestroyLimit = absl::Seconds(10);
constexpr absl::Duration kDestroyRetry = absl::Milliseconds(5);

std::string SocketPath(const BoxHost& host, const std::string& id) {
  return absl::StrCat(host.run_dir, "/", id, "/shim.sock");
}

absl::Status Stuck(const std::string& id, absl::string_view why) {
  return ReasonError(absl::StatusCode::kAborted, "SANDBOX_STUCK", absl::StrCat("sandbox ", id),
                     absl::StrCat("sandbox ", id, " is STUCK: ", why,
                                  "; what holds it must end first, then kill it again"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Box>> Box::Prepare(BoxHost& host, const BoxProfile& profile) {
  ASSIGN_OR_RETURN(const uint32_t base, host.ids.Take());
  auto box = std::unique_ptr<Box>(new Box(host, RandomId(), base));
  RETURN_IF_ERROR(box->MakeTraces(profile.settings));
  ASSIGN_OR_RETURN(auto pair, UnixPair(SOCK_SEQPACKET));
  RETURN_IF_ERROR(box->Attach(std::move(pair.first)));
  const Launcher::ShimRequest request{.id = box->id_,
                                      .id_base = box->id_base_,
                                      .connection = pair.second.get(),
                                      .listener = box->listener_.get(),
                                      .cgroup = box->cgroup_.get(),
                                      .prepare_plan = profile.prepare_plan.get(),
                                      .init_filter = profile.init_filter.get(),
                                      .exec_filter = profile.exec_filter.get()};
  Box* raw = box.get();
  host.launcher.Spawn(request, [raw, alive = box->alive_](absl::StatusOr<Launcher::Shim> shim) {
    if (!*alive) return;
    if (shim.ok()) return raw->WatchShim(std::move(shim->pidfd));
    raw->FailStart(shim.status());
  });
  return box;
}

absl::Status Box::MakeTraces(const std::vector<CgroupSetting>& settings) {
  if (mkdir(directory().c_str(), 0700) < 0) {
    return ErrnoError(absl::StrCat("making the directory ", directory()));
  }
  ASSIGN_OR_RETURN(listener_,
                   ListenUnix(SocketPath(host_, id_), SOCK_SEQPACKET, 0600, kListenBacklog));
  ASSIGN_OR_RETURN(cgroup_, host_.cgroups.Make(id_, settings));
  return absl::OkStatus();
}

absl::Status Box::Attach(UniqueFd socket) {
  ASSIGN_OR_RETURN(link_, ShimLink::Create(
                              host_.loop, std::move(socket),
                              [this](ShimEvent event) { OnMessage(std::move(event)); },
                              [this] { OnLinkClosed(); }));
  return absl::OkStatus();
}

void Box::WatchShim(UniqueFd pidfd) {
  pidfd_ = std::move(pidfd);
  // What was only for the shim is of no more use here.
  listener_.Reset();
  cgroup_.Reset();
  const absl::Status status =
      host_.loop.Add(pidfd_.get(), EPOLLIN, [this](uint32_t) { OnShimExit(); });
  if (!status.ok()) pidfd_.Reset();
}

absl::StatusOr<std::unique_ptr<Box>> Box::Connect(BoxHost& host, const std::string& id,
                                                  uint32_t id_base) {
  ASSIGN_OR_RETURN(UniqueFd socket, ConnectUnix(SocketPath(host, id), SOCK_SEQPACKET));
  RETURN_IF_ERROR(host.ids.Adopt(id_base));
  auto box = std::unique_ptr<Box>(new Box(host, id, id_base));
  RETURN_IF_ERROR(box->Attach(std::move(socket)));
  return box;
}

void Box::Adopt(AdoptedCallback callback) {
  on_adopted_ = std::move(callback);
  const absl::Status status = link_->Send(MessageType::kHello, HelloMessage{});
  if (status.ok()) return;
  host_.loop.Defer([this, status] { std::exchange(on_adopted_, nullptr)(status); });
}

void Box::Discard(std::unique_ptr<Box> box) {
  EventLoop& loop = box->host_.loop;
  loop.Defer([&loop, box = std::move(box)]() mutable {
    Box* raw = box.get();
    raw->Kill([&loop, box = std::move(box)](absl::Status) mutable {
      loop.Defer([box = std::move(box)] {});
    });
  });
}

Box::~Box() {
  *alive_ = false;
  if (pidfd_.valid()) host_.loop.Remove(pidfd_.get());
  if (removed_) return;
  link_.reset();
  // The shim ends its sandbox when its daemon goes before the launch; the rest is removed here.
  RemoveTraces().IgnoreError();
  host_.ids.Return(id_base_);
}

void Box::Launch(const std::vector<UniqueFd>& fds, LaunchedCallback callback) {
  std::vector<int> raw;
  raw.reserve(fds.size());
  for (const UniqueFd& fd : fds) raw.push_back(fd.get());
  on_launched_ = std::move(callback);
  const absl::Status status = link_->Send(MessageType::kLaunch, LaunchMessage{}, raw);
  if (status.ok()) return;
  host_.loop.Defer([this, status, alive = alive_] {
    if (*alive) FailStart(status);
  });
}

absl::Status Box::Exec(const ExecMessage& message, absl::Span<const int> fds) {
  return link_->Send(MessageType::kExec, message, fds);
}

absl::Status Box::Signal(uint64_t exec, int signal, bool all) {
  return link_->Send(MessageType::kSignal,
                     SignalMessage{.exec = exec, .signal = signal, .all = all ? 1u : 0u});
}

absl::Status Box::Release(uint64_t exec) {
  return link_->Send(MessageType::kExecRelease, ExecReleaseMessage{.exec = exec});
}

void Box::Kill(KilledCallback callback) {
  on_killed_.push_back(std::move(callback));
  if (on_killed_.size() > 1) return;
  ++host_.ending;
  if (link_ != nullptr && link_->Send(MessageType::kKill, KillMessage{}).ok()) return;
  FinishKill();
}

void Box::OnMessage(ShimEvent event) {
  switch (event.type) {
    case MessageType::kPrepared:
      return OnPrepared(event.As<PreparedMessage>());
    case MessageType::kLaunched: {
      const LaunchedMessage& message = event.As<LaunchedMessage>();
      AddStages(message.times, message.time_count);
      if (auto callback = std::exchange(on_launched_, nullptr)) {
        const StageFailure failure = message.failure;
        callback(failure.stage == Stage::kNone
                     ? absl::OkStatus()
                     : LaunchError(failure, absl::StrCat("sandbox ", id_)),
                 failure);
      }
      return;
    }
    case MessageType::kExecStarted:
      if (delegate_ != nullptr) {
        delegate_->OnExecStarted(event.As<ExecStartedMessage>(), std::move(event.fds));
      }
      return;
    case MessageType::kExecExited:
      if (delegate_ != nullptr) delegate_->OnExecExited(event.As<ExecExitedMessage>());
      return;
    case MessageType::kKilled:
      return OnKilled(event.As<KilledMessage>());
    case MessageType::kHelloReply: {
      const HelloReplyMessage& message = event.As<HelloReplyMessage>();
      init_pid_ = message.init_pid;
      if (event.fds.size() == 1) WatchShim(std::move(event.fds[0]));
      statuses_expected_ = message.exec_count;
      if (statuses_expected_ == 0 && on_adopted_) {
        std::exchange(on_adopted_, nullptr)(absl::OkStatus());
      }
      return;
    }
    case MessageType::kExecStatus:
      if (delegate_ != nullptr) delegate_->OnExecStatus(event.As<ExecStatusMessage>());
      if (statuses_expected_ > 0 && --statuses_expected_ == 0 && on_adopted_) {
        std::exchange(on_adopted_, nullptr)(absl::OkStatus());
      }
      return;
    case MessageType::kInitExited:
      if (delegate_ != nullptr) delegate_->OnInitExited(event.As<InitExitedMessage>());
      return;
    case MessageType::kSpawn:
    case MessageType::kSpawned:
    case MessageType::kLaunch:
    case MessageType::kExec:
    case MessageType::kExecRelease:
    case MessageType::kSignal:
    case MessageType::kKill:
    case MessageType::kHello:
      return;  // Never from a shim.
  }
}

void Box::OnPrepared(const PreparedMessage& message) {
  AddStages(message.times, message.time_count);
  init_pid_ = message.init_pid;
  if (message.failure.stage != Stage::kNone) {
    return FailStart(LaunchError(message.failure, absl::StrCat("sandbox ", id_)), message.failure);
  }
  if (on_prepared_) std::exchange(on_prepared_, nullptr)(absl::OkStatus());
}

void Box::FailStart(const absl::Status& status, const StageFailure& failure) {
  lost_ = true;
  if (on_prepared_) std::exchange(on_prepared_, nullptr)(status);
  if (on_launched_) std::exchange(on_launched_, nullptr)(status, failure);
}

void Box::AddStages(const StageTime* times, uint32_t count) {
  for (uint32_t i = 0; i < count && i < kMaxStageTimes; ++i) {
    stages_.emplace_back(StageName(times[i].stage), times[i].micros);
  }
}

void Box::OnKilled(const KilledMessage& message) {
  if (message.failure.stage == Stage::kNone) {
    killed_ = true;
    // Its groups follow when the shim has left them.
    RemoveTree(AT_FDCWD, directory()).IgnoreError();
    return;
  }
  const absl::Status status = Stuck(id_, absl::StrCat("stage ", StageName(message.failure.stage),
                                                      ": ", strerror(message.failure.error)));
  TellKillers(status);
}

void Box::TellKillers(const absl::Status& status) {
  if (on_killed_.empty()) return;
  --host_.ending;
  for (KilledCallback& callback : std::exchange(on_killed_, {})) callback(status);
}

void Box::OnLinkClosed() {
  if (pidfd_.valid()) return;  // OnShimExit() follows.
  OnShimExit();
}

void Box::OnShimExit() {
  if (pidfd_.valid()) {
    host_.loop.Remove(pidfd_.get());
    pidfd_.Reset();
  }
  if (on_prepared_ || on_launched_) {
    return FailStart(
        absl::InternalError(absl::StrCat("the shim of sandbox ", id_, " ended early")));
  }
  if (!on_killed_.empty()) return FinishKill();
  if (auto callback = std::exchange(on_adopted_, nullptr)) {
    return callback(absl::UnavailableError("the shim ended"));
  }
  lost_ = !killed_;
  if (lost_ && delegate_ != nullptr) delegate_->OnLost();
}

// The shim has gone, or cannot be reached: whatever is left ends here.
void Box::FinishKill() {
  // A kill that found the shim unreachable is under way when the shim's exit is seen.
  if (std::exchange(finishing_, true)) return;
  link_.reset();
  if (killed_) {
    const absl::Status status = RemoveTraces();
    if (status.ok()) {
      removed_ = true;
      host_.ids.Return(id_base_);
      return TellKillers(absl::OkStatus());
    }
  }
  Destroy(host_, id_, [this](absl::Status status) {
    finishing_ = false;
    if (status.ok()) {
      removed_ = true;
      host_.ids.Return(id_base_);
    }
    TellKillers(status);
  });
}

absl::Status Box::RemoveTraces() {
  RETURN_IF_ERROR(host_.cgroups.Remove(id_));
  return RemoveTree(AT_FDCWD, directory());
}

void Box::Destroy(BoxHost& host, const std::string& id, KilledCallback callback) {
  host.cgroups.Kill(id).IgnoreError();  // No such group: nothing to end.
  // Tries until the processes have gone; the limit is on time.
  struct Attempt {
    BoxHost& host;
    std::string id;
    KilledCallback callback;
    absl::Duration left = kDestroyLimit;
    static void Run(std::shared_ptr<Attempt> attempt) {
      absl::Status status = attempt->host.cgroups.Remove(attempt->id);
      if (status.ok()) {
        status = RemoveTree(AT_FDCWD, absl::StrCat(attempt->host.run_dir, "/", attempt->id));
        return attempt->callback(status);
      }
      if (attempt->left <= absl::ZeroDuration()) {
        return attempt->callback(Stuck(attempt->id, status.message()));
      }
      attempt->left -= kDestroyRetry;
      attempt->host.loop.After(kDestroyRetry, [attempt] { Run(attempt); });
    }
  };
  auto attempt = std::make_shared<Attempt>(Attempt{host, id, std::move(callback)});
  host.loop.Defer([attempt] { Attempt::Run(attempt); });
}

}  // namespace sandboxd::server
