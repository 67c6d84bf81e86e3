// Control bodies: strict JSON objects, and fields read out of them with precise errors.
#ifndef SANDBOXD_WIRE_JSON_H_
#define SANDBOXD_WIRE_JSON_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sandboxd::wire {

inline constexpr int kMaxJsonDepth = 32;
inline constexpr size_t kMaxJsonValues = 65536;
inline constexpr int64_t kMaxJsonInteger = int64_t{1} << 53;

// UTF-8, one object, at most 32 deep and 65,536 values, no duplicate key, integers within ±2^53, no
// other numbers. Anything else is PROTOCOL_ERROR.
absl::StatusOr<nlohmann::json> ParseObject(absl::string_view text);

// Reads the fields of one object. The first error is kept, and Finish() returns it, or names a field
// that nobody asked for.
class FieldReader {
 public:
  // `where` is put in front of field names in errors: "params".
  FieldReader(const nlohmann::json& object, std::string where);

  // Each returns the default, or an empty value, where the field is missing or wrong.
  std::string RequiredString(const char* name);
  std::string String(const char* name, std::string fallback = "");
  std::string RequiredBytes(const char* name);
  std::string Bytes(const char* name, std::string fallback = "");
  std::vector<std::string> BytesList(const char* name);
  int64_t Integer(const char* name, int64_t fallback, int64_t min, int64_t max);
  int64_t RequiredInteger(const char* name, int64_t min, int64_t max);
  bool Bool(const char* name, bool fallback);
  // An array or object for the caller to walk; null where missing.
  const nlohmann::json* Value(const char* name);

  void Fail(const char* name, absl::string_view what);
  absl::Status Finish() const;

 private:
  std::string Name(const char* name) const { return where_ + "." + name; }
  const nlohmann::json* Find(const char* name, bool required);

  const nlohmann::json& object_;
  const std::string where_;
  std::set<std::string> asked_;
  absl::Status status_;
};

}  // namespace sandboxd::wire

#endif  // SANDBOXD_WIRE_JSON_H_
