// Byte strings in JSON: text where it is UTF-8, else {"base64": "…"}.
#ifndef SANDBOXD_WIRE_BYTES_H_
#define SANDBOXD_WIRE_BYTES_H_

#include <string>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sandboxd::wire {

// Strict UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
bool IsUtf8(absl::string_view text);

// Any bytes; receivers refuse those with a NUL.
nlohmann::json BytesToJson(absl::string_view bytes);

// Either form, whichever the bytes would need; base64 must be canonical and padded (RFC 4648).
// INVALID_FIELD or EMBEDDED_NUL, with `field` as the object.
absl::StatusOr<std::string> BytesFromJson(const nlohmann::json& value, absl::string_view field);

}  // namespace sandboxd::wire

#endif  // SANDBOXD_WIRE_BYTES_H_
