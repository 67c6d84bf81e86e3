#include "sandboxd/server/exec_stream.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sandboxd/wire/error.h"

namespace sandboxd::server {
namespace {

// How long output of other processes follows after the exec's own has ended.
constexpr absl::Duration kDrain = absl::Milliseconds(250);
// A program that closes its output usually ends next: both are then one message to the client.
constexpr absl::Duration kExitSoon = absl::Milliseconds(5);

}  // namespace

ExecStream::ExecStream(Connection& connection, uint64_t stream, Sandboxes& sandboxes,
                       Sandbox& sandbox)
    : connection_(connection),
      stream_(stream),
      sandboxes_(sandboxes),
      sandbox_id_(sandbox.id()),
      uid_(connection.peer().uid),
      input_credit_(static_cast<uint64_t>(connection.config().limits.initial_credit)) {
  stdout_.credit_early = stderr_.credit_early = input_credit_;
}

ExecStream::~ExecStream() {
  if (timer_set_) connection_.loop().CancelTimer(timer_);
  CloseInput();
  for (Output* output : {&stdout_, &stderr_}) {
    if (output->pump != nullptr) connection_.RemovePump(*output->pump);
  }
  Sandbox* box = sandbox();
  if (box == nullptr || exec_ == 0) return;
  if (!exited_) box->CancelExec(exec_);
  box->DetachExec(exec_);
}

// The sandbox may be gone before this stream has told its client everything.
Sandbox* ExecStream::sandbox() {
  const auto it = sandboxes_.all().find(sandbox_id_);
  return it == sandboxes_.all().end() ? nullptr : it->second.get();
}

absl::Status ExecStream::Start(Sandbox::ExecRequest request) {
  stdin_wanted_ = request.spec.stdin_pipe;
  ASSIGN_OR_RETURN(exec_, sandbox()->StartExec(std::move(request), this));
  return absl::OkStatus();
}

ExecStream::Output* ExecStream::OutputOf(wire::Channel channel) {
  if (channel == wire::Channel::kStdout) return &stdout_;
  if (channel == wire::Channel::kStderr) return &stderr_;
  return nullptr;
}

void ExecStream::OnStarted(uint64_t exec, pid_t pid_inside, std::vector<UniqueFd> fds) {
  started_ = true;
  const size_t outputs = stdin_wanted_ ? 1 : 0;
  if (fds.size() != outputs + 2) {
    return OnFailed(absl::InternalError("the shim did not pass the exec's pipes"));
  }
  if (stdin_wanted_) {
    stdin_ = std::move(fds[0]);
    fcntl(stdin_.get(), F_SETFL, O_NONBLOCK);
  }
  for (const wire::Channel channel : {wire::Channel::kStdout, wire::Channel::kStderr}) {
    Output& output = *OutputOf(channel);
    auto pump = Pump::Create(connection_.loop(),
                             std::move(fds[outputs + (channel == wire::Channel::kStderr ? 1 : 0)]),
                             channel, output.credit_early, [this] { Advance(); });
    if (!pump.ok()) return OnFailed(pump.status());
    output.pump = *std::move(pump);
    connection_.AddPump(stream_, *output.pump);
  }
  connection_.Reply(stream_, {{"exec", exec}, {"pid", pid_inside}});
  WriteInput();
}

void ExecStream::OnFailed(const absl::Status& status) {
  if (done_) return;
  done_ = true;
  if (!started_) exec_ = 0;  // There is nothing to end or detach from.
  connection_.Error(stream_, status);
}

void ExecStream::OnCancel() {
  Sandbox* box = sandbox();
  if (box != nullptr && exec_ != 0) box->CancelExec(exec_);
}

absl::Status ExecStream::OnData(wire::Channel channel, absl::Span<const char> data) {
  if (channel != wire::Channel::kStdin || !stdin_wanted_ || stdin_end_) {
    return wire::ProtocolError("data on a channel that does not take it");
  }
  if (data.size() > input_credit_) return wire::ProtocolError("more data than there is credit for");
  input_credit_ -= data.size();
  input_.append(data.data(), data.size());
  WriteInput();
  return absl::OkStatus();
}

absl::Status ExecStream::OnEnd(wire::Channel channel) {
  if (channel != wire::Channel::kStdin)
    return wire::ProtocolError("end of a channel that is not input");
  stdin_end_ = true;
  WriteInput();
  return absl::OkStatus();
}

absl::Status ExecStream::OnCredit(wire::Channel channel, uint64_t bytes) {
  Output* output = OutputOf(channel);
  if (output == nullptr) return wire::ProtocolError("credit for a channel that is not output");
  if (output->ended) return absl::OkStatus();
  if (output->pump == nullptr) {
    output->credit_early += std::min<uint64_t>(bytes, 1 << 30);
    return absl::OkStatus();
  }
  if (!output->pump->AddCredit(bytes)) {
    return ReasonError(absl::StatusCode::kInvalidArgument, "CREDIT_OVERFLOW", "connection",
                       "a channel may hold at most 1 GiB of credit");
  }
  connection_.Kick();
  return absl::OkStatus();
}

void ExecStream::WriteInput() {
  if (!started_) return;
  size_t written = 0;
  while (stdin_.valid() && written < input_.size()) {
    const ssize_t n = write(stdin_.get(), input_.data() + written, input_.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) {
      OnInputRefused();
      break;
    }
    written += static_cast<size_t>(n);
  }
  if (!stdin_.valid()) written = input_.size();
  input_.erase(0, written);
  if (written > 0 && !stdin_end_) {
    input_credit_ += written;
    connection_.SendCredit(stream_, wire::Channel::kStdin, written);
  }
  if (!stdin_.valid()) return;
  if (input_.empty() && stdin_end_) return CloseInput();
  WatchInput(input_.empty() ? 0 : uint32_t{EPOLLOUT});
}

// With no event asked for, the pipe still tells that its reader has gone (EPOLLERR, epoll_ctl(2)).
void ExecStream::WatchInput(uint32_t events) {
  if (!stdin_watched_) {
    stdin_watched_ = connection_.loop()
                         .Add(stdin_.get(), events,
                              [this](uint32_t ready) {
                                if ((ready & EPOLLERR) != 0) OnInputRefused();
                                WriteInput();
                              })
                         .ok();
  } else if (events != stdin_events_) {
    connection_.loop().Modify(stdin_.get(), events).IgnoreError();
  }
  stdin_events_ = events;
}

// Nobody reads it: what comes is thrown away, as a shell's pipe does.
void ExecStream::OnInputRefused() {
  CloseInput();
  if (!stdin_end_ && !exited_) connection_.SendEnd(stream_, wire::Channel::kStdin);
}

void ExecStream::CloseInput() {
  if (stdin_watched_) connection_.loop().Remove(stdin_.get());
  stdin_watched_ = false;
  stdin_.Reset();
}

void ExecStream::OnExited(ExecEnd& end) {
  exited_ = true;
  if (!started_) {  // Its sandbox ended first. The client still waits for an answer.
    done_ = true;
    const std::string object = absl::StrCat("sandbox ", sandbox_id_);
    return connection_.Error(
        stream_, ReasonError(absl::StatusCode::kAborted, "SANDBOX_ENDED", object,
                             absl::StrCat(object, " ended before the program started")));
  }
  CloseInput();
  for (Output* output : {&stdout_, &stderr_}) {
    if (output->pump != nullptr) output->at_exit = output->pump->sent() + output->pump->Waiting();
    if (output->ended) output->at_exit = output->total;
  }
  end.stdout_bytes = stdout_.at_exit;
  end.stderr_bytes = stderr_.at_exit;
  end_ = end;
  SetTimer(kDrain);
  Advance();
}

void ExecStream::SetTimer(absl::Duration delay) {
  if (timer_set_) connection_.loop().CancelTimer(timer_);
  timer_set_ = true;
  timer_ = connection_.loop().After(delay, [this] {
    timer_set_ = false;
    if (exited_) {
      drained_ = true;
      for (Output* output : {&stdout_, &stderr_}) {
        if (output->pump != nullptr) output->pump->CutHere();
      }
    }
    for (const wire::Channel channel : {wire::Channel::kStdout, wire::Channel::kStderr}) {
      Output& output = *OutputOf(channel);
      if (output.pump != nullptr && output.pump->Finished()) EndOutput(output, channel);
    }
    Advance();
  });
}

void ExecStream::EndOutput(Output& output, wire::Channel channel) {
  output.ended = true;
  output.total = output.pump->sent();
  connection_.RemovePump(*output.pump);
  // The caller may be the pump's own callback.
  connection_.loop().Defer([pump = std::shared_ptr<Pump>(std::move(output.pump))] {});
  connection_.SendEnd(stream_, channel);
}

// Something moved: output came or went, the process ended, time passed.
void ExecStream::Advance() {
  if (done_ || !started_) return;
  connection_.Kick();
  if (exited_ && !exit_sent_) {
    bool due = true;
    for (const Output* output : {&stdout_, &stderr_}) {
      if (output->pump != nullptr && output->pump->sent() < output->at_exit &&
          output->pump->credit() > 0) {
        due = false;
      }
    }
    if (due) {
      exit_sent_ = true;
      connection_.SendExit(stream_, ToJson(end_));
    }
  }
  bool ended = true;
  for (const wire::Channel channel : {wire::Channel::kStdout, wire::Channel::kStderr}) {
    Output& output = *OutputOf(channel);
    if (output.pump == nullptr) continue;
    if (exit_sent_ && output.pump->Finished()) {
      EndOutput(output, channel);
    } else {
      if (!exited_ && !timer_set_ && output.pump->AtEnd()) SetTimer(kExitSoon);
      ended = false;
    }
  }
  if (!ended || !exit_sent_) return;
  done_ = true;
  connection_.EndStream(stream_);
}

}  // namespace sandboxd::server
