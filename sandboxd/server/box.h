#ifndef SANDBOXD_SERVER_BOX_H_
#define SANDBOXD_SERVER_BOX_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/event_loop.h"
#include "base/unique_fd.h"
#include "runtime/cgroup.h"
#include "runtime/id_ranges.h"
#include "runtime/launcher.h"
#include "runtime/shim_link.h"

namespace sandboxd::server {

using StageTimes = std::vector<std::pair<std::string, uint32_t>>;  // Name, microseconds.

// What boxes are made with; outlives them.
struct BoxHost {
  EventLoop& loop;
  Launcher& launcher;
  CgroupTree& cgroups;
  IdRanges& ids;
  std::string run_dir;  // The directory that holds one directory for each box.
  size_t ending = 0;    // Boxes that are being killed: a daemon that leaves waits for them.
};

// What all boxes of one isolation profile have in common, ready for the kernel.
struct BoxProfile {
  UniqueFd prepare_plan;  // A PreparePlan.
  UniqueFd init_filter;
  UniqueFd exec_filter;
  std::vector<CgroupSetting> settings;  // Limits of the control group.
};

// Everything of one sandbox that lives in the kernel: its id and id range, its groups, its run
// directory, its shim. A box is prepared before anybody asks (the pool), then launched with an
// image, then killed. When it is destroyed, so are its traces.
class Box {
 public:
  // What a box tells its owner. Nothing is called from within a call of the owner.
  class Delegate {
   public:
    virtual ~Delegate() = default;
    virtual void OnExecStarted(const ExecStartedMessage& message, std::vector<UniqueFd> fds) = 0;
    virtual void OnExecExited(const ExecExitedMessage& message) = 0;
    // After Adopt(): an exec that the shim knows.
    virtual void OnExecStatus(const ExecStatusMessage& message) = 0;
    // PID 1 ended; the sandbox is over but for Kill().
    virtual void OnInitExited(const InitExitedMessage& message) = 0;
    // The shim died, against all rules. What it left is being ended.
    virtual void OnLost() = 0;
  };

  using PreparedCallback = absl::AnyInvocable<void(absl::Status)>;
  using LaunchedCallback = absl::AnyInvocable<void(absl::Status, const StageFailure&)>;
  using AdoptedCallback = absl::AnyInvocable<void(absl::Status)>;
  using KilledCallback = absl::AnyInvocable<void(absl::Status)>;

  // Begins to make a box: everything up to its image. Whoever owns it ends it with Kill().
  static absl::StatusOr<std::unique_ptr<Box>> Prepare(BoxHost& host, const BoxProfile& profile);
  // Calls back when its namespaces stand, or why they do not.
  void AwaitPrepared(PreparedCallback callback) { on_prepared_ = std::move(callback); }

  // Connects to the shim of a sandbox that an earlier daemon made.
  static absl::StatusOr<std::unique_ptr<Box>> Connect(BoxHost& host, const std::string& id,
                                                      uint32_t id_base);
  // Asks that shim for its state: the delegate hears of its execs, then the callback runs.
  void Adopt(AdoptedCallback callback);

  // Removes what is left of a box whose shim cannot be reached: processes, groups, directory.
  static void Destroy(BoxHost& host, const std::string& id, KilledCallback callback);

  // Ends a box that is nobody's, later in this turn, and removes its traces.
  static void Discard(std::unique_ptr<Box> box);

  ~Box();

  // The shim ended unasked.
  bool lost() const { return lost_; }
  void set_delegate(Delegate* delegate) { delegate_ = delegate; }

  // `fds`: see LaunchPlan. Need not wait for the box to be prepared. On failure the box is gone but
  // for its traces, which Kill() removes.
  void Launch(const std::vector<UniqueFd>& fds, LaunchedCallback callback);
  absl::Status Exec(const ExecMessage& message, absl::Span<const int> fds);
  absl::Status Signal(uint64_t exec, int signal, bool all);
  absl::Status Release(uint64_t exec);

  // Ends everything and removes every trace. ABORTED, SANDBOX_STUCK where something could not be
  // removed: the box stays, and Kill() may be called again.
  void Kill(KilledCallback callback);

  const std::string& id() const { return id_; }
  uint32_t id_base() const { return id_base_; }
  pid_t init_pid() const { return init_pid_; }
  const StageTimes& stages() const { return stages_; }
  std::string directory() const { return host_.run_dir + "/" + id_; }

 private:
  Box(BoxHost& host, std::string id, uint32_t id_base)
      : host_(host), id_(std::move(id)), id_base_(id_base) {}

  absl::Status MakeTraces(const std::vector<CgroupSetting>& settings);
  absl::Status Attach(UniqueFd socket);
  void WatchShim(UniqueFd pidfd);
  void OnMessage(ShimEvent event);
  void OnLinkClosed();
  void OnShimExit();
  void OnPrepared(const PreparedMessage& message);
  void OnKilled(const KilledMessage& message);
  void AddStages(const StageTime* times, uint32_t count);
  void FailStart(const absl::Status& status, const StageFailure& failure = {});
  void FinishKill();
  void TellKillers(const absl::Status& status);
  absl::Status RemoveTraces();

  BoxHost& host_;
  const std::string id_;
  const uint32_t id_base_;
  UniqueFd cgroup_;
  UniqueFd listener_;
  UniqueFd pidfd_;
  std::unique_ptr<ShimLink> link_;
  pid_t init_pid_ = -1;
  StageTimes stages_;
  Delegate* delegate_ = nullptr;
  PreparedCallback on_prepared_;
  LaunchedCallback on_launched_;
  AdoptedCallback on_adopted_;
  std::vector<KilledCallback> on_killed_;
  uint32_t statuses_expected_ = 0;
  bool lost_ = false;
  bool killed_ = false;  // The shim said that everything is gone.
  bool finishing_ = false;
  bool removed_ = false;  // No trace is left.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace sandboxd::server

#endif  // SANDBOXD_SERVER_BOX_H_
