// The daemon's configuration file: TOML. `sandboxd --print-default-config` prints it commented.
#ifndef SANDBOXD_SERVER_CONFIG_H_
#define SANDBOXD_SERVER_CONFIG_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "policy/profile.h"

namespace sandboxd::server {

// Everything that a client or a sandbox can make grow has its bound here. 0 is never "unlimited".
struct Limits {
  int64_t connections = 1024;
  int64_t connections_per_uid = 256;
  int64_t streams_per_connection = 64;
  int64_t initial_credit = 262144;         // Bytes, for each channel and direction.
  int64_t frame_timeout_ms = 10'000;       // First to last byte of a frame; accept to Hello.
  int64_t send_timeout_ms = 60'000;        // A client that takes nothing of what waits for it.
  int64_t queued_control_bytes = 8 << 20;  // Control frames that wait on one connection.
  int64_t sandboxes = 2000;
  int64_t creates_at_once = 64;
  int64_t execs_per_sandbox = 64;
  int64_t execs_kept = 32;
  int64_t ended_kept = 256;
  int64_t events_ring = 4096;
  int64_t timeout_max_ms = 30LL * 24 * 3600 * 1000;
  int64_t report_timeout_ms = 5000;
  int64_t tmpfs_mounts = 16;
  int64_t tmpfs_bytes = 1LL << 30;  // Of one requested tmpfs.
};

struct Config {
  std::string socket = "/run/sandboxd/sandboxd.sock";
  std::string socket_group = "sandboxd";
  std::string run_dir = "/run/sandboxd";
  std::string state_dir = "/var/lib/sandboxd";
  std::string cgroup = "sandboxd";
  bool allow_hybrid_cgroups = false;
  std::string log_level = "info";

  int64_t id_base = 1879048192;  // 0x70000000
  int64_t id_ranges = 4000;

  int64_t pool_size = 4;
  std::vector<std::string> pool_profiles = {"default"};

  bool host_image = true;
  std::vector<std::string> image_directories;  // Directories that, and beneath which, are images.

  Limits limits;
  std::map<std::string, Profile> profiles;  // `default` and `strict` are always there.
};

// Parses the file's text. INVALID_ARGUMENT with line, key and what is expected; unknown keys are
// errors. `source` names the file in messages.
absl::StatusOr<Config> ParseConfig(absl::string_view text, absl::string_view source);

absl::StatusOr<Config> LoadConfig(const std::string& path);

// A complete configuration with the defaults, each key explained.
std::string DefaultConfigText();

// The same as sandboxd.toml(5): roff with the macros of man(7).
std::string ConfigManualPage();

// Takes over from `fresh` what may change while the daemon runs, and names what would need a
// restart.
std::vector<std::string> Reload(Config& running, const Config& fresh);

}  // namespace sandboxd::server

#endif  // SANDBOXD_SERVER_CONFIG_H_
