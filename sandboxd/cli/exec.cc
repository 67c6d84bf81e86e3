#include "sandboxd/cli/exec.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/status.h"
#include "sandboxd/cli/output.h"
#include "sandboxd/wire/error.h"

namespace sandboxd::cli {
namespace {

constexpr size_t kInputChunk = 64 << 10;

// False where nobody reads any more.
bool WriteAll(int fd, absl::string_view data) {
  while (!data.empty()) {
    const ssize_t n = write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    data.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

class ExecSession {
 public:
  ExecSession(client::Client& client, uint64_t stream, bool input)
      : client_(client), stream_(stream), input_(input), credit_(client.initial_credit()) {}

  int Run() {
    BlockSignals();
    while (!done_) {
      pollfd fds[3] = {{client_.fd(), POLLIN, 0}, {signals_.get(), POLLIN, 0}, {-1, POLLIN, 0}};
      if (input_ && credit_ > 0 && started_) fds[2].fd = STDIN_FILENO;
      if (!client_.pending() && poll(fds, 3, -1) < 0 && errno != EINTR) break;
      if (fds[1].revents != 0) OnSignal();
      if (client_.pending() || fds[0].revents != 0) {
        const absl::Status status = OnFrame();
        if (!status.ok()) return PrintError(status);
      }
      if (fds[2].revents != 0) {
        const absl::Status status = OnInput();
        if (!status.ok()) return PrintError(status);
      }
    }
    return code_;
  }

 private:
  // A first Ctrl-C ends the exec, and its end is still told; a second one leaves at once.
  void BlockSignals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    signals_.Reset(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  void OnSignal() {
    signalfd_siginfo info;
    if (read(signals_.get(), &info, sizeof info) != sizeof info) return;
    if (interrupted_) _exit(128 + static_cast<int>(info.ssi_signo));
    interrupted_ = true;
    client_.SendCancel(stream_).IgnoreError();
  }

  absl::Status OnFrame() {
    // Not blocking: what arrived may be a Ping, and signals must be served meanwhile.
    auto read = client_.Read(absl::ZeroDuration());
    if (DetailOf(read.status()).reason == "NO_ANSWER") return absl::OkStatus();
    ASSIGN_OR_RETURN(const client::Frame frame, std::move(read));
    if (frame.stream != stream_) return absl::OkStatus();
    switch (frame.type) {
      case wire::FrameType::kReply:
        started_ = true;
        break;
      case wire::FrameType::kError:
        return wire::StatusFromBody(frame.body);
      case wire::FrameType::kData:
        if (!WriteAll(frame.channel == wire::Channel::kStderr ? STDERR_FILENO : STDOUT_FILENO,
                      frame.data)) {
          return client_.SendCancel(stream_);
        }
        break;
      case wire::FrameType::kCredit:
        credit_ += frame.credit;
        break;
      case wire::FrameType::kExit:
        OnExit(frame.body);
        break;
      case wire::FrameType::kEnd:
        if (frame.channel == wire::Channel::kStream) done_ = true;
        if (frame.channel == wire::Channel::kStdin) LeaveInput();
        break;
      default:
        break;
    }
    return absl::OkStatus();
  }

  void OnExit(const nlohmann::json& body) {
    input_ = false;
    if (body["reason"] == "sandbox_ended") {
      fprintf(stderr, "sandboxctl: the sandbox ended while the command ran\n");
    }
    if (body["timed_out"] == true) {
      code_ = kExitTimeout;
    } else if (body["signal"].is_number()) {
      code_ = 128 + body["signal"].get<int>();
    } else {
      code_ = body["exit_code"].get<int>();
    }
  }

  // Whoever writes to our standard input learns, by SIGPIPE, that nobody reads it.
  void LeaveInput() {
    input_ = false;
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0) dup2(null, STDIN_FILENO);
    if (null > STDIN_FILENO) close(null);
  }

  absl::Status OnInput() {
    static char buffer[kInputChunk];
    const ssize_t n = read(STDIN_FILENO, buffer, std::min<uint64_t>(sizeof buffer, credit_));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return absl::OkStatus();
    if (n <= 0) {
      input_ = false;
      return client_.SendEnd(stream_, wire::Channel::kStdin);
    }
    credit_ -= static_cast<uint64_t>(n);
    return client_.SendData(stream_, absl::string_view(buffer, static_cast<size_t>(n)));
  }

  client::Client& client_;
  const uint64_t stream_;
  bool input_;
  uint64_t credit_;
  UniqueFd signals_;
  bool started_ = false;
  bool done_ = false;
  bool interrupted_ = false;
  int code_ = kExitError;
};

}  // namespace

int RunExec(client::Client& client, const nlohmann::json& params) {
  const auto stream = client.Open("exec.start", params);
  if (!stream.ok()) return PrintError(stream.status());
  return ExecSession(client, *stream, params.value("stdin", "none") == "pipe").Run();
}

}  // namespace sandboxd::cli
