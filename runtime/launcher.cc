#include "runtime/launcher.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/memfd.h"
#include "base/socket.h"
#include "base/status.h"
#include "runtime/shim_protocol.h"

extern "C" {
extern const char sandboxd_launcher_program_begin[];
extern const char sandboxd_launcher_program_end[];
}

namespace sandboxd {
namespace {

constexpr int kLinkInZygote = 3;

// In the new process, before it becomes the zygote: system calls only.
[[noreturn]] void BecomeZygote(int program, int link, const char* scratch) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // The program's descriptor moves out of the way of the link's place; both may be it already.
  const int moved = fcntl(program, F_DUPFD_CLOEXEC, kLinkInZygote + 1);
  const int null = open("/dev/null", O_RDWR);
  if (moved < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0) _exit(126);
  if (dup2(link, kLinkInZygote) < 0 || fcntl(kLinkInZygote, F_SETFD, 0) < 0) _exit(126);
  char link_number[] = {'0' + kLinkInZygote, '\0'};
  char name[] = "sandboxd-launcher";
  char* argv[] = {name, link_number, const_cast<char*>(scratch), nullptr};
  char* env[] = {nullptr};
  syscall(SYS_execveat, moved, "", argv, env, AT_EMPTY_PATH);
  _exit(126);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Launcher>> Launcher::Create(EventLoop& loop, std::string scratch) {
  auto launcher = std::unique_ptr<Launcher>(new Launcher(loop, std::move(scratch)));
  ASSIGN_OR_RETURN(launcher->program_,
                   SealedMemfd("sandboxd-launcher",
                               absl::MakeConstSpan(sandboxd_launcher_program_begin,
                                                   sandboxd_launcher_program_end),
                               /*executable=*/true));
  RETURN_IF_ERROR(launcher->Start());
  return launcher;
}

Launcher::~Launcher() {
  if (link_.valid()) loop_.Remove(link_.get());
  link_.Reset();  // The zygote leaves when its link closes.
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
}

absl::Status Launcher::Start() {
  ASSIGN_OR_RETURN(auto pair, UnixPair(SOCK_SEQPACKET));
  const pid_t pid = fork();
  if (pid == 0) BecomeZygote(program_.get(), pair.second.get(), scratch_.c_str());
  if (pid < 0) return ErrnoError("forking the zygote");
  pid_ = pid;
  link_ = std::move(pair.first);
  if (fcntl(link_.get(), F_SETFL, O_NONBLOCK) < 0)
    return ErrnoError("setting up the zygote's link");
  return loop_.Add(link_.get(), EPOLLIN, [this](uint32_t) { OnReadable(); });
}

void Launcher::Spawn(const ShimRequest& request, Callback callback) {
  SpawnMessage message = {};
  message.header = {MessageType::kSpawn, kShimProtocolVersion};
  message.request = next_request_++;
  message.id_base = request.id_base;
  message.id_count = 65536;
  strncpy(message.id, request.id.c_str(), sizeof message.id - 1);
  const int fds[] = {request.connection,   request.listener,    request.cgroup,
                     request.prepare_plan, request.init_filter, request.exec_filter};
  static_assert(std::size(fds) == kSpawnDescriptors);
  absl::Status status = SendMessage(
      link_.get(), absl::MakeConstSpan(reinterpret_cast<const char*>(&message), sizeof message),
      fds);
  if (status.ok()) {
    waiting_.emplace(message.request, std::move(callback));
    return;
  }
  loop_.Defer([callback = std::move(callback), status = std::move(status)]() mutable {
    callback(std::move(status));
  });
}

void Launcher::OnReadable() {
  while (true) {
    SpawnedMessage message = {};
    auto received = ReceiveMessage(
        link_.get(), absl::MakeSpan(reinterpret_cast<char*>(&message), sizeof message));
    if (absl::IsNotFound(received.status())) return;
    if (!received.ok() || received->size == 0) return Restart();
    const auto it = waiting_.find(message.request);
    if (it == waiting_.end()) continue;
    Callback callback = std::move(it->second);
    waiting_.erase(it);
    if (message.error != 0 || received->fds.size() != 1) {
      callback(ErrnoError(message.error, "forking a shim"));
    } else {
      callback(Shim{.pidfd = std::move(received->fds[0]), .pid = message.pid});
    }
  }
}

// The zygote holds no state: a new one serves as well. Shims do not notice.
void Launcher::Restart() {
  loop_.Remove(link_.get());
  link_.Reset();
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
  auto waiting = std::move(waiting_);
  waiting_.clear();
  Start().IgnoreError();
  for (auto& [request, callback] : waiting) {
    callback(absl::UnavailableError("the zygote ended; try again"));
  }
}

}  // namespace sandboxd
