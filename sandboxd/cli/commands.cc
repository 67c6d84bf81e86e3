#include "sandboxd/cli/commands.h"

#include <cstdio>

#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "sandboxd/cli/exec.h"
#include "sandboxd/cli/output.h"
#include "sandboxd/client/client.h"
#include "sandboxd/version.h"
#include "sandboxd/wire/bytes.h"
#include "sandboxd/wire/error.h"

namespace sandboxd::cli {
namespace {

using nlohmann::json;

absl::StatusOr<client::Client> Connect(const Options& options) {
  return client::Client::Connect(options.socket.empty() ? client::DefaultSocket() : options.socket,
                                 absl::StrCat("sandboxctl/", kVersion));
}

json BytesList(const std::vector<std::string>& strings) {
  json list = json::array();
  for (const std::string& text : strings) list.push_back(wire::BytesToJson(text));
  return list;
}

absl::Status AddDuration(const std::string& text, const char* name, json& params) {
  if (text.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t millis, ParseMilliseconds(text));
  params[name] = millis;
  return absl::OkStatus();
}

absl::StatusOr<json> CreateParams(const Options& options) {
  json params = {{"image", options.image.empty() ? "host" : options.image}};
  if (!options.name.empty()) params["name"] = options.name;
  if (!options.hostname.empty()) params["hostname"] = options.hostname;
  if (!options.user.empty()) params["user"] = options.user;
  if (!options.cwd.empty()) params["cwd"] = wire::BytesToJson(options.cwd);
  if (!options.profile.empty()) params["profile"] = options.profile;
  if (!options.key.empty()) params["idempotency_key"] = options.key;
  if (options.read_only) params["read_only_root"] = true;
  if (!options.env.empty()) params["env"] = BytesList(options.env);
  RETURN_IF_ERROR(AddDuration(options.timeout, "timeout_ms", params));
  for (const std::string& label : options.labels) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(label, absl::MaxSplits('=', 1));
    params["labels"][parts.first] = parts.second;
  }
  for (const std::string& mount : options.tmpfs) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(mount, absl::MaxSplits(':', 1));
    json entry = {{"path", wire::BytesToJson(parts.first)}};
    int64_t size = 0;
    if (!parts.second.empty()) {
      if (!absl::SimpleAtoi(parts.second, &size)) {
        return absl::InvalidArgumentError(
            absl::StrCat("--tmpfs ", mount, ": give PATH or PATH:BYTES"));
      }
      entry["size_bytes"] = size;
    }
    params["tmpfs"].push_back(std::move(entry));
  }
  return params;
}

absl::StatusOr<json> ExecParams(const Options& options, const std::string& sandbox) {
  json params = {{"sandbox", sandbox}, {"argv", BytesList(options.command)}};
  if (options.interactive) params["stdin"] = "pipe";
  return params;
}

// Refused and failed alike: message, and the exit code that goes with it.
template <typename T>
int Failed(const absl::StatusOr<T>& result) {
  return PrintError(result.status());
}

std::string Text(const json& value) {
  return value.is_string() ? Printable(value.get<std::string>())
         : value.is_null() ? "-"
                           : value.dump();
}

std::string Short(const json& id) { return id.get<std::string>().substr(0, 12); }

// "2026-01-02T03:04:05.678Z" to the second.
std::string Moment(const json& value) {
  return value.is_string() ? value.get<std::string>().substr(0, 19) + "Z" : "never";
}

void PrintDetails(const json& sandbox, const json& stages) {
  std::vector<std::vector<std::string>> rows;
  for (const char* key : {"id", "name", "state", "image", "profile", "owner_uid", "created_at",
                          "expires_at", "hostname", "user", "cwd", "read_only_root", "execs"}) {
    rows.push_back({absl::StrCat(key, ":"), Text(sandbox[key])});
  }
  PrintTable(rows);
  if (sandbox.contains("layers")) {
    printf("\n");
    rows = {{"LAYER", "DETAIL"}};
    for (const json& layer : sandbox["layers"]) {
      rows.push_back({Text(layer["name"]), Text(layer["detail"])});
    }
    PrintTable(rows);
    printf("\n");
    rows = {{"LIMIT", "VALUE", "ENFORCED", "BY"}};
    for (const json& limit : sandbox["limits"]) {
      rows.push_back({Text(limit["name"]), Text(limit["value"]),
                      limit["enforced"] == true ? "yes" : "NO", Text(limit["by"])});
    }
    PrintTable(rows);
  }
  if (stages.empty()) return;
  printf("\n");
  rows = {{"STAGE", "MICROSECONDS"}};
  for (const json& stage : stages) rows.push_back({Text(stage["name"]), Text(stage["us"])});
  PrintTable(rows);
}

}  // namespace

int Create(const Options& options) {
  auto client = Connect(options);
  if (!client.ok()) return Failed(client);
  const auto params = CreateParams(options);
  if (!params.ok()) return Failed(params);
  const auto reply = client->Call("sandbox.create", *params);
  if (!reply.ok()) return Failed(reply);
  const json& sandbox = (*reply)["sandbox"];
  if (options.quiet) {
    puts(sandbox["id"].get_ref<const std::string&>().c_str());
  } else if (options.output == "json") {
    json flat = sandbox;
    flat["status"] = flat["state"];
    flat["stages"] = (*reply)["stages"];
    PrintJson(flat);
  } else {
    PrintDetails(sandbox, (*reply)["stages"]);
  }
  return 0;
}

int Run(const Options& options) {
  auto client = Connect(options);
  if (!client.ok()) return Failed(client);
  Options create = options;
  create.timeout.clear();  // `run --timeout` is the command's.
  auto params = CreateParams(create);
  if (!params.ok()) return Failed(params);
  const auto reply = client->Call("sandbox.create", *params);
  if (!reply.ok()) return Failed(reply);
  const std::string id = (*reply)["sandbox"]["id"].get<std::string>();
  auto exec = ExecParams(options, id);
  absl::Status status =
      exec.ok() ? AddDuration(options.timeout, "timeout_ms", *exec) : exec.status();
  const int code = status.ok() ? RunExec(*client, *exec) : PrintError(status);
  if (!options.remove) {
    if (!options.quiet) fprintf(stderr, "sandboxctl: sandbox %s goes on\n", id.c_str());
    return code;
  }
  const auto killed = client->Call("sandbox.kill", {{"sandbox", id}});
  if (!killed.ok() && DetailOf(killed.status()).reason != "SANDBOX_NOT_FOUND") {
    return Failed(killed);
  }
  return code;
}

int Exec(const Options& options) {
  auto client = Connect(options);
  if (!client.ok()) return Failed(client);
  auto params = ExecParams(options, options.id);
  if (!params.ok()) return Failed(params);
  if (!options.env.empty()) (*params)["env"] = BytesList(options.env);
  if (!options.user.empty()) (*params)["user"] = options.user;
  if (!options.cwd.empty()) (*params)["cwd"] = wire::BytesToJson(options.cwd);
  absl::Status status = AddDuration(options.timeout, "timeout_ms", *params);
  if (status.ok()) status = AddDuration(options.grace, "grace_ms", *params);
  if (!status.ok()) return PrintError(status);
  return RunExec(*client, *params);
}

int List(const Options& options) {
  auto client = Connect(options);
  if (!client.ok()) return Failed(client);
  json rows = json::array();
  json params = {{"all", options.all}};
  if (!options.name.empty()) params["name"] = options.name;
  for (const std::string& label : options.labels) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(label, absl::MaxSplits('=', 1));
    params["labels"][parts.first] = parts.second;
  }
  while (true) {
    const auto reply = client->Call("sandbox.list", params);
    if (!reply.ok()) return Failed(reply);
    for (const json& row : (*reply)["sandboxes"]) rows.push_back(row);
    if ((*reply)["next"].is_null()) break;
    params["after"] = (*reply)["next"];
  }
  if (options.quiet) {
    for (const json& row : rows) puts(row["id"].get_ref<const std::string&>().c_str());
    return 0;
  }
  if (options.output == "json") {
    PrintJson(rows);
    return 0;
  }
  if (rows.empty()) {
    puts("No sandboxes. `sandboxctl create` makes one.");
    return 0;
  }
  std::vector<std::vector<std::string>> table = {
      {"ID", "NAME", "STATE", "IMAGE", "CREATED", "EXPIRES", "EXECS"}};
  for (const json& row : rows) {
    table.push_back({Short(row["id"]), Text(row["name"]), Text(row["state"]), Text(row["image"]),
                     Moment(row["created_at"]), Moment(row["expires_at"]), Text(row["execs"])});
  }
  PrintTable(table);
  return 0;
}

int Info(const Options& options) {
  auto client = Connect(options);
  if (!client.ok()) return Failed(client);
  const auto reply = client->Call("sandbox.info", {{"sandbox", options.id}});
  if (!reply.ok()) return Failed(reply);
  if (options.output == "json") {
    json flat = (*reply)["sandbox"];
    flat["stages"] = (*reply)["stages"];
    PrintJson(flat);
  } else {
    PrintDetails((*reply)["sandbox"], (*reply)["stages"]);
  }
  return 0;
}

int Report(const Options& options) {
  auto client = Connect(options);
  if (!client.ok()) return Failed(client);
  const auto reply = client->Call("sandbox.report", {{"sandbox", options.id}});
  if (!reply.ok()) return Failed(reply);
  int code = 0;
  std::vector<std::vector<std::string>> rows = {{"LAYER", "IN FORCE", "EVIDENCE"}};
  for (const json& layer : (*reply)["layers"]) {
    const json& in_force = layer["in_force"];
    if (in_force == false) code = 1;
    rows.push_back({Text(layer["name"]),
                    in_force.is_null() ? "not in profile"
                    : in_force == true ? "yes"
                                       : "NO",
                    Text(layer["evidence"])});
  }
  if (options.output == "json") {
    PrintJson(*reply);
  } else {
    PrintTable(rows);
  }
  return code;
}

int Kill(const Options& options) {
  auto client = Connect(options);
  if (!client.ok()) return Failed(client);
  int code = 0;
  for (const std::string& id : options.ids) {
    const auto reply = client->Call("sandbox.kill", {{"sandbox", id}});
    if (!reply.ok()) {
      code = Failed(reply);
    } else if (!options.quiet) {
      puts((*reply)["id"].get_ref<const std::string&>().c_str());
    }
  }
  return code;
}

int Wait(const Options& options) {
  auto client = Connect(options);
  if (!client.ok()) return Failed(client);
  const auto reply = client->Call("sandbox.wait", {{"sandbox", options.id}});
  if (!reply.ok()) return Failed(reply);
  if (options.output == "json") {
    PrintJson(*reply);
  } else {
    puts(Text((*reply)["ended"]["reason"]).c_str());
  }
  return 0;
}

int Events(const Options& options) {
  auto client = Connect(options);
  if (!client.ok()) return Failed(client);
  json params = json::object();
  if (!options.id.empty()) params["sandbox"] = options.id;
  if (options.after >= 0) params["after"] = options.after;
  const auto stream = client->Open("sandbox.events", params);
  if (!stream.ok()) return Failed(stream);
  while (true) {
    const auto frame = client->Read();
    if (!frame.ok()) return Failed(frame);
    if (frame->type == wire::FrameType::kError) {
      return PrintError(wire::StatusFromBody(frame->body));
    }
    if (frame->type == wire::FrameType::kEvent && frame->stream == *stream) {
      puts(frame->body.dump().c_str());
      fflush(stdout);
    }
  }
}

int Version(const Options& options) {
  auto client = Connect(options);
  json version = {{"client", kVersion}, {"server", nullptr}};
  absl::StatusOr<json> info = client.ok() ? client->Call("daemon.info", json::object())
                                          : absl::StatusOr<json>(client.status());
  if (info.ok()) version["server"] = *info;
  if (options.output == "json") {
    PrintJson(version);
  } else {
    printf("client %s\n", kVersion);
    if (info.ok()) {
      printf("server %s at %s, kernel %s\n", Text((*info)["version"]).c_str(),
             Text((*info)["socket"]).c_str(), Text((*info)["kernel"]).c_str());
    }
  }
  return info.ok() ? 0 : Failed(info);
}

}  // namespace sandboxd::cli
