#include "runtime/shim/execs.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cerrno>
#include <initializer_list>

#include "runtime/shim/sys.h"

namespace sandboxd::shim {
namespace {

constexpr uint64_t kStartLimit = 10'000'000;
// How long the end of a killed process may take. A process inside that traces it can keep it from
// being reaped, and the kernel an uninterruptible one; the client is told without it.
constexpr uint64_t kEndLimit = 2'000'000;
constexpr uint64_t kSweepEvery = 1'000'000;
constexpr uint64_t kSweepAfterRelease = 1'000;
// A slot is made when its making disturbs nobody: not while a program starts, and after its end
// only if no kill follows at once.
constexpr uint64_t kRefillAfterStart = 2'000;
constexpr uint64_t kRefillAfterEnd = 500;
constexpr uint64_t kBurst =
    1'000;  // An exec that comes so soon after another's end is not the last.
constexpr uint32_t kMaxAttempts = 3;
constexpr int kMaxSignalled = 4096;  // Processes of one group that one signal reaches.

void CloseFd(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

// A background process may go on writing after its exec has ended: it must neither block nor be
// killed by SIGPIPE for that.
void Discard(int& fd) {
  static char sink[65536];
  if (read(fd, sink, sizeof sink) <= 0) CloseFd(fd);
}

}  // namespace

void Execs::Refill() {
  MakeWaiting();
  EnterWaiting();
}

void Execs::RefillSoon() { next_refill_ = MonotonicMicros() + kRefillAfterStart; }

StageFailure Execs::Settle() {
  next_refill_ = 0;
  return has_waiting_ ? AwaitSlot(waiting_) : StageFailure{};
}

void Execs::MakeWaiting() {
  next_refill_ = 0;
  if (has_waiting_) return;
  Slot slot;
  const uint64_t group = next_group_++;
  if (MakeSlot(context_, group, slot).stage != Stage::kNone) {
    // The exec that needs it makes another attempt and reports why it fails.
    CloseSlot(slot);
    RemoveGroup(group);
    return;
  }
  waiting_ = slot;
  has_waiting_ = true;
  entered_ = false;
}

void Execs::EnterWaiting() {
  if (has_waiting_ && !entered_) entered_ = EnterSlot(waiting_) == 0;
}

Execs::Exec* Execs::Find(uint64_t number) {
  for (size_t i = 0; i < high_water_; ++i) {
    if (execs_[i].state != State::kFree && execs_[i].number == number) return &execs_[i];
  }
  return nullptr;
}

Execs::Exec* Execs::FindFree() {
  for (size_t i = 0; i < kMaxExecs; ++i) {
    if (execs_[i].state != State::kFree) continue;
    if (i >= high_water_) high_water_ = i + 1;
    return &execs_[i];
  }
  return nullptr;
}

void Execs::Start(const ExecMessage& message, FdList& fds) {
  Exec* exec = FindFree();
  if (exec == nullptr) {
    Sweep();
    exec = FindFree();
  }
  Exec refused = {};
  if (exec == nullptr) exec = &refused;
  *exec = {};
  exec->state = State::kStarting;
  exec->number = message.exec;
  exec->plan = fds.Take(0);
  exec->program = fds.Take(1);
  exec->input = fds.Take(2);
  exec->grace = message.grace_ms * 1000;
  exec->timeout = message.timeout_ms * 1000;
  if (message.exec > last_number_) last_number_ = message.exec;
  if (exec == &refused) return Fail(refused, {Stage::kFork, EAGAIN, 0});
  exec->stdin_pipe = message.stdin_pipe != 0;
  Attempt(*exec);
}

// Ends a slot that is of no use. Its group goes as those of execs do, when it is empty.
void Execs::Abandon(Slot& slot) {
  KillGroup(slot);
  CloseSlot(slot);
  if (next_sweep_ == 0) next_sweep_ = MonotonicMicros() + kSweepEvery;
  Exec* place = FindFree();
  if (place == nullptr) return;  // The group stays until the sandbox ends.
  *place = {};
  place->state = State::kLingering;
  place->slot = slot;
}

// Hands out the waiting slot if it can be used, or makes one.
bool Execs::TakeSlot(Slot& slot, StageFailure& failure) {
  if (has_waiting_ && !SlotIsSound(waiting_)) {
    // A process inside stopped or killed it. That one is not used; its end is reaped as usual.
    Abandon(waiting_);
    has_waiting_ = false;
  }
  eager_ = MonotonicMicros() - last_end_ < kBurst;
  if (!has_waiting_) {
    const uint64_t group = next_group_++;
    failure = MakeSlot(context_, group, slot);
    if (failure.stage != Stage::kNone) return false;
    const int error = EnterSlot(slot);
    if (error != 0) failure = {Stage::kInterference, error, 0};
    return error == 0;
  }
  slot = waiting_;
  has_waiting_ = false;
  return true;
}

void Execs::Attempt(Exec& exec) {
  StageFailure failure = {};
  ++exec.attempts;
  if (!TakeSlot(exec.slot, failure)) return Fail(exec, failure);
  const SlotOrder order = SlotOrder::kRun;
  const int passed[] = {exec.plan, exec.program, exec.input};
  const size_t count = exec.program < 0 ? 1 : exec.input < 0 ? 2 : 3;
  const int error = Send(exec.slot.control, &order, sizeof order, passed, count);
  if (error != 0) return Fail(exec, {Stage::kInterference, error, 0});
  exec.state = State::kStarting;
  exec.deadline = MonotonicMicros() + kStartLimit;
}

// The slot says that it is confined, or what failed; or, by closing, that the program runs.
void Execs::OnControl(Exec& exec) {
  SlotReport report;
  FdList fds;
  const long size = Receive(exec.slot.control, &report, sizeof report, fds, /*wait=*/false);
  fds.CloseAll();
  if (size == -EAGAIN) return;
  if (size > 0 && report.failure.stage == Stage::kNone) {
    exec.slot.pid_inside = report.pid_inside;
    return;
  }
  if (size > 0) return Fail(exec, report.failure);
  Started(exec);
}

void Execs::Started(Exec& exec) {
  exec.state = State::kRunning;
  exec.started = MonotonicMicros();
  exec.deadline = exec.timeout == 0 ? 0 : exec.started + exec.timeout;
  ExecStartedMessage message = {};
  message.header = Header(MessageType::kExecStarted);
  message.exec = exec.number;
  message.pid = exec.slot.pid;
  message.pid_inside = exec.slot.pid_inside;
  int passed[3];
  size_t count = 0;
  if (exec.stdin_pipe) passed[count++] = exec.slot.stdin_write;
  passed[count++] = exec.slot.stdout_read;
  passed[count++] = exec.slot.stderr_read;
  if (context_.connection >= 0) {
    Send(context_.connection, &message, sizeof message, passed, count);
  }
  for (int* fd :
       {&exec.slot.control, &exec.slot.stdin_write, &exec.plan, &exec.program, &exec.input}) {
    CloseFd(*fd);
  }
  next_refill_ = exec.started + (eager_ ? 0 : kRefillAfterStart);
}

void Execs::Fail(Exec& exec, StageFailure failure) {
  ExecStartedMessage message = {};
  message.header = Header(MessageType::kExecStarted);
  message.exec = exec.number;
  message.failure = failure;
  if (context_.connection >= 0) Send(context_.connection, &message, sizeof message);
  CloseFd(exec.plan);
  CloseFd(exec.program);
  CloseFd(exec.input);
  if (exec.slot.group != 0) KillGroup(exec.slot);
  CloseSlot(exec.slot);
  exec.state = State::kLingering;  // Until its group is empty.
  exec.number = 0;
  exec.deadline = 0;
  const uint64_t now = MonotonicMicros();
  if (next_sweep_ == 0) next_sweep_ = now + kSweepEvery;
  if (context_.state == ShimState::kRunning) next_refill_ = now + kRefillAfterEnd;
}

void Execs::Reaped(pid_t pid, const siginfo_t& info, const rusage& usage) {
  for (size_t i = 0; i < high_water_; ++i) {
    Exec& exec = execs_[i];
    if (exec.slot.pid != pid || exec.state == State::kFree) continue;
    exec.slot.pid = -1;
    if (exec.state == State::kStarting) OnControl(exec);  // Its last word may be there.
    if (exec.state == State::kStarting) OnControl(exec);
    if (exec.state == State::kRunning) Ended(exec, info.si_code, info.si_status, usage);
    return;
  }
  if (has_waiting_ && waiting_.pid == pid) {
    CloseSlot(waiting_);
    RemoveGroup(waiting_.group);
    has_waiting_ = false;
  }
}

// The program has ended, or was killed and will never run again.
void Execs::Ended(Exec& exec, int code, int status, const rusage& usage) {
  ExecExitedMessage message = {};
  message.header = Header(MessageType::kExecExited);
  message.exec = exec.number;
  message.end_code = code;
  message.end_status = status;
  message.flags = exec.timed_out ? kExecTimedOut : 0;
  message.wall_us = MonotonicMicros() - exec.started;
  message.user_us = static_cast<uint64_t>(usage.ru_utime.tv_sec) * 1'000'000 +
                    static_cast<uint64_t>(usage.ru_utime.tv_usec);
  message.system_us = static_cast<uint64_t>(usage.ru_stime.tv_sec) * 1'000'000 +
                      static_cast<uint64_t>(usage.ru_stime.tv_usec);
  ended_[ended_count_++ % kEndedKept] = message;
  if (context_.connection >= 0) Send(context_.connection, &message, sizeof message);
  // Ended by its timeout, it leaves nothing behind; else its background processes stay.
  if (exec.timed_out) KillGroup(exec.slot);
  exec.state = State::kLingering;
  exec.deadline = 0;
  last_end_ = MonotonicMicros();
  if (next_refill_ != 0) next_refill_ = last_end_ + kRefillAfterEnd;
  if (context_.connection < 0) exec.released = true;
  if (next_sweep_ == 0) next_sweep_ = MonotonicMicros() + kSweepEvery;
}

// Everything the exec started, for good.
void Execs::Kill(Exec& exec) {
  KillGroup(exec.slot);
  if (exec.state != State::kRunning) return;
  exec.killed = true;
  exec.deadline = MonotonicMicros() + kEndLimit;
}

void Execs::Release(uint64_t number) {
  Exec* exec = Find(number);
  if (exec == nullptr) return;
  exec->released = true;
  // Not at once: often a kill follows, which removes them all.
  if (exec->state == State::kLingering) next_sweep_ = MonotonicMicros() + kSweepAfterRelease;
}

// Frees the entries whose groups are empty.
void Execs::Sweep() {
  next_sweep_ = 0;
  for (size_t i = 0; i < high_water_; ++i) {
    Exec& exec = execs_[i];
    if (exec.state != State::kLingering) continue;
    const bool open = exec.slot.stdout_read >= 0 || exec.slot.stderr_read >= 0;
    if (open && !exec.released) continue;
    if (exec.slot.pid < 0 && (exec.slot.group == 0 || RemoveGroup(exec.slot.group))) {
      CloseSlot(exec.slot);
      exec.state = State::kFree;
    } else {
      next_sweep_ = MonotonicMicros() + kSweepEvery;
    }
  }
  while (high_water_ > 0 && execs_[high_water_ - 1].state == State::kFree) --high_water_;
}

void Execs::Signal(const SignalMessage& message) {
  Exec* exec = Find(message.exec);
  if (exec == nullptr) return;
  if (message.all != 0 && message.signal == SIGKILL) {
    Kill(*exec);
  } else if (message.all != 0) {
    SignalGroup(exec->slot, message.signal);
  } else if (exec->slot.pid > 0) {
    kill(exec->slot.pid, message.signal);  // Our child, not yet reaped: the pid is its own.
  }
}

void Execs::KillGroup(const Slot& slot) const {
  char path[64];
  WriteFileAt(context_.box, FormatNumber(path, "exec-", slot.group, "/cgroup.kill"), "1");
}

// SIGKILL is one atomic write in KillGroup(). Any other signal goes to each process by pidfd,
// opened while the pid is in the group and checked to be there still.
void Execs::SignalGroup(const Slot& slot, int signal) const {
  char path[64];
  const int fd = openat(context_.box, FormatNumber(path, "exec-", slot.group, "/cgroup.procs"),
                        O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return;
  static char list[16 * kMaxSignalled];
  size_t size = 0;
  for (ssize_t n;
       size + 1 < sizeof list && (n = read(fd, list + size, sizeof list - 1 - size)) > 0;) {
    size += static_cast<size_t>(n);
  }
  close(fd);
  list[size] = '\0';
  for (char* line = list; *line != '\0';) {
    char* end = line;
    const pid_t pid = static_cast<pid_t>(strtol(line, &end, 10));
    if (end == line || *end != '\n') break;
    line = end + 1;
    const int pidfd = pid > 1 ? PidfdOpen(pid) : -1;
    if (pidfd < 0) continue;
    char expected[64];
    char cgroup[4096] = {};
    FormatNumber(path, "/proc/", static_cast<uint64_t>(pid), "/cgroup");
    FormatNumber(expected, "/box/exec-", slot.group, "\n");
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0 && read(file, cgroup, sizeof cgroup - 1) > 0 && strstr(cgroup, expected)) {
      PidfdSendSignal(pidfd, signal);
    }
    if (file >= 0) close(file);
    close(pidfd);
  }
}

bool Execs::RemoveGroup(uint64_t group) const {
  char name[32];
  return unlinkat(context_.box, FormatNumber(name, "exec-", group), AT_REMOVEDIR) == 0 ||
         errno == ENOENT;
}

size_t Execs::Watch(pollfd* fds, size_t count) const {
  for (size_t i = 0; i < high_water_; ++i) {
    const Exec& exec = execs_[i];
    if (exec.state == State::kStarting) fds[count++] = {exec.slot.control, POLLIN, 0};
    if (exec.state != State::kLingering || !exec.released) continue;
    if (exec.slot.stdout_read >= 0) fds[count++] = {exec.slot.stdout_read, POLLIN, 0};
    if (exec.slot.stderr_read >= 0) fds[count++] = {exec.slot.stderr_read, POLLIN, 0};
  }
  return count;
}

void Execs::Handle(const pollfd* fds, size_t count) {
  for (size_t k = 0; k < count; ++k) {
    if (fds[k].revents == 0) continue;
    for (size_t i = 0; i < high_water_; ++i) {
      Exec& exec = execs_[i];
      if (exec.state == State::kStarting && exec.slot.control == fds[k].fd) {
        OnControl(exec);
      } else if (exec.state == State::kLingering && exec.released) {
        if (exec.slot.stdout_read == fds[k].fd) Discard(exec.slot.stdout_read);
        if (exec.slot.stderr_read == fds[k].fd) Discard(exec.slot.stderr_read);
      }
    }
  }
}

uint64_t Execs::NextDeadline() const {
  uint64_t next = next_sweep_;
  if (next_refill_ != 0 && (next == 0 || next_refill_ < next)) next = next_refill_;
  for (size_t i = 0; i < high_water_; ++i) {
    const uint64_t deadline = execs_[i].state == State::kFree ? 0 : execs_[i].deadline;
    if (deadline != 0 && (next == 0 || deadline < next)) next = deadline;
  }
  return next;
}

void Execs::RunDeadlines(uint64_t now) {
  for (size_t i = 0; i < high_water_; ++i) {
    Exec& exec = execs_[i];
    if (exec.deadline == 0 || exec.deadline > now) continue;
    if (exec.state == State::kStarting) {
      // Stopped from inside after it had been chosen. A few more attempts, then it is their loss.
      if (exec.attempts >= kMaxAttempts) {
        Fail(exec, {Stage::kInterference, ETIMEDOUT, 0});
      } else {
        Abandon(exec.slot);
        Attempt(exec);
      }
    } else if (exec.state == State::kRunning && !exec.timed_out && !exec.killed) {
      exec.timed_out = true;
      SignalGroup(exec.slot, SIGTERM);
      exec.deadline = now + exec.grace;
      if (exec.grace == 0) Kill(exec);
    } else if (exec.state == State::kRunning && !exec.killed) {
      Kill(exec);
    } else if (exec.state == State::kRunning) {
      Ended(exec, CLD_KILLED, SIGKILL, {});
    }
  }
  if (next_refill_ != 0 && next_refill_ <= now) Refill();
  if (next_sweep_ != 0 && next_sweep_ <= now) Sweep();
}

void Execs::Describe(HelloReplyMessage& reply) const {
  reply.last_exec = last_number_;
  reply.exec_count = static_cast<uint32_t>(ended_count_ < kEndedKept ? ended_count_ : kEndedKept);
  for (size_t i = 0; i < high_water_; ++i) {
    if (execs_[i].state == State::kRunning) ++reply.exec_count;
  }
}

void Execs::SendStatus() const {
  const size_t kept = ended_count_ < kEndedKept ? ended_count_ : kEndedKept;
  for (size_t i = ended_count_ - kept; i < ended_count_; ++i) {
    ExecStatusMessage message = {};
    message.header = Header(MessageType::kExecStatus);
    message.exited = ended_[i % kEndedKept];
    message.exec = message.exited.exec;
    Send(context_.connection, &message, sizeof message);
  }
  for (size_t i = 0; i < high_water_; ++i) {
    if (execs_[i].state != State::kRunning) continue;
    ExecStatusMessage message = {};
    message.header = Header(MessageType::kExecStatus);
    message.exec = execs_[i].number;
    message.running = 1;
    message.pid = execs_[i].slot.pid;
    Send(context_.connection, &message, sizeof message);
  }
}

void Execs::CloseAll() {
  if (has_waiting_) CloseSlot(waiting_);
  for (size_t i = 0; i < high_water_; ++i) {
    if (execs_[i].state != State::kFree) CloseSlot(execs_[i].slot);
  }
}

int Execs::RemoveGroups() {
  const int fd = openat(context_.box, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? 0 : errno;
  alignas(dirent64) static char entries[32768];
  int error = 0;
  for (long size; (size = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0;) {
    for (long at = 0; at < size;) {
      const dirent64& entry = *reinterpret_cast<dirent64*>(entries + at);
      at += entry.d_reclen;
      if (strncmp(entry.d_name, "exec-", 5) != 0) continue;
      if (unlinkat(context_.box, entry.d_name, AT_REMOVEDIR) < 0 && errno != ENOENT) error = errno;
    }
  }
  close(fd);
  return error;
}

}  // namespace sandboxd::shim
