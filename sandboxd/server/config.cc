#include "sandboxd/server/config.h"

#include <fcntl.h>

#include <functional>
#include <sstream>
#include <variant>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/log.h"
#include "base/status.h"

namespace sandboxd::server {
namespace {

struct Range {
  int64_t Config::*own = nullptr;
  int64_t Limits::*limit = nullptr;
  int64_t min;
  int64_t max;
};
using Value =
    std::variant<std::string Config::*, bool Config::*, std::vector<std::string> Config::*, Range>;

struct Key {
  const char* table;
  const char* name;
  Value value;
  bool reloadable;
  const char* comment;
};

Range Own(int64_t Config::*field, int64_t min, int64_t max) {
  return {.own = field, .limit = nullptr, .min = min, .max = max};
}
Range Limit(int64_t Limits::*field, int64_t min, int64_t max) {
  return {.own = nullptr, .limit = field, .min = min, .max = max};
}

// The one place that knows the keys: parsing, printing and reloading walk it.
const std::vector<Key>& Keys() {
  constexpr int64_t kMillion = 1'000'000;
  static const std::vector<Key>* keys = new std::vector<Key>{
      {"daemon", "socket", &Config::socket, false,
       "Where clients connect. Its directory is made with mode 0750 if it is missing."},
      {"daemon", "socket_group", &Config::socket_group, false,
       "The group that may use the socket (mode 0660). Empty: only root."},
      {"daemon", "run_dir", &Config::run_dir, false,
       "State of running sandboxes; on a tmpfs, since it dies with the kernel. Made with mode "
       "0750\n"
       "and the socket's group if it is missing."},
      {"daemon", "state_dir", &Config::state_dir, false, "Images. Mode 0700."},
      {"daemon", "cgroup", &Config::cgroup, false,
       "The control group, beneath the cgroup2 mount, that holds the sandboxes' groups."},
      {"daemon", "allow_hybrid_cgroups", &Config::allow_hybrid_cgroups, false,
       "Run although memory, pids and cpu controllers are not in cgroup v2. Limits that need\n"
       "them are then not enforced, and every `info` says so."},
      {"daemon", "log_level", &Config::log_level, true, "debug, info, warning or error."},
      {"ids", "base", Own(&Config::id_base, 65536, 4294836224), false,
       "First host uid and gid of the sandboxes' ranges; a multiple of 65536. Nothing else on\n"
       "the host may use ids from here on."},
      {"ids", "ranges", Own(&Config::id_ranges, 1, 65000), false,
       "How many ranges of 65536 ids there are: one for each sandbox alive."},
      {"pool", "size", Own(&Config::pool_size, 0, 256), true,
       "Sandboxes prepared ahead, about 0.4 MiB each. 0: none, and creates take longer."},
      {"pool", "profiles", &Config::pool_profiles, false,
       "The profiles they are prepared for: so many of each."},
      {"images", "host", &Config::host_image, true,
       "Offer the image `host`: the host's read-only /usr under a private root."},
      {"images", "directories", &Config::image_directories, true,
       "Directories that clients may use as images, themselves and everything beneath them."},
      {"limits", "connections", Limit(&Limits::connections, 1, 65536), true,
       "Client connections in all."},
      {"limits", "connections_per_uid", Limit(&Limits::connections_per_uid, 1, 65536), true,
       "Client connections of one user."},
      {"limits", "streams_per_connection", Limit(&Limits::streams_per_connection, 1, 4096), true,
       "Requests and execs open at once on one connection."},
      {"limits", "initial_credit", Limit(&Limits::initial_credit, 65536, 16 * kMillion), false,
       "Bytes that may be sent on a new channel before the receiver grants more."},
      {"limits", "frame_timeout_ms", Limit(&Limits::frame_timeout_ms, 10, 600'000), true,
       "From accept to Hello, and from the first byte of a frame to its last."},
      {"limits", "send_timeout_ms", Limit(&Limits::send_timeout_ms, 10, 3'600'000), true,
       "A connection that takes nothing for this long, while something waits, is closed."},
      {"limits", "queued_control_bytes", Limit(&Limits::queued_control_bytes, 1 << 20, 1 << 30),
       true, "Replies and events that wait on one connection; above it the connection is closed."},
      {"limits", "sandboxes", Limit(&Limits::sandboxes, 1, 65000), true, "Sandboxes alive."},
      {"limits", "creates_at_once", Limit(&Limits::creates_at_once, 1, 4096), true,
       "Creates in progress; more are refused."},
      {"limits", "execs_per_sandbox", Limit(&Limits::execs_per_sandbox, 1, 250), true,
       "Execs that run in one sandbox at once."},
      {"limits", "execs_kept", Limit(&Limits::execs_kept, 1, 4096), true,
       "Ended execs of a sandbox that `exec.wait` still knows."},
      {"limits", "ended_kept", Limit(&Limits::ended_kept, 1, 65536), true,
       "Ended sandboxes that `list --all` and `wait` still know."},
      {"limits", "events_ring", Limit(&Limits::events_ring, 16, 1 << 20), false,
       "Events kept for subscribers that come later."},
      {"limits", "timeout_max_ms", Limit(&Limits::timeout_max_ms, 1, 3153600000000), true,
       "The longest time to live that a create may ask for."},
      {"limits", "report_timeout_ms", Limit(&Limits::report_timeout_ms, 1, 600'000), true,
       "How long the isolation probe of a report may run inside."},
      {"limits", "tmpfs_mounts", Limit(&Limits::tmpfs_mounts, 0, 64), true,
       "Extra tmpfs mounts of one sandbox."},
      {"limits", "tmpfs_bytes", Limit(&Limits::tmpfs_bytes, 4096, int64_t{1} << 50), true,
       "The size of one of them."},
  };
  return *keys;
}

constexpr char kProfileHelp[] = R"(
# Isolation profiles. `default` and `strict` always exist; a table here changes one of them or, with
# `base`, makes a new one. Capabilities can be taken away, or given from a list that stays harmless
# inside a user namespace; see docs/security.md.
#
# [profiles.small]
# base = "default"
# capabilities = ["CHOWN", "SETUID", "SETGID"]
# pids_max = 256
# memory_max = 268435456
# shm_bytes = 16777216
# root_bytes = 67108864
# root_inodes = 16384
)";

absl::Status KeyError(absl::string_view source, const toml::node& node, absl::string_view key,
                      absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(source, ":", node.source().begin.line, ": ", key, ": ", what));
}

absl::Status SetString(const toml::node& node, absl::string_view source, absl::string_view key,
                       std::string& out) {
  const auto value = node.value_exact<std::string>();
  if (!value.has_value()) return KeyError(source, node, key, "must be a string");
  out = *value;
  return absl::OkStatus();
}

absl::Status SetList(const toml::node& node, absl::string_view source, absl::string_view key,
                     std::vector<std::string>& out) {
  const toml::array* array = node.as_array();
  if (array == nullptr) return KeyError(source, node, key, "must be a list of strings");
  out.clear();
  for (const toml::node& element : *array) {
    out.emplace_back();
    RETURN_IF_ERROR(SetString(element, source, key, out.back()));
  }
  return absl::OkStatus();
}

absl::Status SetInteger(const toml::node& node, absl::string_view source, absl::string_view key,
                        int64_t min, int64_t max, int64_t& out) {
  const auto value = node.value_exact<int64_t>();
  if (!value.has_value() || *value < min || *value > max) {
    return KeyError(source, node, key,
                    absl::StrCat("must be a whole number from ", min, " to ", max));
  }
  out = *value;
  return absl::OkStatus();
}

int64_t& Integer(Config& config, const Range& range) {
  return range.own != nullptr ? config.*range.own : config.limits.*range.limit;
}

absl::Status SetKey(const toml::node& node, absl::string_view source, const Key& key,
                    Config& config) {
  const std::string name = absl::StrCat(key.table, ".", key.name);
  if (const auto* text = std::get_if<std::string Config::*>(&key.value)) {
    return SetString(node, source, name, config.**text);
  }
  if (const auto* list = std::get_if<std::vector<std::string> Config::*>(&key.value)) {
    return SetList(node, source, name, config.**list);
  }
  if (const auto* flag = std::get_if<bool Config::*>(&key.value)) {
    const auto value = node.value_exact<bool>();
    if (!value.has_value()) return KeyError(source, node, name, "must be true or false");
    config.** flag = *value;
    return absl::OkStatus();
  }
  const Range& range = std::get<Range>(key.value);
  return SetInteger(node, source, name, range.min, range.max, Integer(config, range));
}

absl::Status ParseProfile(const std::string& name, const toml::table& table,
                          absl::string_view source, Config& config) {
  ProfileOverrides overrides;
  overrides.name = name;
  std::string base = config.profiles.contains(name) ? name : "default";
  for (const auto& [key, node] : table) {
    const std::string full = absl::StrCat("profiles.", name, ".", std::string(key.str()));
    const absl::string_view field(key.str().data(), key.str().size());
    int64_t number = 0;
    const std::pair<absl::string_view, std::optional<int64_t>*> numbers[] = {
        {"pids_max", &overrides.pids_max},
        {"memory_max", &overrides.memory_max},
        {"shm_bytes", &overrides.shm_bytes},
        {"root_bytes", &overrides.root_bytes},
        {"root_inodes", &overrides.root_inodes}};
    bool known = false;
    for (const auto& [candidate, target] : numbers) {
      if (candidate != field) continue;
      RETURN_IF_ERROR(SetInteger(node, source, full, 1, INT64_MAX, number));
      *target = number;
      known = true;
    }
    if (field == "base") {
      RETURN_IF_ERROR(SetString(node, source, full, base));
    } else if (field == "capabilities") {
      std::vector<std::string> names;
      RETURN_IF_ERROR(SetList(node, source, full, names));
      overrides.capabilities = names;
    } else if (!known) {
      return KeyError(source, node, full, "is not a key of a profile");
    }
  }
  const auto found = config.profiles.find(base);
  if (found == config.profiles.end()) {
    return KeyError(source, table, absl::StrCat("profiles.", name, ".base"),
                    absl::StrCat("there is no profile ", base));
  }
  auto profile = DeriveProfile(found->second, overrides);
  if (!profile.ok()) {
    return KeyError(source, table, absl::StrCat("profiles.", name), profile.status().message());
  }
  config.profiles.insert_or_assign(name, *std::move(profile));
  return absl::OkStatus();
}

absl::Status ParseTable(const std::string& name, const toml::table& table, absl::string_view source,
                        Config& config) {
  for (const auto& [key, node] : table) {
    const absl::string_view field(key.str().data(), key.str().size());
    const Key* found = nullptr;
    for (const Key& candidate : Keys()) {
      if (name == candidate.table && field == candidate.name) found = &candidate;
    }
    if (found == nullptr) {
      return KeyError(source, node, absl::StrCat(name, ".", field), "is not a known key");
    }
    RETURN_IF_ERROR(SetKey(node, source, *found, config));
  }
  return absl::OkStatus();
}

absl::Status CheckWhole(const Config& config, absl::string_view source) {
  const auto fail = [&](absl::string_view key, absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": ", key, ": ", what));
  };
  for (const auto& [key, path] :
       {std::pair("daemon.socket", &config.socket), std::pair("daemon.run_dir", &config.run_dir),
        std::pair("daemon.state_dir", &config.state_dir)}) {
    if (path->empty() || path->front() != '/') return fail(key, "must be an absolute path");
  }
  for (const std::string& path : config.image_directories) {
    if (path.empty() || path.front() != '/') {
      return fail("images.directories", absl::StrCat("\"", path, "\" must be an absolute path"));
    }
  }
  if (config.cgroup.empty() || config.cgroup.front() == '/' ||
      absl::StrContains(config.cgroup, "..")) {
    return fail("daemon.cgroup", "must be a relative path without ..");
  }
  for (const std::string& name : config.pool_profiles) {
    if (!config.profiles.contains(name)) {
      return fail("pool.profiles", absl::StrCat("there is no profile ", name));
    }
  }
  LogLevel level;
  if (!ParseLogLevel(config.log_level, level)) {
    return fail("daemon.log_level", "must be debug, info, warning or error");
  }
  return absl::OkStatus();
}

std::string ValueText(const Config& config, const Key& key) {
  const auto quoted = [](const std::string& text) { return absl::StrCat("\"", text, "\""); };
  if (const auto* text = std::get_if<std::string Config::*>(&key.value)) {
    return quoted(config.**text);
  }
  if (const auto* flag = std::get_if<bool Config::*>(&key.value)) {
    return config.**flag ? "true" : "false";
  }
  if (const auto* list = std::get_if<std::vector<std::string> Config::*>(&key.value)) {
    return absl::StrCat("[",
                        absl::StrJoin(config.**list, ", ",
                                      [&](std::string* out, const std::string& text) {
                                        out->append(quoted(text));
                                      }),
                        "]");
  }
  Config copy = config;
  return absl::StrCat(Integer(copy, std::get<Range>(key.value)));
}

}  // namespace

absl::StatusOr<Config> ParseConfig(absl::string_view text, absl::string_view source) {
  Config config;
  config.profiles = {{"default", DefaultProfile()}, {"strict", StrictProfile()}};
  const toml::parse_result parsed =
      toml::parse(std::string_view(text.data(), text.size()), std::string(source));
  if (!parsed) {
    const toml::source_region& region = parsed.error().source();
    return absl::InvalidArgumentError(absl::StrCat(source, ":", region.begin.line, ":",
                                                   region.begin.column, ": ",
                                                   std::string(parsed.error().description())));
  }
  for (const auto& [key, node] : parsed.table()) {
    const std::string name(key.str());
    const toml::table* table = node.as_table();
    if (table == nullptr) return KeyError(source, node, name, "is not a known key");
    if (name != "profiles") {
      RETURN_IF_ERROR(ParseTable(name, *table, source, config));
      continue;
    }
    for (const auto& [profile, body] : *table) {
      const toml::table* fields = body.as_table();
      if (fields == nullptr) return KeyError(source, body, "profiles", "must hold tables");
      RETURN_IF_ERROR(ParseProfile(std::string(profile.str()), *fields, source, config));
    }
  }
  RETURN_IF_ERROR(CheckWhole(config, source));
  return config;
}

absl::StatusOr<Config> LoadConfig(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(AT_FDCWD, path));
  return ParseConfig(text, path);
}

std::string DefaultConfigText() {
  Config config;
  std::string text =
      "# Configuration of sandboxd. Every key is shown with its default. `sandboxd "
      "--check-config`\n"
      "# judges a file; SIGHUP makes a running daemon read it again. Keys marked (restart) take\n"
      "# effect only at the next start.\n";
  absl::string_view table;
  for (const Key& key : Keys()) {
    if (table != key.table) absl::StrAppend(&text, "\n[", key.table, "]\n");
    table = key.table;
    for (const absl::string_view line : absl::StrSplit(key.comment, '\n')) {
      absl::StrAppend(&text, "# ", line, "\n");
    }
    if (!key.reloadable) absl::StrAppend(&text, "# (restart)\n");
    absl::StrAppend(&text, key.name, " = ", ValueText(config, key), "\n");
  }
  return absl::StrCat(text, kProfileHelp);
}

std::string ConfigManualPage() {
  const Config config;
  const auto roff = [](absl::string_view text) {
    return absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}, {"\n", " "}});
  };
  std::string page =
      ".TH SANDBOXD.TOML 5 \"\" \"sandboxd\" \"File Formats\"\n.SH NAME\nsandboxd.toml \\- "
      "configuration of sandboxd\n.SH DESCRIPTION\nA TOML file, by default "
      "\\fI/etc/sandboxd/config.toml\\fR. A key that is not there has its default. Unknown keys "
      "are errors. SIGHUP makes a running daemon read the file again; keys marked (restart) take "
      "effect only at the next start.\n";
  absl::string_view table;
  for (const Key& key : Keys()) {
    if (table != key.table) absl::StrAppend(&page, ".SH \"[", key.table, "]\"\n");
    table = key.table;
    absl::StrAppend(&page, ".TP\n\\fB", roff(key.name), "\\fR = ", roff(ValueText(config, key)),
                    "\n", key.reloadable ? "" : "(restart) ", roff(key.comment), "\n");
  }
  return absl::StrCat(
      page, ".SH \"[profiles.NAME]\"\n.nf\n",
      absl::StrReplaceAll(roff(absl::StrReplaceAll(kProfileHelp, {{"\n", "\t"}})), {{"\t", "\n"}}),
      ".fi\n.SH SEE ALSO\n.BR sandboxd (8),\n.BR sandboxctl (1)\n");
}

std::vector<std::string> Reload(Config& running, const Config& fresh) {
  std::vector<std::string> needs_restart;
  for (const Key& key : Keys()) {
    if (ValueText(running, key) == ValueText(fresh, key)) continue;
    if (!key.reloadable) {
      needs_restart.push_back(absl::StrCat(key.table, ".", key.name));
      continue;
    }
    if (const auto* text = std::get_if<std::string Config::*>(&key.value)) {
      running.** text = fresh.**text;
    } else if (const auto* flag = std::get_if<bool Config::*>(&key.value)) {
      running.** flag = fresh.**flag;
    } else if (const auto* list = std::get_if<std::vector<std::string> Config::*>(&key.value)) {
      running.** list = fresh.**list;
    } else {
      Config copy = fresh;
      Integer(running, std::get<Range>(key.value)) = Integer(copy, std::get<Range>(key.value));
    }
  }
  // What is compiled from them is in use by sandboxes and by the pool.
  std::map<std::string, Profile> all = running.profiles;
  all.insert(fresh.profiles.begin(), fresh.profiles.end());
  for (const auto& [name, profile] : all) {
    const auto before = running.profiles.find(name);
    const auto after = fresh.profiles.find(name);
    const bool same = before != running.profiles.end() && after != fresh.profiles.end() &&
                      before->second == after->second;
    if (!same) needs_restart.push_back(absl::StrCat("profiles.", name));
  }
  return needs_restart;
}

}  // namespace sandboxd::server
