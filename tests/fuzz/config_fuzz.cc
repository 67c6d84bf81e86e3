// The configuration file: whatever the text, judging it ends without a crash; a refusal says where
// and why; what is taken keeps every bound, and reading it again asks for nothing.
#include <cstdint>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "sandboxd/server/config.h"

namespace sandboxd::server {
namespace {

void Require(bool condition) {
  if (!condition) abort();
}

void CheckProfile(const std::string& name, const Profile& profile) {
  Require(profile.name == name);
  Require(profile.pids_max >= 8 && profile.memory_max >= 8 << 20);
  Require(profile.shm_bytes >= 65536 && profile.root_bytes >= 65536 && profile.root_inodes >= 128);
}

}  // namespace
}  // namespace sandboxd::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sandboxd::server;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = ParseConfig(text, "fuzz.toml");
  if (!config.ok()) {
    Require(config.status().code() == absl::StatusCode::kInvalidArgument);
    Require(absl::StrContains(config.status().message(), "fuzz.toml"));
    return 0;
  }
  Require(config->limits.sandboxes > 0 && config->limits.execs_per_sandbox > 0);
  Require(config->pool_size >= 0 && config->id_ranges > 0);
  Require(config->profiles.contains("default") && config->profiles.contains("strict"));
  for (const auto& [name, profile] : config->profiles) CheckProfile(name, profile);
  Config running = *config;
  Require(Reload(running, *config).empty());
  // Onto the defaults: what is not taken over is named, and asked for a second time it is the same.
  Config defaults = *ParseConfig("", "defaults");
  const auto later = Reload(defaults, *config);
  Require(Reload(defaults, *config) == later);
  if (size == 0) {
    Require(ParseConfig(DefaultConfigText(), "defaults").ok());
    Require(!ConfigManualPage().empty());
  }
  return 0;
}
