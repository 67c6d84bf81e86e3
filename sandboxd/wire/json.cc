#include "sandboxd/wire/json.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sandboxd/wire/bytes.h"

namespace sandboxd::wire {
namespace {

using nlohmann::json;

absl::Status ProtocolError(absl::string_view what) {
  return ReasonError(absl::StatusCode::kInvalidArgument, "PROTOCOL_ERROR", "body", what);
}

// Judges a text while it is parsed: nothing is built, and depth costs no stack.
class Judge : public nlohmann::json_sax<json> {
 public:
  bool null() override { return Value(); }
  bool boolean(bool) override { return Value(); }
  bool number_integer(number_integer_t value) override {
    return value >= -kMaxJsonInteger ? Value() : Refuse("an integer below -2^53");
  }
  bool number_unsigned(number_unsigned_t value) override {
    return value <= static_cast<uint64_t>(kMaxJsonInteger) ? Value()
                                                           : Refuse("an integer above 2^53");
  }
  bool number_float(number_float_t, const string_t&) override {
    return Refuse("a number that is not an integer");
  }
  bool string(string_t&) override { return Value(); }
  bool binary(binary_t&) override { return Refuse("binary"); }
  bool start_object(std::size_t) override {
    keys_.emplace_back();
    return Open();
  }
  bool key(string_t& name) override {
    return keys_.back().insert(name).second || Refuse("a duplicate key");
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ == 0) return Refuse("not an object");
    return Open();
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return Refuse("not JSON");
  }

  const std::string& refused() const { return refused_; }

 private:
  bool Open() {
    if (++depth_ > kMaxJsonDepth) return Refuse("nested deeper than 32");
    return Count();
  }
  bool Value() { return depth_ == 0 ? Refuse("not an object") : Count(); }
  bool Count() { return ++values_ <= kMaxJsonValues || Refuse("more than 65536 values"); }
  bool Refuse(const char* why) {
    if (refused_.empty()) refused_ = why;
    return false;
  }

  int depth_ = 0;
  size_t values_ = 0;
  std::vector<std::set<std::string>> keys_;
  std::string refused_;
};

}  // namespace

absl::StatusOr<json> ParseObject(absl::string_view text) {
  Judge judge;
  const bool fine = json::sax_parse(text.data(), text.data() + text.size(), &judge);
  if (!fine) {
    return ProtocolError(absl::StrCat(
        "a body must be one JSON object of the specified form: ",
        judge.refused().empty() ? "not JSON" : judge.refused()));
  }
  return json::parse(text.data(), text.data() + text.size(), nullptr, /*allow_exceptions=*/false);
}

FieldReader::FieldReader(const json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object_.is_object()) {
    status_ = ReasonError(absl::StatusCode::kInvalidArgument, "INVALID_FIELD", where_,
                          absl::StrCat(where_, ": must be an object"));
  }
}

const json* FieldReader::Find(const char* name, bool required) {
  asked_.insert(name);
  if (!object_.is_object()) return nullptr;
  const auto it = object_.find(name);
  if (it != object_.end() && !it->is_null()) return &*it;
  if (required && status_.ok()) {
    status_ = ReasonError(absl::StatusCode::kInvalidArgument, "MISSING_FIELD", Name(name),
                          absl::StrCat(Name(name), ": is required"));
  }
  return nullptr;
}

void FieldReader::Fail(const char* name, absl::string_view what) {
  if (!status_.ok()) return;
  status_ = ReasonError(absl::StatusCode::kInvalidArgument, "INVALID_FIELD", Name(name),
                        absl::StrCat(Name(name), ": ", what));
}

std::string FieldReader::RequiredString(const char* name) {
  return Find(name, true) == nullptr ? "" : String(name);
}

std::string FieldReader::String(const char* name, std::string fallback) {
  const json* value = Find(name, false);
  if (value == nullptr) return fallback;
  if (!value->is_string()) {
    Fail(name, "must be a string");
    return fallback;
  }
  std::string text = value->get<std::string>();
  if (text.find('\0') != std::string::npos) Fail(name, "must not contain a NUL byte");
  return text;
}

std::string FieldReader::RequiredBytes(const char* name) {
  return Find(name, true) == nullptr ? "" : Bytes(name);
}

std::string FieldReader::Bytes(const char* name, std::string fallback) {
  const json* value = Find(name, false);
  if (value == nullptr) return fallback;
  auto bytes = BytesFromJson(*value, Name(name));
  if (bytes.ok()) return *std::move(bytes);
  if (status_.ok()) status_ = bytes.status();
  return fallback;
}

std::vector<std::string> FieldReader::BytesList(const char* name) {
  const json* value = Find(name, false);
  std::vector<std::string> list;
  if (value == nullptr) return list;
  if (!value->is_array()) {
    Fail(name, "must be a list");
    return list;
  }
  for (size_t i = 0; i < value->size(); ++i) {
    auto bytes = BytesFromJson((*value)[i], absl::StrCat(Name(name), "[", i, "]"));
    if (!bytes.ok()) {
      if (status_.ok()) status_ = bytes.status();
      return {};
    }
    list.push_back(*std::move(bytes));
  }
  return list;
}

int64_t FieldReader::RequiredInteger(const char* name, int64_t min, int64_t max) {
  return Find(name, true) == nullptr ? min : Integer(name, min, min, max);
}

int64_t FieldReader::Integer(const char* name, int64_t fallback, int64_t min, int64_t max) {
  const json* value = Find(name, false);
  if (value == nullptr) return fallback;
  if (value->is_number_integer() && value->get<int64_t>() >= min && value->get<int64_t>() <= max) {
    return value->get<int64_t>();
  }
  Fail(name, absl::StrCat("must be a whole number from ", min, " to ", max));
  return fallback;
}

bool FieldReader::Bool(const char* name, bool fallback) {
  const json* value = Find(name, false);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  Fail(name, "must be true or false");
  return fallback;
}

const json* FieldReader::Value(const char* name) { return Find(name, false); }

absl::Status FieldReader::Finish() const {
  if (!status_.ok()) return status_;
  for (const auto& [key, value] : object_.items()) {
    if (asked_.count(key) > 0) continue;
    return ReasonError(absl::StatusCode::kInvalidArgument, "UNKNOWN_FIELD",
                       absl::StrCat(where_, ".", key),
                       absl::StrCat(where_, ".", key, ": is not a known field"));
  }
  return absl::OkStatus();
}

}  // namespace sandboxd::wire
