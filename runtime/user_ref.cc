#include "runtime/user_ref.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sandboxd {
namespace {

constexpr size_t kMaxName = 32;
constexpr uint32_t kIdLimit = 65536;

absl::Status Invalid(absl::string_view text, absl::string_view why) {
  return ReasonError(absl::StatusCode::kInvalidArgument, "INVALID_USER", "user",
                     absl::StrCat("user \"", absl::CHexEscape(text.substr(0, 80)), "\": ", why,
                                  "; give NAME, NAME:GROUP, UID or UID:GID"));
}

bool IsNumber(absl::string_view part, uint32_t& value) {
  return std::all_of(part.begin(), part.end(),
                     [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }) &&
         (part.size() == 1 || part[0] != '0') && part.size() <= 5 &&
         absl::SimpleAtoi(part, &value) && value < kIdLimit;
}

bool IsName(absl::string_view part) {
  const auto is_start = [](char c) {
    return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_';
  };
  return part.size() <= kMaxName && is_start(part[0]) &&
         std::all_of(part.begin(), part.end(), [&](char c) {
           return is_start(c) || absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '.' ||
                  c == '-';
         });
}

absl::Status ParsePart(absl::string_view text, absl::string_view part, std::string& name,
                       uint32_t& id) {
  if (part.empty()) return Invalid(text, "an empty part");
  if (absl::ascii_isdigit(static_cast<unsigned char>(part[0]))) {
    if (!IsNumber(part, id)) return Invalid(text, "ids are plain numbers from 0 to 65535");
    return absl::OkStatus();
  }
  if (!IsName(part)) return Invalid(text, "not a name that /etc/passwd could hold");
  name = std::string(part);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UserRef> ParseUserRef(absl::string_view text) {
  UserRef ref;
  const size_t colon = text.find(':');
  RETURN_IF_ERROR(ParsePart(text, text.substr(0, colon), ref.user_name, ref.uid));
  if (colon == absl::string_view::npos) return ref;
  RETURN_IF_ERROR(ParsePart(text, text.substr(colon + 1), ref.group_name, ref.gid));
  return ref;
}

}  // namespace sandboxd
