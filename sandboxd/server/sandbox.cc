#include "sandboxd/server/sandbox.h"

#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "runtime/plan_writer.h"
#include "runtime/stage.h"

namespace sandboxd::server {
namespace {

ExecEnd EndOf(const ExecExitedMessage& message) {
  ExecEnd end;
  end.exec = message.exec;
  end.timed_out = (message.flags & kExecTimedOut) != 0;
  end.core_dumped = message.end_code == CLD_DUMPED;
  if (message.end_code == CLD_EXITED) {
    end.exit_code = message.end_status;
  } else {
    end.signal = message.end_status;
  }
  end.reason = end.timed_out ? "timeout" : end.signal != 0 ? "signalled" : "exited";
  end.wall_us = message.wall_us;
  end.user_us = message.user_us;
  end.system_us = message.system_us;
  return end;
}

absl::Status NoExec(uint64_t exec, const std::string& sandbox) {
  return ReasonError(absl::StatusCode::kNotFound, "EXEC_NOT_FOUND", absl::StrCat("exec ", exec),
                     absl::StrCat("sandbox ", sandbox, " has no exec ", exec));
}

std::string Quoted(const std::string& bytes) { return absl::CHexEscape(bytes.substr(0, 256)); }

}  // namespace

nlohmann::json ToJson(const ExecEnd& end) {
  nlohmann::json body = {{"exec", end.exec},
                         {"core_dumped", end.core_dumped},
                         {"timed_out", end.timed_out},
                         {"reason", end.reason},
                         {"wall_us", end.wall_us},
                         {"user_us", end.user_us},
                         {"system_us", end.system_us},
                         {"stdout_bytes", end.stdout_bytes},
                         {"stderr_bytes", end.stderr_bytes},
                         {"exit_code", nullptr},
                         {"signal", nullptr}};
  if (end.signal != 0) {
    body["signal"] = end.signal;
  } else {
    body["exit_code"] = end.exit_code;
  }
  return body;
}

absl::string_view StateName(SandboxState state) {
  switch (state) {
    case SandboxState::kRunning:
      return "running";
    case SandboxState::kStopping:
      return "stopping";
    case SandboxState::kStuck:
      return "stuck";
    case SandboxState::kEnded:
      return "ended";
  }
  return "unknown";
}

Sandbox::Sandbox(Owner& owner_object, EventLog& events, const Config& config, Profile profile,
                 CreateSpec spec, uid_t owner, std::unique_ptr<Box> box, absl::Time created_at)
    : owner_object_(owner_object),
      events_(events),
      config_(config),
      profile_(std::move(profile)),
      spec_(std::move(spec)),
      owner_(owner),
      id_(box->id()),
      box_(std::move(box)),
      created_at_(created_at) {
  box_->set_delegate(this);
}

absl::Time Sandbox::expires_at() const {
  if (deadline_ == 0) return absl::InfiniteFuture();
  return absl::Now() + absl::Nanoseconds(deadline_ - EventLoop::BootTimeNanos());
}

absl::StatusOr<uint64_t> Sandbox::StartExec(ExecRequest request, ExecObserver* observer) {
  const std::string object = absl::StrCat("sandbox ", id_);
  if (state_ != SandboxState::kRunning) {
    return ReasonError(absl::StatusCode::kAborted, "SANDBOX_ENDED", object,
                       absl::StrCat(object, " is ", StateName(state_)));
  }
  if (running_ >= static_cast<size_t>(config_.limits.execs_per_sandbox)) {
    return ReasonError(absl::StatusCode::kResourceExhausted, "OVER_CEILING",
                       "limits.execs_per_sandbox",
                       absl::StrCat(object, " runs ", running_,
                                    " execs, the most that limits.execs_per_sandbox allows"));
  }
  ASSIGN_OR_RETURN(const std::string plan, BuildExecPlan(request.spec));
  ASSIGN_OR_RETURN(const UniqueFd file, PlanFile("exec-plan", plan));
  ExecMessage message = {};
  message.exec = next_exec_;
  message.timeout_ms = request.timeout_ms;
  message.grace_ms = request.grace_ms;
  message.stdin_pipe = request.spec.stdin_pipe ? 1 : 0;
  const int fds[] = {file.get(), request.program, request.input};
  const size_t count = !request.spec.program_fd ? 1 : request.input < 0 ? 2 : 3;
  RETURN_IF_ERROR(box_->Exec(message, absl::MakeConstSpan(fds, count)));
  Exec& exec = execs_[next_exec_];
  exec.observer = observer;
  exec.program = request.spec.argv[0];
  exec.cwd = request.spec.cwd;
  const UserRef& user = request.spec.user;
  exec.user = user.user_name.empty() ? absl::StrCat(user.uid) : user.user_name;
  if (!user.group_name.empty()) absl::StrAppend(&exec.user, ":", user.group_name);
  ++running_;
  return next_exec_++;
}

absl::Status Sandbox::SignalExec(uint64_t number, int signal, bool all) {
  const auto it = execs_.find(number);
  if (it == execs_.end()) return NoExec(number, id_);
  if (!it->second.running && !all) {
    return ReasonError(absl::StatusCode::kFailedPrecondition, "EXEC_ENDED",
                       absl::StrCat("exec ", number), absl::StrCat("exec ", number, " has ended"));
  }
  return box_->Signal(number, signal, all);
}

void Sandbox::CancelExec(uint64_t number) {
  const auto it = execs_.find(number);
  if (it == execs_.end() || !it->second.running) return;
  it->second.cancelled = true;
  box_->Signal(number, SIGKILL, /*all=*/true).IgnoreError();  // A shim that has gone took it along.
}

void Sandbox::DetachExec(uint64_t number) {
  const auto it = execs_.find(number);
  if (it == execs_.end()) return;
  it->second.observer = nullptr;
  if (state_ == SandboxState::kRunning) box_->Release(number).IgnoreError();
}

absl::StatusOr<uint64_t> Sandbox::WaitExec(uint64_t number, ExecWaiter waiter) {
  const auto it = execs_.find(number);
  if (it == execs_.end()) return NoExec(number, id_);
  if (!it->second.running) {
    waiter(it->second.end);
    return 0;
  }
  it->second.waiters.emplace(next_wait_, std::move(waiter));
  return next_wait_++;
}

void Sandbox::AbandonWait(uint64_t exec, uint64_t wait) {
  const auto it = execs_.find(exec);
  if (it != execs_.end()) it->second.waiters.erase(wait);
}

void Sandbox::OnExecStarted(const ExecStartedMessage& message, std::vector<UniqueFd> fds) {
  const auto it = execs_.find(message.exec);
  if (it == execs_.end()) return;
  Exec& exec = it->second;
  if (message.failure.stage == Stage::kNone) {
    events_.Add("exec_started", id_, owner_, {{"exec", message.exec}});
    if (exec.observer != nullptr) {
      exec.observer->OnStarted(message.exec, message.pid_inside, std::move(fds));
    }
    return;
  }
  const absl::Status status = ExecFailure(exec, message.failure);
  ExecObserver* observer = exec.observer;
  auto waiters = std::move(exec.waiters);
  execs_.erase(it);
  --running_;
  for (auto& [wait, waiter] : waiters) waiter(status);
  if (observer != nullptr) observer->OnFailed(status);
}

// The stages that are the caller's own doing have reasons of their own.
absl::Status Sandbox::ExecFailure(const Exec& exec, const StageFailure& failure) const {
  const auto fail = [&](absl::StatusCode code, absl::string_view reason, const std::string& object,
                        const std::string& message) {
    return WithDetail(
        ReasonError(code, reason, object, message),
        {.stage = std::string(StageName(failure.stage)), .error = ErrnoName(failure.error)});
  };
  const std::string why = strerror(failure.error);
  const std::string program = Quoted(exec.program);
  switch (failure.stage) {
    case Stage::kWorkingDirectory: {
      const std::string cwd = Quoted(exec.cwd);
      const absl::string_view reason = failure.error == ENOENT    ? "CWD_NOT_FOUND"
                                       : failure.error == ENOTDIR ? "CWD_NOT_A_DIRECTORY"
                                                                  : "CWD_NOT_ALLOWED";
      return fail(absl::StatusCode::kFailedPrecondition, reason, absl::StrCat("cwd ", cwd),
                  absl::StrCat("the working directory ", cwd, ": ", why));
    }
    case Stage::kUser:
    case Stage::kGroups:
      return fail(absl::StatusCode::kInvalidArgument, "INVALID_USER",
                  absl::StrCat("user ", exec.user),
                  failure.error == ENOENT
                      ? absl::StrCat("the sandbox has no such user or group: ", exec.user)
                      : absl::StrCat("the user ", exec.user, ": ", why));
    case Stage::kExecute:
      if (failure.error == ENOENT || failure.error == ENOTDIR) {
        return fail(absl::StatusCode::kNotFound, "COMMAND_NOT_FOUND",
                    absl::StrCat("command ", program),
                    absl::StrCat(program, ": no such command in the sandbox"));
      }
      if (failure.error == E2BIG) {
        return fail(absl::StatusCode::kInvalidArgument, "ARGUMENTS_TOO_LONG", "argv and env",
                    "argv and env are together more than the kernel takes");
      }
      return fail(absl::StatusCode::kPermissionDenied, "COMMAND_NOT_EXECUTABLE",
                  absl::StrCat("command ", program),
                  absl::StrCat(program, " cannot be run: ", why));
    case Stage::kInterpreter:
      return fail(absl::StatusCode::kPermissionDenied, "COMMAND_NOT_EXECUTABLE",
                  absl::StrCat("command ", program),
                  absl::StrCat(program,
                               " cannot be run: the interpreter or loader that it names "
                               "does not exist in the sandbox"));
    default:
      return LaunchError(failure, absl::StrCat("command ", program));
  }
}

void Sandbox::OnExecExited(const ExecExitedMessage& message) {
  const auto it = execs_.find(message.exec);
  if (it == execs_.end() || !it->second.running) return;
  ExecEnd end = EndOf(message);
  if (it->second.cancelled) end.reason = "cancelled";
  EndExec(message.exec, it->second, std::move(end));
  ForgetOldExecs();
}

void Sandbox::EndExec(uint64_t number, Exec& exec, ExecEnd end) {
  exec.running = false;
  --running_;
  ExecObserver* observer = exec.observer;
  if (observer != nullptr) observer->OnExited(end);
  exec.end = end;
  nlohmann::json details = ToJson(end);
  events_.Add("exec_exited", id_, owner_, std::move(details));
  auto waiters = std::move(exec.waiters);
  exec.waiters.clear();
  for (auto& [wait, waiter] : waiters) waiter(end);
  if (observer == nullptr && state_ == SandboxState::kRunning) box_->Release(number).IgnoreError();
}

void Sandbox::ForgetOldExecs() {
  size_t ended = execs_.size() - running_;
  for (auto it = execs_.begin();
       ended > static_cast<size_t>(config_.limits.execs_kept) && it != execs_.end();) {
    if (it->second.running || it->second.observer != nullptr) {
      ++it;
      continue;
    }
    it = execs_.erase(it);
    --ended;
  }
}

// Of a shim that this daemon has not started: which execs there are.
void Sandbox::OnExecStatus(const ExecStatusMessage& message) {
  Exec& exec = execs_[message.exec];
  exec.running = message.running != 0;
  if (exec.running) {
    ++running_;
  } else {
    exec.end = EndOf(message.exited);
  }
  next_exec_ = std::max(next_exec_, message.exec + 1);
}

void Sandbox::OnInitExited(const InitExitedMessage& message) {
  if (!end_reason_.empty()) return;
  end_reason_ = "init_exited";
  end_message_ = message.end_code == CLD_EXITED
                     ? absl::StrCat("PID 1 exited with code ", message.end_status)
                     : absl::StrCat("PID 1 was killed by signal ", message.end_status);
  owner_object_.OnEnded(*this, end_reason_, end_message_);
}

void Sandbox::OnLost() {
  if (!end_reason_.empty()) return;
  end_reason_ = "lost";
  end_message_ = "the shim ended; what its execs came to is not known";
  owner_object_.OnEnded(*this, end_reason_, end_message_);
}

void Sandbox::EndAllExecs() {
  for (auto& [number, exec] : execs_) {
    if (!exec.running) continue;
    ExecEnd end;
    end.exec = number;
    end.signal = SIGKILL;
    end.reason = "sandbox_ended";
    EndExec(number, exec, std::move(end));
  }
}

void Sandbox::Kill(absl::string_view reason, Box::KilledCallback callback) {
  killers_.push_back(std::move(callback));
  if (state_ == SandboxState::kStopping) return;
  state_ = SandboxState::kStopping;
  if (end_reason_.empty()) end_reason_ = std::string(reason);
  box_->Kill([this](absl::Status status) {
    state_ = status.ok() ? SandboxState::kEnded : SandboxState::kStuck;
    if (status.ok()) EndAllExecs();
    auto killers = std::move(killers_);
    killers_.clear();
    for (Box::KilledCallback& killer : killers) killer(status);
  });
}

}  // namespace sandboxd::server
