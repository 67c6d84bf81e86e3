// Runs scenarios.json with the C++ client: scenarios SOCKET TABLE. See README.md.
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "sandboxd/client/client.h"
#include "sandboxd/wire/error.h"

namespace sandboxd {
namespace {

using client::Client;
using client::EventStream;
using client::ExecEvent;
using client::ExecStream;
using nlohmann::json;

constexpr absl::Duration kPatience = absl::Seconds(10);

absl::Status Differs(const std::string& what, const json& got, const json& wanted) {
  return absl::InternalError(
      absl::StrCat(what, " is ", got.dump().substr(0, 200), " instead of ", wanted.dump()));
}

absl::Status Compare(const json& document, const json& expected) {
  for (const auto& [pointer, wanted] : expected.items()) {
    if (pointer.front() != '/') continue;  // Not of the document.
    const json got = document.value(json::json_pointer(pointer), json("nothing"));
    if (got != wanted) return Differs(pointer, got, wanted);
  }
  return absl::OkStatus();
}

// One exec on its way: what it is to read, what came of it.
struct Running {
  json step;
  ExecStream stream;
  std::string input;
  std::map<std::string, std::string> output = {{"stdout", ""}, {"stderr", ""}};
  json exit;
};

std::string InputOf(const json& step) {
  const json given = step.value("input", json(""));
  if (given.is_string()) return given;
  std::string input;
  const std::string part = given.at("repeat");
  for (int i = 0; i < given.at("times").get<int>(); ++i) input += part;
  return input;
}

class Player {
 public:
  explicit Player(Client& client) : client_(client) { Save("run", "cpp"); }

  void Save(const std::string& name, const json& value) { saved_["$" + name] = value; }
  json Saved(const std::string& name) const { return saved_.at("$" + name); }

  absl::Status Play(const json& original) {
    const json step = Filled(original);
    const absl::Status status = Act(step);
    if (!step.contains("error")) return status;
    const json got = wire::ErrorBody(status);
    for (const auto& [field, wanted] : step["error"].items()) {
      if (got.value(field, "") != wanted) return Differs(field, got, wanted);
    }
    return absl::OkStatus();
  }

 private:
  json Filled(const json& value) const {
    if (value.is_string()) {
      const auto it = saved_.find(value.get<std::string>());
      return it == saved_.end() ? value : it->second;
    }
    if (!value.is_structured()) return value;
    json filled = value;
    for (json& item : filled) item = Filled(item);
    return filled;
  }

  absl::Status Act(const json& step) {
    if (step.contains("call")) return Call(step);
    if (step.contains("exec")) return Together({step});
    if (step.contains("together")) return Together(step["together"]);
    if (step.contains("list")) return List(step);
    return Events(step);
  }

  absl::Status Call(const json& step) {
    ASSIGN_OR_RETURN(const json reply,
                     client_.Call(step["call"].get<std::string>(), step["params"]));
    RETURN_IF_ERROR(Compare(reply, step.value("expect", json::object())));
    const json save = step.value("save", json::object());
    for (const auto& [name, pointer] : save.items()) {
      Save(name, reply.at(json::json_pointer(pointer.get<std::string>())));
    }
    return absl::OkStatus();
  }

  absl::Status Together(const std::vector<json>& steps) {
    std::vector<Running> all;
    for (const json& step : steps) {
      ASSIGN_OR_RETURN(ExecStream stream, client_.StartExec(step["exec"]));
      all.push_back({.step = step, .stream = std::move(stream), .input = InputOf(step)});
    }
    // The last first: what comes for the others meanwhile is kept.
    for (auto it = all.rbegin(); it != all.rend(); ++it) RETURN_IF_ERROR(Finish(*it));
    return absl::OkStatus();
  }

  static absl::Status Feed(Running& exec) {
    if (exec.step["exec"].value("stdin", "") != "pipe" || exec.step.contains("fed")) {
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const size_t written, exec.stream.WriteStdin(absl::MakeConstSpan(
                                               exec.input.data(), exec.input.size())));
    exec.input.erase(0, written);
    if (!exec.input.empty()) return absl::OkStatus();
    exec.step["fed"] = true;
    return exec.stream.CloseStdin();
  }

  static absl::Status Finish(Running& exec) {
    RETURN_IF_ERROR(Feed(exec));
    for (;;) {
      ASSIGN_OR_RETURN(const ExecEvent event, exec.stream.Next(kPatience));
      switch (event.kind) {
        case ExecEvent::Kind::kStdout:
        case ExecEvent::Kind::kStderr: {
          const bool out = event.kind == ExecEvent::Kind::kStdout;
          exec.output[out ? "stdout" : "stderr"].append(event.data.data(), event.data.size());
          if (exec.step.value("cancel", false)) exec.stream.Cancel();
          break;
        }
        case ExecEvent::Kind::kStdinReady:
          RETURN_IF_ERROR(Feed(exec));
          break;
        case ExecEvent::Kind::kExit:
          exec.exit = event.exit;
          break;
        case ExecEvent::Kind::kDone:
          return Judge(exec);
        case ExecEvent::Kind::kNothing:
          return absl::DeadlineExceededError("an exec that does not end");
        default:
          break;
      }
    }
  }

  static absl::Status Judge(const Running& exec) {
    const json expected = exec.step.value("expect", json::object());
    for (const auto& [name, got] : exec.output) {
      if (!expected.contains(name)) continue;
      const json& wanted = expected[name];
      if (wanted.is_string() && wanted != got) return Differs(name, got, wanted);
      if (wanted.is_object() && wanted["bytes"] != got.size()) {
        return Differs(name, got.size(), wanted);
      }
    }
    return Compare(exec.exit, expected);
  }

  absl::Status List(const json& step) {
    json names = json::array();
    json params = step["list"];
    do {
      ASSIGN_OR_RETURN(const json page, client_.Call("sandbox.list", params));
      for (const json& row : page["sandboxes"]) names.push_back(row["name"]);
      params["after"] = page["next"];
    } while (!params["after"].is_null());
    return names == step["expect"] ? absl::OkStatus() : Differs("the list", names, step["expect"]);
  }

  absl::Status Events(const json& step) {
    ASSIGN_OR_RETURN(EventStream events, client_.Subscribe(step["events"]));
    const json during = step.value("during", json::array());
    for (const json& one : during) RETURN_IF_ERROR(Play(one));
    for (const json& wanted : step["expect"]) {
      ASSIGN_OR_RETURN(auto event, events.Next(kPatience));
      const json got = event.has_value() ? (*event)["event"] : json();
      if (got != wanted) return Differs("the event", got, wanted);
    }
    return absl::OkStatus();
  }

  Client& client_;
  std::map<std::string, json> saved_;
};

absl::Status PlayScenario(const std::string& socket, const json& scenario) {
  ASSIGN_OR_RETURN(Client client, Client::Connect(socket, "scenarios/1"));
  Player player(client);
  const bool box = scenario.contains("image");
  if (box) {
    ASSIGN_OR_RETURN(const json made,
                     client.Call("sandbox.create", {{"image", scenario["image"]}}));
    player.Save("id", made["sandbox"]["id"]);
  }
  for (const json& step : scenario["steps"]) {
    const absl::Status status = player.Play(step);
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat(status.message(), "; step ", step.dump()));
    }
  }
  return box ? client.Call("sandbox.kill", {{"sandbox", player.Saved("id")}}).status()
             : absl::OkStatus();
}

int Main(const std::string& socket, const char* path) {
  std::ifstream file(path);
  const json table = json::parse(file);
  int failed = 0;
  for (const json& scenario : table) {
    const absl::Status status = PlayScenario(socket, scenario);
    if (status.ok()) continue;
    ++failed;
    std::cout << scenario["name"] << ": " << status.message() << "\n";
  }
  std::cout << table.size() << " scenarios, " << failed << " failed\n";
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace sandboxd

int main(int argc, char** argv) {
  if (argc == 3) return sandboxd::Main(argv[1], argv[2]);
  std::cerr << "scenarios SOCKET TABLE\n";
  return 2;
}
