#ifndef SANDBOXD_RUNTIME_USER_REF_H_
#define SANDBOXD_RUNTIME_USER_REF_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/plan_format.h"

namespace sandboxd {

// Who a program runs as inside: each half by name or by number.
struct UserRef {
  std::string user_name;   // Empty: `uid` holds.
  std::string group_name;  // Empty: `gid` holds.
  uint32_t uid = 0;
  uint32_t gid = kNoId;  // kNoId: the user's primary group.
};

// Parses "NAME", "NAME:GROUP", "UID", "UID:GID" and mixtures. Strict, because lenient parsers have
// turned such strings into uid 0: a part that begins with a digit must be a plain decimal number
// from 0 to 65535 without leading zeros; a name is [a-zA-Z_][a-zA-Z0-9_.-]{0,31}; there is at most
// one colon, with something on both sides. Anything else is INVALID_USER, and a number is never
// looked up as a name.
absl::StatusOr<UserRef> ParseUserRef(absl::string_view text);

}  // namespace sandboxd

#endif  // SANDBOXD_RUNTIME_USER_REF_H_
