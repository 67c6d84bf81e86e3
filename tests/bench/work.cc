#include "tests/bench/work.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "sandboxd/client/client.h"

namespace sandboxd::bench {
namespace {

using client::Client;
using client::ExecEvent;
using client::ExecStream;

constexpr size_t kReadSize = 65536;
constexpr int64_t kListPage = 1000;

double Now() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

absl::Status Wrong(const std::string& what) { return absl::InternalError(what); }

absl::StatusOr<Client> Connect(const nlohmann::json& row) {
  return Client::Connect(row.at("socket").get<std::string>(), "bench/1");
}

// Runs to the end of the stream; an end other than exit code 0, or other output than `bytes`, is an
// error.
absl::Status RunExec(Client& client, const nlohmann::json& params, uint64_t bytes) {
  ASSIGN_OR_RETURN(ExecStream exec, client.StartExec(params));
  uint64_t got = 0;
  nlohmann::json end;
  for (;;) {
    ASSIGN_OR_RETURN(const ExecEvent event, exec.Next());
    if (event.kind == ExecEvent::Kind::kStdout) got += event.data.size();
    if (event.kind == ExecEvent::Kind::kExit) end = event.exit;
    if (event.kind == ExecEvent::Kind::kDone) break;
  }
  if (end.value("exit_code", -1) != 0) return Wrong(absl::StrCat("the exec ended: ", end.dump()));
  if (got != bytes) return Wrong(absl::StrCat(got, " bytes of output instead of ", bytes));
  return absl::OkStatus();
}

class Cycle : public Work {
 public:
  Cycle(Client client, const nlohmann::json& row)
      : client_(std::move(client)), create_(row.at("create")), argv_(row.at("argv")) {}

  absl::StatusOr<Sample> Run() override {
    const double start = Now();
    ASSIGN_OR_RETURN(const nlohmann::json created, client_.Call("sandbox.create", create_));
    const nlohmann::json& id = created.at("sandbox").at("id");
    const double made = Now();
    RETURN_IF_ERROR(RunExec(client_, {{"sandbox", id}, {"argv", argv_}}, 0));
    const double ran = Now();
    RETURN_IF_ERROR(client_.Call("sandbox.kill", {{"sandbox", id}}).status());
    const double killed = Now();
    return Sample{{"total", killed - start},
                  {"create", made - start},
                  {"exec", ran - made},
                  {"kill", killed - ran}};
  }

 private:
  Client client_;
  const nlohmann::json create_;
  const nlohmann::json argv_;
};

class Exec : public Work {
 public:
  Exec(Client client, const nlohmann::json& row)
      : client_(std::move(client)),
        params_({{"sandbox", row.at("sandbox")}, {"argv", row.at("argv")}}),
        bytes_(row.value("bytes", uint64_t{0})) {}

  absl::StatusOr<Sample> Run() override {
    const double start = Now();
    RETURN_IF_ERROR(RunExec(client_, params_, bytes_));
    return Sample{{"total", Now() - start}};
  }

 private:
  Client client_;
  const nlohmann::json params_;
  const uint64_t bytes_;
};

class List : public Work {
 public:
  List(Client client, const nlohmann::json& row)
      : client_(std::move(client)), rows_(row.at("rows").get<size_t>()) {}

  absl::StatusOr<Sample> Run() override {
    const double start = Now();
    size_t count = 0;
    nlohmann::json params = {{"limit", kListPage}};
    for (;;) {
      ASSIGN_OR_RETURN(const nlohmann::json page, client_.Call("sandbox.list", params));
      count += page.at("sandboxes").size();
      const auto next = page.find("next");
      if (next == page.end() || next->is_null()) break;
      params["after"] = *next;
    }
    if (count != rows_) return Wrong(absl::StrCat(count, " rows instead of ", rows_));
    return Sample{{"total", Now() - start}};
  }

 private:
  Client client_;
  const size_t rows_;
};

class Spawn : public Work {
 public:
  explicit Spawn(const nlohmann::json& row)
      : argv_(row.at("argv").get<std::vector<std::string>>()),
        bytes_(row.value("bytes", uint64_t{0})),
        piped_(row.at("kind") == "pipe"),
        null_(open("/dev/null", O_RDWR | O_CLOEXEC)) {
    for (std::string& argument : argv_) pointers_.push_back(argument.data());
    pointers_.push_back(nullptr);
    const nlohmann::json files = row.value("files", nlohmann::json::object());
    for (const auto& [fd, path] : files.items()) files_[std::stoi(fd)] = path;
  }

  absl::StatusOr<Sample> Run() override {
    const double start = Now();
    int ends[2] = {-1, -1};
    if (piped_ && pipe2(ends, O_CLOEXEC) < 0) return ErrnoError("pipe");
    const UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, null_.get(), STDIN_FILENO);
    for (const auto& [fd, path] : files_) {
      posix_spawn_file_actions_addopen(&actions, fd, path.c_str(), O_RDONLY, 0);
    }
    posix_spawn_file_actions_adddup2(&actions, piped_ ? writer.get() : null_.get(), STDOUT_FILENO);
    pid_t pid = 0;
    errno = posix_spawn(&pid, pointers_[0], &actions, nullptr, pointers_.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (errno != 0) return ErrnoError(absl::StrCat("starting ", argv_[0]));
    writer.Reset();
    const uint64_t got = piped_ ? Drain(reader.get()) : 0;
    int status = 0;
    if (waitpid(pid, &status, 0) != pid) return ErrnoError("waitpid");
    if (status != 0) return Wrong(absl::StrCat(argv_[0], " ended with status ", status));
    if (got != bytes_) return Wrong(absl::StrCat(got, " bytes of output instead of ", bytes_));
    return Sample{{"total", Now() - start}};
  }

 private:
  static uint64_t Drain(int fd) {
    static char buffer[kReadSize];
    uint64_t got = 0;
    for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;) got += static_cast<uint64_t>(n);
    return got;
  }

  std::vector<std::string> argv_;
  std::vector<char*> pointers_;
  std::map<int, std::string> files_;
  const uint64_t bytes_;
  const bool piped_;
  const UniqueFd null_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Work>> MakeWork(const nlohmann::json& row) {
  const std::string kind = row.at("kind");
  if (kind == "spawn" || kind == "pipe") return std::make_unique<Spawn>(row);
  ASSIGN_OR_RETURN(Client client, Connect(row));
  if (kind == "cycle") return std::make_unique<Cycle>(std::move(client), row);
  if (kind == "exec") return std::make_unique<Exec>(std::move(client), row);
  if (kind == "list") return std::make_unique<List>(std::move(client), row);
  return absl::InvalidArgumentError(absl::StrCat("no kind of work: ", kind));
}

}  // namespace sandboxd::bench
