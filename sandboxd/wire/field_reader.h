#ifndef SANDBOXD_WIRE_FIELD_READER_H_
#define SANDBOXD_WIRE_FIELD_READER_H_

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sandboxd::wire {

// Reads the fields of one object, such as `params`, by name and type:
//
//   FieldReader reader(params, "params");
//   spec.image = reader.RequiredString("image");
//   spec.timeout_ms = reader.Integer("timeout_ms", 0, 1, limits.timeout_max_ms);
//   RETURN_IF_ERROR(reader.Finish());
//
// The first error is kept, and Finish() returns it; until then every getter answers, with its
// fallback or an empty value where the field is missing or wrong. Errors are INVALID_ARGUMENT with
// the reason MISSING_FIELD, INVALID_FIELD, EMBEDDED_NUL or UNKNOWN_FIELD, and the field's full name
// ("params.tmpfs[0].path") as the object. A field that is null counts as missing.
class FieldReader {
 public:
  // `where` is put in front of field names in errors. `object` must outlive the reader.
  FieldReader(const nlohmann::json& object, std::string where);
  FieldReader(nlohmann::json&&, std::string) = delete;

  bool Has(const char* name) { return Find(name, /*required=*/false) != nullptr; }

  // Text without NUL.
  std::string RequiredString(const char* name);
  std::string String(const char* name, std::string fallback = "");
  std::vector<std::string> StringList(const char* name);
  // {string: string}, with bounds on the number of entries and on the bytes of each.
  std::map<std::string, std::string> StringMap(const char* name, size_t max_entries,
                                               size_t max_key_bytes, size_t max_value_bytes);

  // Byte strings (bytes.h).
  std::string RequiredBytes(const char* name);
  std::string Bytes(const char* name, std::string fallback = "");
  std::vector<std::string> RequiredBytesList(const char* name);  // At least one element.
  std::vector<std::string> BytesList(const char* name);

  // Integers from `min` to `max`, both included.
  int64_t RequiredInteger(const char* name, int64_t min, int64_t max);
  int64_t Integer(const char* name, int64_t fallback, int64_t min, int64_t max);
  std::optional<int64_t> OptionalInteger(const char* name, int64_t min, int64_t max);

  bool Bool(const char* name, bool fallback);

  // One of a few names: reader.Enum("stdin", Stdin::kNone, {{"none", Stdin::kNone}, …}).
  template <typename E>
  E Enum(const char* name, E fallback, std::initializer_list<std::pair<const char*, E>> choices);

  // An array or object for the caller to walk; null where missing. The caller checks its type.
  const nlohmann::json* Value(const char* name) { return Find(name, /*required=*/false); }

  // Judgements of the caller. Only the first error counts; an OK status changes nothing.
  void Fail(const char* name, absl::string_view what);
  void Fail(absl::Status status) { status_.Update(std::move(status)); }

  // The first error, else UNKNOWN_FIELD for a field that no getter asked for.
  absl::Status Finish() const;

 private:
  std::string Name(const char* name) const { return where_ + "." + name; }
  const nlohmann::json* Find(const char* name, bool required);
  std::optional<std::string> Text(const nlohmann::json& value, const std::string& name);
  int64_t NumberOf(const nlohmann::json& value, const char* name, int64_t fallback, int64_t min,
                   int64_t max);
  std::vector<std::string> List(const char* name, bool bytes);

  const nlohmann::json& object_;
  const std::string where_;
  std::set<std::string> asked_;
  absl::Status status_;
};

template <typename E>
E FieldReader::Enum(const char* name, E fallback,
                    std::initializer_list<std::pair<const char*, E>> choices) {
  const nlohmann::json* value = Find(name, /*required=*/false);
  if (value == nullptr) return fallback;
  std::string known;
  for (const auto& [text, choice] : choices) {
    if (value->is_string() && *value == text) return choice;
    known += (known.empty() ? "" : ", ") + std::string(text);
  }
  Fail(name, "must be one of " + known);
  return fallback;
}

}  // namespace sandboxd::wire

#endif  // SANDBOXD_WIRE_FIELD_READER_H_
