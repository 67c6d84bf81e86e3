#ifndef SANDBOXD_SERVER_DAEMON_H_
#define SANDBOXD_SERVER_DAEMON_H_

#include <map>
#include <memory>
#include <string>

#include "base/event_loop.h"
#include "runtime/cgroup.h"
#include "runtime/id_ranges.h"
#include "runtime/launcher.h"
#include "runtime/prober.h"
#include "sandboxd/server/config.h"
#include "sandboxd/server/connection.h"
#include "sandboxd/server/events.h"
#include "sandboxd/server/sandboxes.h"

namespace sandboxd::server {

// The daemon: listens, greets, dispatches. Everything runs on one loop.
class Daemon : public RequestHandler {
 public:
  // Makes directories, groups, zygote and socket; adopts what an earlier daemon left. A second
  // daemon on the same run directory is FAILED_PRECONDITION.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(Config config, std::string config_path,
                                                       LayerSet layers);
  ~Daemon() override;

  // Until SIGTERM or SIGINT; a second one leaves at once.
  void Run();

  // RequestHandler
  void OnRequest(Connection& connection, uint64_t stream, const nlohmann::json& request) override;
  absl::StatusOr<nlohmann::json> OnHello(const nlohmann::json& hello) override;
  void OnClosed(Connection& connection, const absl::Status& why) override;

 private:
  using Handler = absl::Status (Daemon::*)(Connection&, uint64_t, const nlohmann::json&);

  Daemon(Config config, std::string config_path, std::unique_ptr<EventLoop> loop)
      : config_(std::move(config)),
        config_path_(std::move(config_path)),
        loop_(std::move(loop)),
        events_(static_cast<size_t>(config_.limits.events_ring)) {}

  absl::Status SetUp(LayerSet layers);
  absl::Status WatchSignals();
  void OnSignal(int signal);
  void ReloadConfig();
  void StopIfDrained();
  void OnAccept();

  absl::Status DaemonInfo(Connection&, uint64_t stream, const nlohmann::json& params);
  absl::Status SandboxCreate(Connection&, uint64_t stream, const nlohmann::json& params);
  absl::Status SandboxList(Connection&, uint64_t stream, const nlohmann::json& params);
  absl::Status SandboxInfo(Connection&, uint64_t stream, const nlohmann::json& params);
  absl::Status SandboxKill(Connection&, uint64_t stream, const nlohmann::json& params);
  absl::Status SandboxWait(Connection&, uint64_t stream, const nlohmann::json& params);
  absl::Status SandboxEvents(Connection&, uint64_t stream, const nlohmann::json& params);
  absl::Status SandboxReport(Connection&, uint64_t stream, const nlohmann::json& params);
  absl::Status ExecStart(Connection&, uint64_t stream, const nlohmann::json& params);
  absl::Status ExecSignal(Connection&, uint64_t stream, const nlohmann::json& params);
  absl::Status ExecWait(Connection&, uint64_t stream, const nlohmann::json& params);

  Config config_;
  const std::string config_path_;
  std::unique_ptr<EventLoop> loop_;
  EventLog events_;
  UniqueFd lock_;
  UniqueFd listener_;
  UniqueFd reserve_;  // Given up to accept and refuse when descriptors run out.
  UniqueFd signals_;
  std::unique_ptr<CgroupTree> cgroups_;
  std::unique_ptr<IdRanges> ids_;
  std::unique_ptr<Launcher> launcher_;
  std::unique_ptr<Prober> prober_;
  std::unique_ptr<BoxHost> host_;
  std::unique_ptr<Sandboxes> sandboxes_;
  std::map<Connection*, std::unique_ptr<Connection>> connections_;
  std::string instance_;
  absl::Time started_at_;
  bool draining_ = false;
  bool pool_gone_ = false;
};

}  // namespace sandboxd::server

#endif  // SANDBOXD_SERVER_DAEMON_H_
