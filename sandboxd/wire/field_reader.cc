#include "sandboxd/wire/field_reader.h"

#include <limits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "sandboxd/wire/bytes.h"

namespace sandboxd::wire {
namespace {

using nlohmann::json;

// Enough of an unknown key to recognize it in an error.
constexpr size_t kShownKeyBytes = 64;

absl::Status FieldError(absl::string_view reason, absl::string_view field, absl::string_view what) {
  return ReasonError(absl::StatusCode::kInvalidArgument, reason, field,
                     absl::StrCat(field, ": ", what));
}

std::string Shown(const std::string& key) {
  if (key.size() <= kShownKeyBytes) return key;
  size_t size = kShownKeyBytes;
  while (size > 0 && (static_cast<unsigned char>(key[size]) & 0xc0) == 0x80) --size;
  return key.substr(0, size) + "…";
}

bool HasNul(const std::string& text) { return absl::StrContains(text, '\0'); }

}  // namespace

FieldReader::FieldReader(const json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object_.is_object()) status_ = FieldError("INVALID_FIELD", where_, "must be an object");
}

const json* FieldReader::Find(const char* name, bool required) {
  asked_.insert(name);
  if (!object_.is_object()) return nullptr;
  const auto it = object_.find(name);
  if (it != object_.end() && !it->is_null()) return &*it;
  if (required) Fail(FieldError("MISSING_FIELD", Name(name), "is required"));
  return nullptr;
}

void FieldReader::Fail(const char* name, absl::string_view what) {
  Fail(FieldError("INVALID_FIELD", Name(name), what));
}

std::optional<std::string> FieldReader::Text(const json& value, const std::string& name) {
  if (!value.is_string()) {
    Fail(FieldError("INVALID_FIELD", name, "must be a string"));
    return std::nullopt;
  }
  const std::string& text = value.get_ref<const std::string&>();
  if (HasNul(text)) {
    Fail(FieldError("EMBEDDED_NUL", name, "must not contain a NUL byte"));
    return std::nullopt;
  }
  return text;
}

std::string FieldReader::RequiredString(const char* name) {
  return Find(name, /*required=*/true) == nullptr ? "" : String(name);
}

std::string FieldReader::String(const char* name, std::string fallback) {
  const json* value = Find(name, /*required=*/false);
  if (value == nullptr) return fallback;
  return Text(*value, Name(name)).value_or(std::move(fallback));
}

std::vector<std::string> FieldReader::List(const char* name, bool bytes) {
  const json* value = Find(name, /*required=*/false);
  if (value == nullptr) return {};
  if (!value->is_array()) {
    Fail(name, "must be a list");
    return {};
  }
  std::vector<std::string> list;
  list.reserve(value->size());
  for (const json& element : *value) {
    const std::string where = absl::StrCat(Name(name), "[", list.size(), "]");
    if (bytes) {
      auto item = BytesFromJson(element, where);
      Fail(item.status());
      if (!item.ok()) return {};
      list.push_back(*std::move(item));
    } else {
      auto item = Text(element, where);
      if (!item.has_value()) return {};
      list.push_back(*std::move(item));
    }
  }
  return list;
}

std::vector<std::string> FieldReader::StringList(const char* name) {
  return List(name, /*bytes=*/false);
}

std::map<std::string, std::string> FieldReader::StringMap(const char* name, size_t max_entries,
                                                          size_t max_key_bytes,
                                                          size_t max_value_bytes) {
  const json* value = Find(name, /*required=*/false);
  if (value == nullptr) return {};
  if (!value->is_object() || value->size() > max_entries) {
    Fail(name, absl::StrCat("must be an object of at most ", max_entries, " entries"));
    return {};
  }
  std::map<std::string, std::string> map;
  for (const auto& [key, element] : value->items()) {
    if (key.empty() || key.size() > max_key_bytes) {
      Fail(name, absl::StrCat("a key must have 1 to ", max_key_bytes, " bytes"));
    }
    const std::string where = absl::StrCat(Name(name), ".", Shown(key));
    if (HasNul(key)) Fail(FieldError("EMBEDDED_NUL", where, "must not contain a NUL byte"));
    std::string text = Text(element, where).value_or("");
    if (text.size() > max_value_bytes) {
      Fail(FieldError("INVALID_FIELD", where,
                      absl::StrCat("must have at most ", max_value_bytes, " bytes")));
    }
    if (!status_.ok()) return {};
    map.emplace(key, std::move(text));
  }
  return map;
}

std::string FieldReader::RequiredBytes(const char* name) {
  return Find(name, /*required=*/true) == nullptr ? "" : Bytes(name);
}

std::string FieldReader::Bytes(const char* name, std::string fallback) {
  const json* value = Find(name, /*required=*/false);
  if (value == nullptr) return fallback;
  auto bytes = BytesFromJson(*value, Name(name));
  if (bytes.ok()) return *std::move(bytes);
  Fail(bytes.status());
  return fallback;
}

std::vector<std::string> FieldReader::RequiredBytesList(const char* name) {
  const json* value = Find(name, /*required=*/true);
  if (value != nullptr && value->is_array() && value->empty()) Fail(name, "must not be empty");
  return BytesList(name);
}

std::vector<std::string> FieldReader::BytesList(const char* name) {
  return List(name, /*bytes=*/true);
}

int64_t FieldReader::NumberOf(const json& value, const char* name, int64_t fallback, int64_t min,
                              int64_t max) {
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() ||
                     value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()});
  if (fits && value.get<int64_t>() >= min && value.get<int64_t>() <= max) {
    return value.get<int64_t>();
  }
  Fail(name, absl::StrCat("must be a whole number from ", min, " to ", max));
  return fallback;
}

int64_t FieldReader::RequiredInteger(const char* name, int64_t min, int64_t max) {
  const json* value = Find(name, /*required=*/true);
  return value == nullptr ? min : NumberOf(*value, name, min, min, max);
}

int64_t FieldReader::Integer(const char* name, int64_t fallback, int64_t min, int64_t max) {
  const json* value = Find(name, /*required=*/false);
  return value == nullptr ? fallback : NumberOf(*value, name, fallback, min, max);
}

std::optional<int64_t> FieldReader::OptionalInteger(const char* name, int64_t min, int64_t max) {
  const json* value = Find(name, /*required=*/false);
  if (value == nullptr) return std::nullopt;
  return NumberOf(*value, name, min, min, max);
}

bool FieldReader::Bool(const char* name, bool fallback) {
  const json* value = Find(name, /*required=*/false);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  Fail(name, "must be true or false");
  return fallback;
}

absl::Status FieldReader::Finish() const {
  if (!status_.ok()) return status_;
  for (const auto& [key, value] : object_.items()) {
    if (asked_.contains(key)) continue;
    return FieldError("UNKNOWN_FIELD", absl::StrCat(where_, ".", Shown(key)),
                      absl::StrCat("is not a known field; known are ",
                                   asked_.empty() ? "none" : absl::StrJoin(asked_, ", ")));
  }
  return absl::OkStatus();
}

}  // namespace sandboxd::wire
