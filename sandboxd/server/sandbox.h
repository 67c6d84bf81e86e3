#ifndef SANDBOXD_SERVER_SANDBOX_H_
#define SANDBOXD_SERVER_SANDBOX_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "runtime/exec_plan.h"
#include "sandboxd/server/box.h"
#include "sandboxd/server/config.h"
#include "sandboxd/server/create_spec.h"
#include "sandboxd/server/events.h"

namespace sandboxd::server {

// How an exec ended, as Exit says it.
struct ExecEnd {
  uint64_t exec = 0;
  int exit_code = 0;
  int signal = 0;  // 0: it exited.
  bool core_dumped = false;
  bool timed_out = false;
  std::string reason;  // "exited", "signalled", "timeout", "cancelled", "sandbox_ended"
  uint64_t wall_us = 0;
  uint64_t user_us = 0;
  uint64_t system_us = 0;
  uint64_t stdout_bytes = 0;
  uint64_t stderr_bytes = 0;
};
nlohmann::json ToJson(const ExecEnd& end);

// Who started an exec and is connected to it.
class ExecObserver {
 public:
  virtual ~ExecObserver() = default;
  // The program runs. `fds`: stdin's write end if it was asked for, stdout, stderr.
  virtual void OnStarted(uint64_t exec, pid_t pid_inside, std::vector<UniqueFd> fds) = 0;
  virtual void OnFailed(const absl::Status& status) = 0;
  // The exec's process has ended. May fill in the numbers of bytes.
  virtual void OnExited(ExecEnd& end) = 0;
};

enum class SandboxState { kRunning, kStopping, kStuck, kEnded };
absl::string_view StateName(SandboxState state);

struct SandboxEnd {
  absl::Time at;
  std::string reason;  // "killed", "expired", "lost", "init_exited"
  std::string message;
};

// A sandbox of a client: what was asked, the box that carries it, and its execs.
class Sandbox : public Box::Delegate {
 public:
  // What a sandbox tells its owner.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void OnEnded(Sandbox& sandbox, absl::string_view reason,
                         const std::string& message) = 0;
  };

  Sandbox(Owner& owner_object, EventLog& events, const Config& config, Profile profile,
          CreateSpec spec, uid_t owner, std::unique_ptr<Box> box, absl::Time created_at);

  // --- Execs.
  struct ExecRequest {
    ExecSpec spec;
    uint64_t timeout_ms = 0;
    uint64_t grace_ms = 1000;
    int program = -1;  // With spec.program_fd: the caller's, needed only during the call.
    int input = -1;    // As above: its standard input, unless that is to be /dev/null.
  };
  // The observer hears of the start or failure later, never from within the call.
  absl::StatusOr<uint64_t> StartExec(ExecRequest request, ExecObserver* observer);
  absl::Status SignalExec(uint64_t exec, int signal, bool all);
  // Kills everything that the exec started; its end then has the reason "cancelled".
  void CancelExec(uint64_t exec);
  // Its observer has gone, or will read no more.
  void DetachExec(uint64_t exec);
  // Calls back with the end, at once if it has ended. EXEC_NOT_FOUND, or the id of the wait.
  using ExecWaiter = absl::AnyInvocable<void(absl::StatusOr<ExecEnd>)>;
  absl::StatusOr<uint64_t> WaitExec(uint64_t exec, ExecWaiter waiter);
  void AbandonWait(uint64_t exec, uint64_t wait);
  size_t running_execs() const { return running_; }

  // --- The end.
  // Removes everything; then `callback`. Several callers wait for the same end.
  void Kill(absl::string_view reason, Box::KilledCallback callback);

  const std::string& id() const { return id_; }
  uid_t owner() const { return owner_; }
  const CreateSpec& spec() const { return spec_; }
  const Profile& profile() const { return profile_; }
  SandboxState state() const { return state_; }
  absl::Time created_at() const { return created_at_; }
  // The deadline on CLOCK_BOOTTIME in nanoseconds, 0: none; and when that is, for display.
  int64_t deadline() const { return deadline_; }
  void set_deadline(int64_t deadline) { deadline_ = deadline; }
  absl::Time expires_at() const;
  const StageTimes& stages() const { return stages_; }
  void set_stages(StageTimes stages) { stages_ = std::move(stages); }
  // Why its processes are gone, once they are; empty while it lives.
  const std::string& end_reason() const { return end_reason_; }
  const std::string& end_message() const { return end_message_; }
  Box& box() { return *box_; }
  const Box& box() const { return *box_; }

  // Box::Delegate
  void OnExecStarted(const ExecStartedMessage& message, std::vector<UniqueFd> fds) override;
  void OnExecExited(const ExecExitedMessage& message) override;
  void OnExecStatus(const ExecStatusMessage& message) override;
  void OnInitExited(const InitExitedMessage& message) override;
  void OnLost() override;

 private:
  struct Exec {
    ExecObserver* observer = nullptr;
    std::string program;  // argv[0], for messages.
    std::string user;
    std::string cwd;
    bool running = true;
    bool cancelled = false;
    ExecEnd end;
    std::map<uint64_t, ExecWaiter> waiters;
  };

  void EndExec(uint64_t number, Exec& exec, ExecEnd end);
  void EndAllExecs();
  void ForgetOldExecs();
  absl::Status ExecFailure(const Exec& exec, const StageFailure& failure) const;

  Owner& owner_object_;
  EventLog& events_;
  const Config& config_;
  const Profile profile_;
  const CreateSpec spec_;
  const uid_t owner_;
  const std::string id_;
  std::unique_ptr<Box> box_;
  const absl::Time created_at_;
  int64_t deadline_ = 0;
  SandboxState state_ = SandboxState::kRunning;
  StageTimes stages_;
  std::map<uint64_t, Exec> execs_;
  uint64_t next_exec_ = 1;
  uint64_t next_wait_ = 1;
  size_t running_ = 0;
  std::string end_reason_;
  std::string end_message_;
  std::vector<Box::KilledCallback> killers_;
};

}  // namespace sandboxd::server

#endif  // SANDBOXD_SERVER_SANDBOX_H_
