#include "sandboxd/server/sandbox_json.h"

#include "absl/strings/str_cat.h"
#include "policy/capabilities.h"
#include "sandboxd/wire/bytes.h"

namespace sandboxd::server {
namespace {

using nlohmann::json;

std::string LayerDetail(Layer layer, const Sandbox& sandbox) {
  const Profile& profile = sandbox.profile();
  switch (layer) {
    case Layer::kUserNamespace:
    case Layer::kIdShift:
      return absl::StrCat("ids 0-65535 are ", sandbox.box().id_base(), "-",
                          sandbox.box().id_base() + kIdsPerSandbox - 1, " on the host");
    case Layer::kCapabilities:
      return CapabilityNames(profile.capabilities);
    case Layer::kSeccomp:
      return profile.seccomp == SeccompKind::kStrict ? "strict" : "default";
    case Layer::kNetNamespace:
      return "loopback only";
    case Layer::kTimeNamespace:
      return profile.time_namespace ? "own" : "the host's (profile strict has its own)";
    case Layer::kProcMasks:
      return absl::StrCat(profile.masked.size(), " paths hidden, ", profile.read_only.size(),
                          " read-only, where the kernel has them");
    default:
      return "on";
  }
}

json LimitJson(const char* name, int64_t value, bool enforced, const std::string& by) {
  return {{"name", name}, {"value", value}, {"enforced", enforced}, {"by", by}};
}

json LimitsJson(const Profile& profile, const CgroupTree& cgroups) {
  const auto controller = [&](const char* limit, const char* name, int64_t value) {
    const bool there = cgroups.has_controller(name);
    return LimitJson(limit, value, there,
                     there ? absl::StrCat("cgroup controller ", name)
                           : absl::StrCat("nothing: cgroup v2 lacks the controller ", name));
  };
  return json::array(
      {controller("memory_max", "memory", profile.memory_max),
       LimitJson("pids_max", profile.pids_max, true,
                 cgroups.has_controller("pids") ? "cgroup controller pids"
                                                : "RLIMIT_NPROC of the user namespace"),
       LimitJson("root_bytes", profile.root_bytes, true, "tmpfs"),
       LimitJson("root_inodes", profile.root_inodes, true, "tmpfs"),
       LimitJson("shm_bytes", profile.shm_bytes, true, "tmpfs")});
}

}  // namespace

json TimeJson(absl::Time time) {
  if (time == absl::InfiniteFuture()) return nullptr;
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

json StagesJson(const StageTimes& stages) {
  json list = json::array();
  for (const auto& [name, micros] : stages) list.push_back({{"name", name}, {"us", micros}});
  return list;
}

json SandboxRow(const Sandbox& sandbox) {
  const CreateSpec& spec = sandbox.spec();
  return {{"id", sandbox.id()},
          {"name", spec.name.empty() ? json() : json(spec.name)},
          {"state", std::string(StateName(sandbox.state()))},
          {"image", spec.image},
          {"profile", spec.profile},
          {"owner_uid", sandbox.owner()},
          {"created_at", TimeJson(sandbox.created_at())},
          {"expires_at", TimeJson(sandbox.expires_at())},
          {"execs", sandbox.running_execs()},
          {"labels", spec.labels}};
}

json SandboxRecord(const Sandbox& sandbox) {
  const CreateSpec& spec = sandbox.spec();
  const Profile& profile = sandbox.profile();
  json details = SandboxRow(sandbox);
  details["timeout_ms"] = spec.timeout_ms == 0 ? json() : json(spec.timeout_ms);
  details["hostname"] = !spec.hostname.empty() ? spec.hostname
                        : !spec.name.empty()   ? spec.name
                                               : sandbox.id().substr(0, 12);
  details["user"] = spec.user;
  details["cwd"] = wire::BytesToJson(spec.cwd);
  details["env_names"] = json::array();
  for (const std::string& entry : spec.env) {
    details["env_names"].push_back(wire::BytesToJson(entry.substr(0, entry.find('='))));
  }
  details["read_only_root"] = spec.read_only_root;
  details["tmpfs"] = ToParams(spec)["tmpfs"];
  details["root"] = {
      {"kind", "tmpfs"}, {"size_bytes", profile.root_bytes}, {"inodes", profile.root_inodes}};
  details["id_range"] = {{"base", sandbox.box().id_base()}, {"count", kIdsPerSandbox}};
  details["pid"] = sandbox.box().init_pid();
  details["ended"] = nullptr;
  return details;
}

json SandboxDetails(const Sandbox& sandbox, const CgroupTree& cgroups) {
  json details = SandboxRecord(sandbox);
  details["layers"] = json::array();
  for (const Layer layer : AllLayers()) {
    details["layers"].push_back(
        {{"name", std::string(LayerName(layer))}, {"detail", LayerDetail(layer, sandbox)}});
  }
  details["limits"] = LimitsJson(sandbox.profile(), cgroups);
  return details;
}

}  // namespace sandboxd::server
