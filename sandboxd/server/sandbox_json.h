#ifndef SANDBOXD_SERVER_SANDBOX_JSON_H_
#define SANDBOXD_SERVER_SANDBOX_JSON_H_

#include <nlohmann/json.hpp>

#include "runtime/cgroup.h"
#include "sandboxd/server/sandbox.h"

namespace sandboxd::server {

// RFC 3339 in UTC with milliseconds; null for the infinite future.
nlohmann::json TimeJson(absl::Time time);
nlohmann::json StagesJson(const StageTimes& stages);

// A row of sandbox.list, what sandbox.create answers, and the whole of sandbox.info: each has all
// of the one before it. Values of env are never shown.
nlohmann::json SandboxRow(const Sandbox& sandbox);
nlohmann::json SandboxRecord(const Sandbox& sandbox);
nlohmann::json SandboxDetails(const Sandbox& sandbox, const CgroupTree& cgroups);

}  // namespace sandboxd::server

#endif  // SANDBOXD_SERVER_SANDBOX_JSON_H_
