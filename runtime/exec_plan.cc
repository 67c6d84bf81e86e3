#include "runtime/exec_plan.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status.h"
#include "runtime/plan_writer.h"

namespace sandboxd {
namespace {

constexpr size_t kMaxString = 128 * 1024;  // With its NUL.
// A quarter of the default stack limit, less room for the auxiliary vector and the file name.
constexpr size_t kMaxStrings = 2 * 1024 * 1024 - 16 * 1024;

absl::Status TooLong(const std::string& object, absl::string_view what) {
  return ReasonError(absl::StatusCode::kInvalidArgument, "ARGUMENTS_TOO_LONG", object,
                     absl::StrCat(object, ": ", what));
}

// "env NAME" or "argv[3]": what a person recognises, without the value.
std::string ObjectName(absl::string_view kind, const std::string& text, size_t index) {
  if (kind == "argv") return absl::StrCat("argv[", index, "]");
  return absl::StrCat("env ", absl::CHexEscape(text.substr(0, text.find('=')).substr(0, 64)));
}

absl::Status CheckSizes(const ExecSpec& spec) {
  size_t sum = 0;
  for (const auto& [kind, strings] : {std::pair("argv", &spec.argv), std::pair("env", &spec.env)}) {
    for (size_t i = 0; i < strings->size(); ++i) {
      const std::string& text = (*strings)[i];
      if (text.size() >= kMaxString) {
        return TooLong(ObjectName(kind, text, i),
                       absl::StrCat(text.size(), " bytes; the kernel takes at most ",
                                    kMaxString - 1, " in one string"));
      }
      sum += text.size() + 1 + sizeof(char*);
    }
  }
  if (sum > kMaxStrings) {
    return TooLong("argv and env", absl::StrCat(sum,
                                                " bytes together with their pointers; the "
                                                "kernel takes at most ",
                                                kMaxStrings));
  }
  return absl::OkStatus();
}

std::vector<uint64_t> AddStrings(PlanWriter<ExecPlan>& writer,
                                 const std::vector<std::string>& strings, size_t spare) {
  std::vector<uint64_t> offsets;
  offsets.reserve(strings.size() + spare + 1);
  for (const std::string& text : strings) offsets.push_back(writer.AddString(text));
  offsets.resize(strings.size() + spare + 1, 0);
  return offsets;
}

absl::string_view EnvValue(const std::vector<std::string>& env, absl::string_view prefix) {
  for (const std::string& entry : env) {
    if (absl::StartsWith(entry, prefix)) return absl::string_view(entry).substr(prefix.size());
  }
  return {};
}

}  // namespace

absl::StatusOr<std::vector<std::string>> MergeEnv(
    std::initializer_list<const std::vector<std::string>*> environments) {
  std::vector<std::string> merged;
  absl::flat_hash_map<std::string, size_t> index;
  for (const std::vector<std::string>* environment : environments) {
    for (const std::string& entry : *environment) {
      const size_t equals = entry.find('=');
      if (equals == 0 || equals == std::string::npos) {
        return ReasonError(absl::StatusCode::kInvalidArgument, "INVALID_FIELD", "env",
                           absl::StrCat("env entry \"", absl::CHexEscape(entry.substr(0, 40)),
                                        "\" must be NAME=VALUE"));
      }
      const auto [it, added] = index.try_emplace(entry.substr(0, equals), merged.size());
      if (added) {
        merged.push_back(entry);
      } else {
        merged[it->second] = entry;
      }
    }
  }
  if (!index.contains("PATH")) merged.push_back(absl::StrCat("PATH=", kDefaultPath));
  return merged;
}

absl::StatusOr<std::string> BuildExecPlan(const ExecSpec& spec) {
  RETURN_IF_ERROR(CheckSizes(spec));
  PlanWriter<ExecPlan> writer(PlanKind::kExec);
  const std::vector<uint64_t> argv = AddStrings(writer, spec.argv, 0);
  const std::vector<uint64_t> env = AddStrings(writer, spec.env, 1);
  const PlanArray argv_array = writer.AddArray<uint64_t>(argv);
  const PlanArray env_array = writer.AddArray<uint64_t>(env);
  const PlanArray rlimits = writer.AddArray<PlanRlimit>(spec.rlimits);
  const PlanString cwd = writer.AddString(spec.cwd);
  const bool search = !spec.program_fd && !absl::StrContains(spec.argv[0], '/');
  const PlanString path = search ? writer.AddString(EnvValue(spec.env, "PATH=")) : 0;
  const UserRef& user = spec.user;
  const PlanString user_name = user.user_name.empty() ? 0 : writer.AddString(user.user_name);
  const PlanString group_name = user.group_name.empty() ? 0 : writer.AddString(user.group_name);

  ExecPlan& plan = writer.fixed();
  plan.flags = (spec.stdin_pipe ? kExecStdinPipe : 0) | (spec.program_fd ? kExecProgramFd : 0);
  plan.umask = spec.umask;
  plan.user_name = user_name;
  plan.group_name = group_name;
  plan.uid = user.uid;
  plan.gid = user.gid;
  plan.cwd = cwd;
  plan.path = path;
  plan.capabilities = spec.capabilities;
  plan.argv = argv_array;
  plan.env = env_array;
  plan.rlimits = rlimits;
  plan.has_home = EnvValue(spec.env, "HOME=").data() != nullptr;
  return std::move(writer).Finish();
}

}  // namespace sandboxd
