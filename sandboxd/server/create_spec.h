#ifndef SANDBOXD_SERVER_CREATE_SPEC_H_
#define SANDBOXD_SERVER_CREATE_SPEC_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "runtime/launch_plan.h"
#include "sandboxd/server/config.h"

namespace sandboxd::server {

// A create as the client asked for it, checked field by field; defaults are filled in.
struct CreateSpec {
  std::string image;
  std::string name;
  std::vector<std::string> env;
  std::string cwd = "/";
  std::string user = "0";
  std::string hostname;
  std::map<std::string, std::string> labels;
  int64_t timeout_ms = 0;  // 0: none.
  bool read_only_root = false;
  std::vector<TmpfsSpec> tmpfs;
  std::string profile = "default";
  std::string idempotency_key;

  friend bool operator==(const CreateSpec&, const CreateSpec&) = default;
};

// From the `params` of sandbox.create. The errors are those of the protocol's table.
absl::StatusOr<CreateSpec> ParseCreate(const nlohmann::json& params, const Config& config);

// The same object back, for the state file. ParseCreate(ToParams(spec)) is spec.
nlohmann::json ToParams(const CreateSpec& spec);

}  // namespace sandboxd::server

#endif  // SANDBOXD_SERVER_CREATE_SPEC_H_
