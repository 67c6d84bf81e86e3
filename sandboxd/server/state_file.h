// The file that tells the next daemon of a sandbox. One line that stays as it is in every version,
// then the body:
//
//   sandboxd-state SCHEMA BOOT_ID ID_BASE CHECKSUM\n
//   {…}
//
// The checksum (FNV-1a, 64 bits, over all but itself) finds damage, not malice: only root writes
// here.
#ifndef SANDBOXD_SERVER_STATE_FILE_H_
#define SANDBOXD_SERVER_STATE_FILE_H_

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/string_view.h"

namespace sandboxd::server {

inline constexpr int kStateSchema = 1;

enum class StateVerdict {
  kSound,
  kOtherBoot,  // Written before this kernel started: nothing of that sandbox is alive.
  kNewer,      // A later version's: its sandbox is not ours to judge. `id_base` holds.
  kDamaged,
};

struct State {
  StateVerdict verdict = StateVerdict::kDamaged;
  uint32_t id_base = 0;
  nlohmann::json body;  // An object, where the file is sound.
};

// `boot_id` is that of /proc/sys/kernel/random/boot_id (random(4)), without white space.
std::string EncodeState(absl::string_view boot_id, uint32_t id_base, const nlohmann::json& body);
State DecodeState(absl::string_view text, absl::string_view boot_id);

}  // namespace sandboxd::server

#endif  // SANDBOXD_SERVER_STATE_FILE_H_
