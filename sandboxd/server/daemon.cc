#include "sandboxd/server/daemon.h"

#include <fcntl.h>
#include <grp.h>
#include <malloc.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/id.h"
#include "base/log.h"
#include "base/status.h"
#include "policy/device_bpf.h"

namespace sandboxd::server {
namespace {

constexpr int kBacklog = 256;
constexpr absl::Duration kDrainLimit = absl::Seconds(5);
constexpr absl::Duration kEndingPoll = absl::Milliseconds(5);

// One that somebody else made, as anybody can in /tmp, is refused: its owner could change all in
// it.
absl::Status MakeOwnDirectory(const std::string& path) {
  RETURN_IF_ERROR(MakeDirectories(path, 0755));
  struct stat status;
  if (stat(path.c_str(), &status) < 0) return ErrnoError(absl::StrCat("looking at ", path));
  if (status.st_uid == 0 && (status.st_mode & 022) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the directory ", path, " must belong to root, and nobody else may write to it"));
}

absl::Status MakePrivateDirectory(const std::string& path, mode_t mode) {
  RETURN_IF_ERROR(MakeOwnDirectory(path));
  if (chmod(path.c_str(), mode) < 0) return ErrnoError(absl::StrCat("setting the mode of ", path));
  return absl::OkStatus();
}

gid_t SocketGroup(const std::string& name) {
  if (name.empty()) return 0;
  const group* entry = getgrnam(name.c_str());
  if (entry != nullptr) return entry->gr_gid;
  Log(LogLevel::kWarning, "the socket's group does not exist: only root may use the socket",
      {{"group", name}});
  return 0;
}

// A directory through which whoever may use the socket may pass. One that exists is the operator's.
absl::Status MakeSocketDirectory(const std::string& path, gid_t group) {
  if (access(path.c_str(), F_OK) == 0) return absl::OkStatus();
  RETURN_IF_ERROR(MakePrivateDirectory(path, 0750));
  if (chown(path.c_str(), 0, group) < 0) return ErrnoError(absl::StrCat("giving away ", path));
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> Listen(const Config& config, gid_t group) {
  const std::string directory = config.socket.substr(0, config.socket.rfind('/'));
  RETURN_IF_ERROR(MakeSocketDirectory(directory, group));
  unlink(config.socket.c_str());  // A leftover: the lock says that no other daemon lives.
  ASSIGN_OR_RETURN(UniqueFd listener, ListenUnix(config.socket, SOCK_STREAM, 0600, kBacklog));
  if (chown(config.socket.c_str(), 0, group) < 0 || chmod(config.socket.c_str(), 0660) < 0) {
    return ErrnoError(absl::StrCat("giving away ", config.socket));
  }
  return listener;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(Config config, std::string config_path,
                                                      LayerSet layers) {
  ASSIGN_OR_RETURN(std::unique_ptr<EventLoop> loop, EventLoop::Create());
  auto daemon = std::unique_ptr<Daemon>(
      new Daemon(std::move(config), std::move(config_path), std::move(loop)));
  RETURN_IF_ERROR(daemon->SetUp(layers));
  return daemon;
}

absl::Status Daemon::SetUp(LayerSet layers) {
  LogLevel level = LogLevel::kInfo;
  ParseLogLevel(config_.log_level, level);
  SetLogLevel(level);
  instance_ = RandomId();
  started_at_ = absl::Now();
  const std::string boxes = absl::StrCat(config_.run_dir, "/boxes");
  const std::string scratch = absl::StrCat(config_.run_dir, "/scratch");
  const gid_t group = SocketGroup(config_.socket_group);
  RETURN_IF_ERROR(MakeSocketDirectory(config_.run_dir, group));  // The socket may be in it.
  RETURN_IF_ERROR(MakeOwnDirectory(config_.run_dir));
  RETURN_IF_ERROR(MakePrivateDirectory(boxes, 0700));
  RETURN_IF_ERROR(MakePrivateDirectory(scratch, 0700));
  RETURN_IF_ERROR(MakePrivateDirectory(config_.state_dir, 0700));
  ASSIGN_OR_RETURN(lock_, OpenDirectory(AT_FDCWD, boxes));
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("another sandboxd uses the run directory ", config_.run_dir,
                     "; give this one a configuration of its own"));
  }
  RETURN_IF_ERROR(WatchSignals());
  ASSIGN_OR_RETURN(CgroupTree tree, CgroupTree::Open(config_.cgroup, config_.allow_hybrid_cgroups));
  cgroups_ = std::make_unique<CgroupTree>(std::move(tree));
  if (layers.has(Layer::kDeviceFilter)) {
    RETURN_IF_ERROR(cgroups_->AttachDeviceFilter(DeviceProgram()));
  }
  ASSIGN_OR_RETURN(IdRanges ids, IdRanges::Create(static_cast<uint32_t>(config_.id_base),
                                                  static_cast<uint32_t>(config_.id_ranges)));
  ids_ = std::make_unique<IdRanges>(std::move(ids));
  ASSIGN_OR_RETURN(launcher_, Launcher::Create(*loop_, scratch));
  ASSIGN_OR_RETURN(prober_, Prober::Create());
  host_ = std::make_unique<BoxHost>(BoxHost{*loop_, *launcher_, *cgroups_, *ids_, boxes});
  sandboxes_ = std::make_unique<Sandboxes>(*host_, events_, config_, layers);
  RETURN_IF_ERROR(sandboxes_->Start());
  reserve_.Reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSIGN_OR_RETURN(listener_, Listen(config_, group));
  RETURN_IF_ERROR(loop_->Add(listener_.get(), EPOLLIN, [this](uint32_t) { OnAccept(); }));
  malloc_trim(0);  // Building the filters took megabytes that are never needed again.
  Log(LogLevel::kInfo, "ready", {{"socket", config_.socket}, {"cgroup", cgroups_->path()}});
  return absl::OkStatus();
}

Daemon::~Daemon() {
  connections_.clear();
  sandboxes_.reset();
  host_.reset();
  launcher_.reset();
  if (cgroups_ != nullptr) cgroups_->RemoveRoot();
}

absl::Status Daemon::WatchSignals() {
  signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
  if (sigprocmask(SIG_BLOCK, &set, nullptr) < 0) return ErrnoError("blocking signals");
  signals_.Reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.valid()) return ErrnoError("making a signal descriptor");
  return loop_->Add(signals_.get(), EPOLLIN, [this](uint32_t) {
    signalfd_siginfo info;
    while (read(signals_.get(), &info, sizeof info) == sizeof info) {
      OnSignal(static_cast<int>(info.ssi_signo));
    }
  });
}

void Daemon::OnSignal(int number) {
  if (number == SIGHUP) return ReloadConfig();
  if (draining_) return loop_->Stop();
  draining_ = true;
  Log(LogLevel::kInfo, "draining; sandboxes go on", {{"signal", absl::StrCat(number)}});
  sandboxes_->Drain([this] {
    pool_gone_ = true;
    StopIfDrained();
  });
  loop_->Remove(listener_.get());
  listener_.Reset();
  unlink(config_.socket.c_str());
  for (const auto& [raw, connection] : connections_) {
    connection->SendEvent(0, {{"event", "drain"}});
  }
  loop_->After(kDrainLimit, [this] { loop_->Stop(); });
}

void Daemon::ReloadConfig() {
  if (config_path_.empty()) return Log(LogLevel::kWarning, "there is no configuration file");
  const auto fresh = LoadConfig(config_path_);
  if (!fresh.ok()) {
    return Log(LogLevel::kError, "the configuration is left as it was",
               {{"error", std::string(fresh.status().message())}});
  }
  const std::vector<std::string> later = Reload(config_, *fresh);
  LogLevel level = LogLevel::kInfo;
  if (ParseLogLevel(config_.log_level, level)) SetLogLevel(level);
  Log(LogLevel::kInfo, "configuration reloaded");
  for (const std::string& key : later) {
    Log(LogLevel::kWarning, "a changed key takes effect only after a restart", {{"key", key}});
  }
}

void Daemon::Run() { loop_->Run(); }

void Daemon::OnAccept() {
  UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid() && (errno == EMFILE || errno == ENFILE)) {
    // One descriptor was kept back, so that the client is told no rather than left waiting.
    reserve_.Reset();
    socket.Reset(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    socket.Reset();
    reserve_.Reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
    return;
  }
  if (!socket.valid()) return;
  auto peer = GetPeerCredentials(socket.get());
  if (!peer.ok()) return;
  int64_t own = 0;
  for (const auto& [raw, connection] : connections_) own += connection->peer().uid == peer->uid;
  const Limits& limits = config_.limits;
  if (static_cast<int64_t>(connections_.size()) >= limits.connections ||
      own >= limits.connections_per_uid) {
    const std::string frame =
        wire::EncodeFrame(wire::FrameType::kError, 0, 0,
                          "{\"code\":\"RESOURCE_EXHAUSTED\",\"reason\":\"TOO_MANY_CONNECTIONS\","
                          "\"message\":\"too many connections\"}");
    (void)!send(socket.get(), frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    return;
  }
  auto connection = Connection::Create(*loop_, std::move(socket), *std::move(peer), config_, *this);
  if (!connection.ok()) return;
  Connection* raw = connection->get();
  connections_[raw] = *std::move(connection);
}

void Daemon::OnClosed(Connection& connection, const absl::Status& why) {
  if (!why.ok()) {
    Log(LogLevel::kInfo, "client closed",
        {{"uid", absl::StrCat(connection.peer().uid)}, {"why", std::string(why.message())}});
  }
  connections_.erase(&connection);
  StopIfDrained();
}

void Daemon::StopIfDrained() {
  if (!draining_ || !pool_gone_ || !connections_.empty()) return;
  if (host_->ending == 0) return loop_->Stop();
  loop_->After(kEndingPoll, [this] { StopIfDrained(); });
}

}  // namespace sandboxd::server
