// The operations of docs/protocol.md, section 5: parameters in, one answer or a stream out.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status.h"
#include "runtime/user_ref.h"
#include "sandboxd/server/daemon.h"
#include "sandboxd/server/exec_stream.h"
#include "sandboxd/server/sandbox_json.h"
#include "sandboxd/version.h"
#include "sandboxd/wire/bytes.h"
#include "sandboxd/wire/error.h"
#include "sandboxd/wire/json.h"

namespace sandboxd::server {
namespace {

using nlohmann::json;

constexpr int kProtocolVersion = 1;
constexpr size_t kEventBatchBytes = 256 << 10;
constexpr size_t kListBytes = 512 << 10;  // Of one page's rows; a row has less.
constexpr absl::Duration kEventRetry = absl::Milliseconds(50);

// An operation that waits: answered later, or abandoned when the client cancels or goes.
class WaitStream : public Stream {
 public:
  WaitStream(Connection& connection, uint64_t stream) : connection_(connection), stream_(stream) {}
  ~WaitStream() override {
    if (abandon) abandon();
  }
  void OnCancel() override {
    if (abandon) std::exchange(abandon, nullptr)();  // There is one answer.
    connection_.Error(stream_, ReasonError(absl::StatusCode::kCancelled, "CANCELLED", "stream",
                                           "the client cancelled"));
  }
  absl::AnyInvocable<void()> abandon;

 private:
  Connection& connection_;
  const uint64_t stream_;
};

// A subscription: a place in the ring of events, moved on as the connection takes them.
class EventStream : public Stream, public EventLog::Subscriber {
 public:
  EventStream(Connection& connection, uint64_t stream, EventLog& log, std::string sandbox,
              uint64_t next)
      : connection_(connection),
        stream_(stream),
        log_(log),
        sandbox_(std::move(sandbox)),
        next_(next) {
    log_.Subscribe(*this);
  }
  ~EventStream() override {
    log_.Unsubscribe(*this);
    if (timer_set_) connection_.loop().CancelTimer(timer_);
  }
  void OnCancel() override { connection_.EndStream(stream_); }
  void OnNews() override {
    if (!timer_set_) Send();
  }
  void Send() {
    const uid_t uid = connection_.peer().uid;
    if (next_ < log_.oldest()) {
      connection_.SendEvent(stream_,
                            {{"event", "gap"}, {"from", next_}, {"to", log_.oldest() - 1}});
      next_ = log_.oldest();
    }
    while (next_ < log_.next() && connection_.queued() < kEventBatchBytes) {
      const Event& event = log_.at(next_++);
      if (uid != 0 && event.owner != uid) continue;
      if (!sandbox_.empty() && event.sandbox != sandbox_) continue;
      connection_.SendEvent(stream_, event.body);
    }
    if (next_ == log_.next()) return;
    timer_set_ = true;
    timer_ = connection_.loop().After(kEventRetry, [this] {
      timer_set_ = false;
      Send();
    });
  }

 private:
  Connection& connection_;
  const uint64_t stream_;
  EventLog& log_;
  const std::string sandbox_;
  uint64_t next_;
  bool timer_set_ = false;
  EventLoop::TimerId timer_;
};

const std::string& LabelValue(const std::map<std::string, std::string>::const_iterator& label) {
  return label->second;
}
const json& LabelValue(const json::const_iterator& label) { return *label; }

json EndedJson(const Sandboxes::Ended& ended) {
  return {{"id", ended.id},
          {"ended",
           {{"at", TimeJson(ended.end.at)},
            {"reason", ended.end.reason},
            {"message", ended.end.message}}}};
}

}  // namespace

absl::StatusOr<json> Daemon::OnHello(const json& hello) {
  const auto version = hello.find("protocol");
  if (version == hello.end() || !version->is_number_integer() ||
      version->get<int64_t>() != kProtocolVersion) {
    return ReasonError(absl::StatusCode::kFailedPrecondition, "UNSUPPORTED_PROTOCOL", "Hello",
                       absl::StrCat("this server speaks protocol ", kProtocolVersion));
  }
  const auto required = hello.find("require");
  if (required != hello.end() && (!required->is_array() || !required->empty())) {
    return ReasonError(absl::StatusCode::kFailedPrecondition, "UNSUPPORTED_FEATURE", "Hello",
                       "this server has none of the required features");
  }
  return json{{"protocol", kProtocolVersion},
              {"server", absl::StrCat("sandboxd/", kVersion)},
              {"instance", instance_},
              {"features", json::array()},
              {"limits",
               {{"control_bytes", wire::kMaxControlBytes},
                {"data_bytes", wire::kMaxDataBytes},
                {"streams", config_.limits.streams_per_connection},
                {"initial_credit", config_.limits.initial_credit}}}};
}

void Daemon::OnRequest(Connection& connection, uint64_t stream, const json& request) {
  static const std::map<std::string, Handler>* handlers = new std::map<std::string, Handler>{
      {"daemon.info", &Daemon::DaemonInfo},       {"sandbox.create", &Daemon::SandboxCreate},
      {"sandbox.list", &Daemon::SandboxList},     {"sandbox.info", &Daemon::SandboxInfo},
      {"sandbox.kill", &Daemon::SandboxKill},     {"sandbox.wait", &Daemon::SandboxWait},
      {"sandbox.events", &Daemon::SandboxEvents}, {"exec.start", &Daemon::ExecStart},
      {"exec.signal", &Daemon::ExecSignal},       {"exec.wait", &Daemon::ExecWait}};
  static const json* empty = new json(json::object());
  wire::FieldReader reader(request, "request");
  const std::string op = reader.RequiredString("op");
  const std::string trace = reader.String("traceparent");
  const json* params = reader.Value("params");
  absl::Status status = reader.Finish();
  if (status.ok()) {
    const auto handler = handlers->find(op);
    status =
        handler == handlers->end()
            ? ReasonError(absl::StatusCode::kUnimplemented, "UNKNOWN_OPERATION",
                          absl::StrCat("operation ", op), absl::StrCat("no operation ", op))
            : (this->*handler->second)(connection, stream, params != nullptr ? *params : *empty);
  }
  Log(LogLevel::kDebug, "request",
      {{"op", op}, {"uid", absl::StrCat(connection.peer().uid)}, {"traceparent", trace}});
  if (!status.ok()) connection.Error(stream, status);
}

absl::Status Daemon::DaemonInfo(Connection& connection, uint64_t stream, const json& params) {
  RETURN_IF_ERROR(wire::FieldReader(params, "params").Finish());
  utsname kernel = {};
  uname(&kernel);
  json profiles = json::array();
  for (const auto& [name, profile] : config_.profiles) profiles.push_back(name);
  connection.Reply(stream,
                   {{"version", kVersion},
                    {"protocol", kProtocolVersion},
                    {"instance", instance_},
                    {"pid", getpid()},
                    {"started_at", TimeJson(started_at_)},
                    {"kernel", kernel.release},
                    {"cgroup_root", cgroups_->path()},
                    {"socket", config_.socket},
                    {"sandboxes", sandboxes_->Visible(connection.peer().uid).size()},
                    {"pool", {{"size", config_.pool_size}, {"ready", sandboxes_->pool_ready()}}},
                    {"images", sandboxes_->images()},
                    {"profiles", profiles},
                    {"limits",
                     {{"sandboxes", config_.limits.sandboxes},
                      {"execs_per_sandbox", config_.limits.execs_per_sandbox},
                      {"timeout_max_ms", config_.limits.timeout_max_ms}}}});
  return absl::OkStatus();
}

absl::Status Daemon::SandboxCreate(Connection& connection, uint64_t stream, const json& params) {
  ASSIGN_OR_RETURN(CreateSpec spec, ParseCreate(params, config_));
  const int64_t begin = EventLoop::BootTimeNanos();
  sandboxes_->Create(
      connection.peer().uid, std::move(spec),
      [this, observer = connection.observe(), stream,
       begin](absl::StatusOr<Sandboxes::Created> created) {
        const auto alive = observer.lock();
        if (alive == nullptr) {
          // The client went before it could learn the id; with a key it can still find it.
          if (created.ok() && created->fresh && created->sandbox->spec().idempotency_key.empty()) {
            sandboxes_->Kill(*created->sandbox, "killed", [](absl::Status) {});
          }
          return;
        }
        if (!created.ok()) return (*alive)->Error(stream, created.status());
        const Sandbox& sandbox = *created->sandbox;
        StageTimes stages = sandbox.stages();
        stages.emplace_back("total",
                            static_cast<uint32_t>((EventLoop::BootTimeNanos() - begin) / 1000));
        (*alive)->Reply(stream, {{"sandbox", sandboxes_->Describe(sandbox)},
                                 {"created", created->fresh},
                                 {"stages", StagesJson(stages)}});
      });
  return absl::OkStatus();
}

absl::Status Daemon::SandboxList(Connection& connection, uint64_t stream, const json& params) {
  wire::FieldReader reader(params, "params");
  const bool all = reader.Bool("all", false);
  const std::string name = reader.String("name");
  const std::string state = reader.String("state");
  const std::string after = reader.String("after");
  const int64_t limit = reader.Integer("limit", 1000, 1, 1000);
  const json* labels = reader.Value("labels");
  if (labels != nullptr && !labels->is_object()) reader.Fail("labels", "must be an object");
  RETURN_IF_ERROR(reader.Finish());
  const uid_t uid = connection.peer().uid;
  json rows = json::array();
  json next = nullptr;
  size_t bytes = 0;
  bool skipping = !after.empty();
  // Judged before a row is made: it holds copies.
  const auto wanted = [&](const std::string& id, const json& own_name, const json& own_state,
                          const auto& own_labels) {
    if (skipping) {
      skipping = id != after;
      return false;
    }
    if (!next.is_null() || (!name.empty() && own_name != name) ||
        (!state.empty() && own_state != state)) {
      return false;
    }
    if (labels == nullptr) return true;
    const auto& items = labels->items();
    return std::all_of(items.begin(), items.end(), [&](const auto& item) {
      const auto found = own_labels.find(item.key());
      return found != own_labels.end() && item.value() == json(LabelValue(found));
    });
  };
  const auto add = [&](json row) {
    bytes += wire::DumpObject(row).size();
    if (static_cast<int64_t>(rows.size()) == limit || (bytes > kListBytes && !rows.empty())) {
      next = rows.back()["id"];
    } else {
      rows.push_back(std::move(row));
    }
  };
  if (all) {
    for (const Sandboxes::Ended& ended : sandboxes_->ended()) {
      const json& row = ended.row;
      if (uid != 0 && uid != ended.owner) continue;
      if (wanted(ended.id, row["name"], row["state"], row["labels"])) add(row);
    }
  }
  for (const Sandbox* sandbox : sandboxes_->Visible(uid)) {
    const CreateSpec& spec = sandbox->spec();
    if (wanted(sandbox->id(), spec.name, std::string(StateName(sandbox->state())), spec.labels)) {
      add(SandboxRow(*sandbox));
    }
  }
  connection.Reply(stream, {{"sandboxes", std::move(rows)}, {"next", next}});
  return absl::OkStatus();
}

absl::Status Daemon::SandboxInfo(Connection& connection, uint64_t stream, const json& params) {
  wire::FieldReader reader(params, "params");
  const std::string reference = reader.RequiredString("sandbox");
  RETURN_IF_ERROR(reader.Finish());
  ASSIGN_OR_RETURN(const Sandbox* sandbox, sandboxes_->Find(connection.peer().uid, reference));
  connection.Reply(stream, {{"sandbox", sandboxes_->Describe(*sandbox)},
                            {"stages", StagesJson(sandbox->stages())}});
  return absl::OkStatus();
}

absl::Status Daemon::SandboxKill(Connection& connection, uint64_t stream, const json& params) {
  wire::FieldReader reader(params, "params");
  const std::string reference = reader.RequiredString("sandbox");
  RETURN_IF_ERROR(reader.Finish());
  ASSIGN_OR_RETURN(Sandbox * sandbox, sandboxes_->Find(connection.peer().uid, reference));
  const int64_t begin = EventLoop::BootTimeNanos();
  sandboxes_->Kill(
      *sandbox, "killed",
      [observer = connection.observe(), stream, id = sandbox->id(), begin](absl::Status status) {
        const auto alive = observer.lock();
        if (alive == nullptr) return;
        if (!status.ok()) return (*alive)->Error(stream, status);
        (*alive)->Reply(stream,
                        {{"id", id}, {"wall_us", (EventLoop::BootTimeNanos() - begin) / 1000}});
      });
  return absl::OkStatus();
}

absl::Status Daemon::SandboxWait(Connection& connection, uint64_t stream, const json& params) {
  wire::FieldReader reader(params, "params");
  const std::string reference = reader.RequiredString("sandbox");
  RETURN_IF_ERROR(reader.Finish());
  const auto found = sandboxes_->Find(connection.peer().uid, reference);
  if (!found.ok()) {
    const Sandboxes::Ended* ended = sandboxes_->FindEnded(connection.peer().uid, reference);
    if (ended == nullptr) return found.status();
    connection.Reply(stream, EndedJson(*ended));
    return absl::OkStatus();
  }
  auto wait = std::make_unique<WaitStream>(connection, stream);
  WaitStream* raw = wait.get();
  connection.OpenStream(stream, std::move(wait));
  const uint64_t id = sandboxes_->WaitEnd((*found)->id(), [observer = connection.observe(), raw,
                                                           stream](const Sandboxes::Ended& ended) {
    const auto alive = observer.lock();
    if (alive == nullptr) return;
    raw->abandon = nullptr;
    (*alive)->Reply(stream, EndedJson(ended));
    (*alive)->CloseStream(stream);
  });
  raw->abandon = [this, id] { sandboxes_->AbandonWait(id); };
  return absl::OkStatus();
}

absl::Status Daemon::SandboxEvents(Connection& connection, uint64_t stream, const json& params) {
  wire::FieldReader reader(params, "params");
  const std::string reference = reader.String("sandbox");
  const int64_t after =
      reader.Integer("after", static_cast<int64_t>(events_.next()) - 1, 0, wire::kMaxJsonInteger);
  RETURN_IF_ERROR(reader.Finish());
  std::string id;
  if (!reference.empty()) {
    ASSIGN_OR_RETURN(const Sandbox* sandbox, sandboxes_->Find(connection.peer().uid, reference));
    id = sandbox->id();
  }
  const uint64_t next = std::min<uint64_t>(static_cast<uint64_t>(after) + 1, events_.next());
  auto events = std::make_unique<EventStream>(connection, stream, events_, std::move(id), next);
  EventStream* raw = events.get();
  connection.OpenStream(stream, std::move(events));
  connection.Reply(stream, {{"next", next}});
  raw->Send();
  return absl::OkStatus();
}

absl::Status Daemon::ExecStart(Connection& connection, uint64_t stream, const json& params) {
  wire::FieldReader reader(params, "params");
  const std::string reference = reader.RequiredString("sandbox");
  Sandbox::ExecRequest request;
  ExecSpec& spec = request.spec;
  spec.argv = reader.BytesList("argv");
  const std::vector<std::string> env = reader.BytesList("env");
  spec.cwd = reader.Bytes("cwd");
  const std::string user = reader.String("user");
  const std::string input = reader.String("stdin", "none");
  request.timeout_ms =
      static_cast<uint64_t>(reader.Integer("timeout_ms", 0, 1, config_.limits.timeout_max_ms));
  request.grace_ms = static_cast<uint64_t>(reader.Integer("grace_ms", 1000, 0, 60'000));
  if (spec.argv.empty()) reader.Fail("argv", "must have at least one element");
  if (!spec.argv.empty() && spec.argv[0].empty()) reader.Fail("argv", "names no program");
  if (input != "none" && input != "pipe") reader.Fail("stdin", "must be none or pipe");
  if (!spec.cwd.empty() && spec.cwd[0] != '/') reader.Fail("cwd", "must be an absolute path");
  RETURN_IF_ERROR(reader.Finish());
  ASSIGN_OR_RETURN(Sandbox * sandbox, sandboxes_->Find(connection.peer().uid, reference));
  const CreateSpec& defaults = sandbox->spec();
  ASSIGN_OR_RETURN(spec.env, MergeEnv({&defaults.env, &env}));
  ASSIGN_OR_RETURN(spec.user, ParseUserRef(user.empty() ? defaults.user : user));
  if (spec.cwd.empty()) spec.cwd = defaults.cwd;
  spec.stdin_pipe = input == "pipe";
  spec.capabilities = sandbox->profile().capabilities;
  spec.rlimits = sandboxes_->ExecRlimitsOf(*sandbox);
  auto exec = std::make_unique<ExecStream>(connection, stream, *sandboxes_, *sandbox);
  RETURN_IF_ERROR(exec->Start(std::move(request)));
  connection.OpenStream(stream, std::move(exec));
  return absl::OkStatus();
}

absl::Status Daemon::ExecSignal(Connection& connection, uint64_t stream, const json& params) {
  wire::FieldReader reader(params, "params");
  const std::string reference = reader.RequiredString("sandbox");
  const int64_t exec = reader.RequiredInteger("exec", 1, wire::kMaxJsonInteger);
  const int64_t number = reader.RequiredInteger("signal", 1, 64);
  const bool all = reader.Bool("all", false);
  RETURN_IF_ERROR(reader.Finish());
  ASSIGN_OR_RETURN(Sandbox * sandbox, sandboxes_->Find(connection.peer().uid, reference));
  RETURN_IF_ERROR(sandbox->SignalExec(static_cast<uint64_t>(exec), static_cast<int>(number), all));
  connection.Reply(stream, json::object());
  return absl::OkStatus();
}

absl::Status Daemon::ExecWait(Connection& connection, uint64_t stream, const json& params) {
  wire::FieldReader reader(params, "params");
  const std::string reference = reader.RequiredString("sandbox");
  const uint64_t exec =
      static_cast<uint64_t>(reader.RequiredInteger("exec", 1, wire::kMaxJsonInteger));
  RETURN_IF_ERROR(reader.Finish());
  ASSIGN_OR_RETURN(Sandbox * sandbox, sandboxes_->Find(connection.peer().uid, reference));
  auto wait = std::make_unique<WaitStream>(connection, stream);
  WaitStream* raw = wait.get();
  connection.OpenStream(stream, std::move(wait));
  const auto id = sandbox->WaitExec(
      exec, [observer = connection.observe(), raw, stream](absl::StatusOr<ExecEnd> end) {
        const auto alive = observer.lock();
        if (alive == nullptr) return;
        raw->abandon = nullptr;
        if (!end.ok()) return (*alive)->Error(stream, end.status());
        (*alive)->Reply(stream, ToJson(*end));
        (*alive)->CloseStream(stream);
      });
  if (!id.ok()) return id.status();
  if (*id == 0) return absl::OkStatus();
  raw->abandon = [this, id = *id, exec, sandbox_id = sandbox->id()] {
    const auto it = sandboxes_->all().find(sandbox_id);
    if (it != sandboxes_->all().end()) it->second->AbandonWait(exec, id);
  };
  return absl::OkStatus();
}

}  // namespace sandboxd::server
