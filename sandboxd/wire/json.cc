#include "sandboxd/wire/json.h"

#include <exception>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sandboxd::wire {
namespace {

using nlohmann::json;

// Builds the document while it is parsed, and stops the parser at the first thing we do not take.
class Builder : public nlohmann::json_sax<json> {
 public:
  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override {
    return value >= -kMaxJsonInteger ? Add(value) : Refuse("an integer below -2^53");
  }
  bool number_unsigned(number_unsigned_t value) override {
    return value <= static_cast<uint64_t>(kMaxJsonInteger) ? Add(static_cast<int64_t>(value))
                                                           : Refuse("an integer above 2^53");
  }
  bool number_float(number_float_t, const string_t&) override {
    return Refuse("a number that is not an integer within ±2^53");
  }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t&) override { return Refuse("binary"); }
  bool start_object(size_t) override { return Open(json::object()); }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override {
    return open_.empty() ? Refuse("not an object") : Open(json::array());
  }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    if (open_.back()->contains(name)) return Refuse("a key that occurs twice");
    key_ = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Refuse(absl::StrCat("not JSON at byte ", position));
  }

  json& document() { return document_; }
  const std::string& refused() const { return refused_; }

 private:
  // Puts a value where the parser is. Null, and refused, where it may not be.
  json* Place(json value) {
    if (++values_ > kMaxJsonValues) {
      Refuse(absl::StrCat("more than ", kMaxJsonValues, " values"));
      return nullptr;
    }
    if (open_.empty()) return &(document_ = std::move(value));
    json& parent = *open_.back();
    if (parent.is_object()) return &(parent[key_] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }

  bool Add(json value) {
    if (open_.empty()) return Refuse("not an object");
    return Place(std::move(value)) != nullptr;
  }

  bool Open(json container) {
    if (open_.size() >= kMaxJsonDepth) {
      return Refuse(absl::StrCat("nested deeper than ", kMaxJsonDepth));
    }
    json* const placed = Place(std::move(container));
    // The pointer lasts: a container is only added to when all in it are closed.
    if (placed != nullptr) open_.push_back(placed);
    return placed != nullptr;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  bool Refuse(absl::string_view why) {
    if (refused_.empty()) refused_ = std::string(why);
    return false;
  }

  json document_;
  std::vector<json*> open_;  // From the outermost container to where the parser is.
  std::string key_;          // Of the next value, in an object.
  size_t values_ = 0;
  std::string refused_;
};

// "" where `builder` now holds the document of `text`, else what is wrong.
std::string Build(absl::string_view text, Builder& builder) {
  // The library takes a NUL byte for the end, and skips a byte order mark.
  if (const size_t nul = text.find('\0'); nul != absl::string_view::npos) {
    return absl::StrCat("not JSON at byte ", nul + 1);
  }
  if (absl::StartsWith(text, "\xef\xbb\xbf")) return "a byte order mark";
  if (json::sax_parse(text.data(), text.data() + text.size(), &builder)) return "";
  return builder.refused().empty() ? "not JSON" : builder.refused();
}

}  // namespace

absl::StatusOr<json> ParseObject(absl::string_view text) {
  Builder builder;
  std::string wrong;
  try {
    wrong = Build(text, builder);
  } catch (const std::exception& e) {
    return ReasonError(absl::StatusCode::kInternal, "INTERNAL", "body",
                       absl::StrCat("parsing a body: ", e.what()));
  }
  if (wrong.empty()) return std::move(builder.document());
  return ReasonError(absl::StatusCode::kInvalidArgument, "PROTOCOL_ERROR", "body",
                     absl::StrCat("the body is not the JSON object it must be: ", wrong));
}

std::string DumpObject(const json& body) {
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace sandboxd::wire
