// Control bodies: strict JSON objects. field_reader.h reads the fields out of them.
#ifndef SANDBOXD_WIRE_JSON_H_
#define SANDBOXD_WIRE_JSON_H_

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sandboxd/wire/field_reader.h"  // IWYU pragma: export

namespace sandboxd::wire {

inline constexpr size_t kMaxJsonDepth = 32;      // Objects and arrays, the outermost included.
inline constexpr size_t kMaxJsonValues = 65536;  // Of every kind, in all.
inline constexpr int64_t kMaxJsonInteger = int64_t{1} << 53;

// UTF-8, one object, at most 32 deep and 65,536 values, no duplicate key, integers within ±2^53, no
// other numbers, no byte order mark. Anything else is PROTOCOL_ERROR. The limits are kept while it
// is parsed, and depth costs no stack. Never throws.
absl::StatusOr<nlohmann::json> ParseObject(absl::string_view text);

// One line of valid UTF-8 whatever `body` holds: bytes that are not become U+FFFD.
std::string DumpObject(const nlohmann::json& body);

}  // namespace sandboxd::wire

#endif  // SANDBOXD_WIRE_JSON_H_
