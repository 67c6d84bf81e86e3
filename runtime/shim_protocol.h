// What the daemon says to the zygote and to shims, over SOCK_SEQPACKET: one struct a message, with
// descriptors where the comment names them. Plain data, shared with the launch program.
//
// Frozen: a shim outlives its daemon, so version N of one speaks to N+1 of the other. A message may
// grow at its end (a receiver takes the size it knows and treats what is missing as zero), fields
// never change their place or sense, and types are never reused.
//
//   daemon                    zygote                     shim                       init
//     | -- Spawn ----------------> | -- fork ---------------> | -- clone3 -------------> |
//     | <- Spawned (pidfd) ------- |                          | <------ staged --------- |
//     | <------------------------------------- Prepared ----- |     (the pool waits here)
//     | -- Launch ------------------------------------------> | -- root, mounts -------> |
//     | <------------------------------------- Launched ----- | <------ ready ---------- |
//     | -- Exec --------------------------------------------> |
//     | <----------------------- ExecStarted (its pipes) ---- |
//     | <------------------------------------- ExecExited --- |
//     | -- ExecRelease -------------------------------------> |
//     | -- Kill --------------------------------------------> |
//     | <------------------------------------- Killed ------- |  (the shim exits)
//
// A new daemon connects to the shim's socket and says Hello; the shim answers HelloReply, then
// ExecStatus for each exec it knows.
#ifndef SANDBOXD_RUNTIME_SHIM_PROTOCOL_H_
#define SANDBOXD_RUNTIME_SHIM_PROTOCOL_H_

#include <cstdint>

#include "runtime/stage_format.h"

namespace sandboxd {

inline constexpr uint32_t kShimProtocolVersion = 1;
inline constexpr uint32_t kMaxShimMessage = 512;

enum class MessageType : uint32_t {
  kSpawn = 1,
  kSpawned = 2,
  kPrepared = 3,
  kLaunch = 4,
  kLaunched = 5,
  kExec = 6,
  kExecStarted = 7,
  kExecExited = 8,
  kExecRelease = 9,
  kSignal = 10,
  kKill = 11,
  kKilled = 12,
  kHello = 13,
  kHelloReply = 14,
  kExecStatus = 15,
  kInitExited = 16,
};

struct MessageHeader {
  MessageType type;
  uint32_t version;  // Of the sender.
};

// To the zygote. Descriptors: the shim's end of its connection to the daemon, the shim's listening
// socket, the directory of the sandbox's cgroup (with box, box/init and shim made), the
// PreparePlan, the filter of init, the filter of execs (an empty filter is not loaded).
inline constexpr uint32_t kSpawnDescriptors = 6;
struct SpawnMessage {
  MessageHeader header;
  uint64_t request;
  uint32_t id_base;  // First of the host ids that the sandbox's ids map to.
  uint32_t id_count;
  char id[40];  // For the process names; NUL-terminated.
};

// From the zygote. Descriptor on success: a pidfd of the shim.
struct SpawnedMessage {
  MessageHeader header;
  uint64_t request;
  int32_t error;
  int32_t pid;
};

// The sandbox's namespaces stand; the image may come. On failure the shim exits.
struct PreparedMessage {
  MessageHeader header;
  StageFailure failure;  // stage kNone: it went well.
  int32_t init_pid;
  uint32_t time_count;
  StageTime times[kMaxStageTimes];
};

// Descriptors: see LaunchPlan.
struct LaunchMessage {
  MessageHeader header;
};

// On failure the shim has removed everything and exits.
struct LaunchedMessage {
  MessageHeader header;
  StageFailure failure;
  uint32_t zero;
  uint32_t time_count;
  StageTime times[kMaxStageTimes];
};

// Descriptors: see ExecPlan.
struct ExecMessage {
  MessageHeader header;
  uint64_t exec;        // The daemon's number for it; not 0, never used twice.
  uint64_t timeout_ms;  // 0: none. Counted on CLOCK_MONOTONIC.
  uint64_t grace_ms;
  uint32_t stdin_pipe;  // 1: the plan has kExecStdinPipe.
  uint32_t zero;
};

// Descriptors on success: stdin's write end (only with kExecStdinPipe), then the read ends of
// stdout and stderr. The shim keeps the read ends too, so the process outlives a daemon.
struct ExecStartedMessage {
  MessageHeader header;
  uint64_t exec;
  StageFailure failure;
  int32_t pid;  // On the host.
  int32_t pid_inside;
};

inline constexpr uint32_t kExecTimedOut = 1;

// The exec's process has ended and is reaped.
struct ExecExitedMessage {
  MessageHeader header;
  uint64_t exec;
  int32_t end_code;    // CLD_EXITED, CLD_KILLED or CLD_DUMPED: 9 is otherwise ambiguous.
  int32_t end_status;  // Exit code, or signal.
  uint32_t flags;      // kExecTimedOut
  uint32_t zero;
  uint64_t wall_us;
  uint64_t user_us;
  uint64_t system_us;
};

// The daemon reads the exec's output no more: what is still written is thrown away.
struct ExecReleaseMessage {
  MessageHeader header;
  uint64_t exec;
};

struct SignalMessage {
  MessageHeader header;
  uint64_t exec;
  int32_t signal;
  uint32_t all;  // To every process of the exec, and not only to its first.
};

struct KillMessage {
  MessageHeader header;
};

// Everything is gone but the shim's own group. With a failure something could not be removed, and
// the shim stays.
struct KilledMessage {
  MessageHeader header;
  StageFailure failure;
  uint32_t remaining;  // Processes still in the box, with a failure.
};

struct HelloMessage {
  MessageHeader header;
};

enum class ShimState : uint32_t { kPreparing = 1, kPrepared = 2, kRunning = 3, kEnded = 4 };

// Descriptor: a pidfd of the shim. The socket's peer credentials would name who made it listen.
struct HelloReplyMessage {
  MessageHeader header;
  ShimState state;
  int32_t init_pid;
  uint64_t last_exec;   // The highest exec number seen.
  uint32_t exec_count;  // ExecStatus messages that follow.
  uint32_t zero;
};

struct ExecStatusMessage {
  MessageHeader header;
  uint64_t exec;
  uint32_t running;
  int32_t pid;
  ExecExitedMessage exited;  // Where it is not running.
};

// PID 1 of the sandbox ended by itself; every process inside is gone with it. The shim waits for
// Kill.
struct InitExitedMessage {
  MessageHeader header;
  int32_t end_code;
  int32_t end_status;
};

}  // namespace sandboxd

#endif  // SANDBOXD_RUNTIME_SHIM_PROTOCOL_H_
