// The execs of one sandbox: their processes, pipes, deadlines and ends.
#ifndef SANDBOXD_RUNTIME_SHIM_EXECS_H_
#define SANDBOXD_RUNTIME_SHIM_EXECS_H_

#include <cstddef>
#include <cstdint>

#include <poll.h>
#include <sys/types.h>
#include <sys/wait.h>

#include "runtime/shim/channel.h"
#include "runtime/shim/context.h"
#include "runtime/shim/slot.h"
#include "runtime/shim_protocol.h"

namespace sandboxd::shim {

// Execs that run or whose groups still hold processes. The daemon's own limit is lower.
inline constexpr size_t kMaxExecs = 256;
// Ends that are remembered for a daemon that was away.
inline constexpr size_t kEndedKept = 64;

class Execs {
 public:
  explicit Execs(Context& context) : context_(context) {}

  // Makes the slot that the next exec will use, unless there is one. Failures wait for the exec.
  void Refill();
  // The same when nothing else is to be done.
  void RefillSoon();
  // Around the pivot of init's root: before it, a slot that has begun to enter is awaited; during
  // it, one may be made that does not enter yet; after it, that one enters.
  StageFailure Settle();
  void MakeWaiting();
  void EnterWaiting();

  void Start(const ExecMessage& message, FdList& fds);
  void Signal(const SignalMessage& message);
  void Release(uint64_t number);

  // A child ended; it may be none of the execs'.
  void Reaped(pid_t pid, const siginfo_t& info, const rusage& usage);

  // What to poll for, appended to `fds`; and what to do with the results. Returns the new count.
  size_t Watch(pollfd* fds, size_t count) const;
  void Handle(const pollfd* fds, size_t count);

  // The next moment something is due on CLOCK_MONOTONIC in microseconds, or 0; and doing it.
  uint64_t NextDeadline() const;
  void RunDeadlines(uint64_t now);

  // For a new daemon.
  void Describe(HelloReplyMessage& reply) const;
  void SendStatus() const;

  // Closes everything.
  void CloseAll();
  // Removes the execs' groups that are empty. Returns 0 when none is left, or an errno value.
  int RemoveGroups();

 private:
  enum class State : uint8_t { kFree, kStarting, kRunning, kLingering };
  struct Exec {
    State state;
    bool timed_out;
    bool killed;    // With all it started, by us.
    bool released;  // The daemon reads no more: output is thrown away.
    uint64_t number;
    Slot slot;
    uint64_t started;   // All in microseconds of CLOCK_MONOTONIC.
    uint64_t deadline;  // Start, timeout, grace or the end after a kill; 0: none.
    uint64_t grace;
    uint64_t timeout;
    uint32_t attempts;
    bool stdin_pipe;
    int plan;  // Kept until the exec runs, for another attempt.
    int program;
    int input;
  };

  Exec* Find(uint64_t number);
  Exec* FindFree();
  void Attempt(Exec& exec);
  void OnControl(Exec& exec);
  void Started(Exec& exec);
  void Fail(Exec& exec, StageFailure failure);
  void Kill(Exec& exec);
  void Ended(Exec& exec, int code, int status, const rusage& usage);
  void KillGroup(const Slot& slot) const;
  void SignalGroup(const Slot& slot, int signal) const;
  bool RemoveGroup(uint64_t group) const;
  void Sweep();
  void Abandon(Slot& slot);
  bool TakeSlot(Slot& slot, StageFailure& failure);

  Context& context_;
  Slot waiting_;
  bool has_waiting_ = false;
  bool entered_ = false;  // It was told to enter.
  uint64_t next_refill_ = 0;
  uint64_t last_end_ = 0;
  bool eager_ = false;  // Execs follow each other closely: the next slot is made at once.
  uint64_t next_group_ = 1;
  uint64_t last_number_ = 0;
  uint64_t next_sweep_ = 0;
  size_t high_water_ = 0;  // Entries in use are below it.
  Exec execs_[kMaxExecs] = {};
  ExecExitedMessage ended_[kEndedKept] = {};
  size_t ended_count_ = 0;  // In all; the ring holds the last ones.
};

}  // namespace sandboxd::shim

#endif  // SANDBOXD_RUNTIME_SHIM_EXECS_H_
