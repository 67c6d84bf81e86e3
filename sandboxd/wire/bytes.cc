#include "sandboxd/wire/bytes.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sandboxd::wire {
namespace {

absl::Status Invalid(absl::string_view field, absl::string_view what) {
  return ReasonError(absl::StatusCode::kInvalidArgument, "INVALID_FIELD", field,
                     absl::StrCat(field, ": ", what));
}

}  // namespace

bool IsUtf8(absl::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const unsigned char lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead >= 0xc2 && lead < 0xe0   ? 2
                                            : lead >= 0xe0 && lead < 0xf0 ? 3
                                            : lead >= 0xf0 && lead < 0xf5 ? 4
                                                                          : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (size_t k = 1; k < length; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    }
    if (length > 2) {
      const unsigned char next = static_cast<unsigned char>(text[i + 1]);
      if ((lead == 0xe0 && next < 0xa0) || (lead == 0xed && next > 0x9f) ||
          (lead == 0xf0 && next < 0x90) || (lead == 0xf4 && next > 0x8f)) {
        return false;
      }
    }
    i += length;
  }
  return true;
}

nlohmann::json BytesToJson(absl::string_view bytes) {
  if (IsUtf8(bytes)) return std::string(bytes);
  return {{"base64", absl::Base64Escape(bytes)}};
}

absl::StatusOr<std::string> BytesFromJson(const nlohmann::json& value, absl::string_view field) {
  std::string bytes;
  if (value.is_string()) {
    bytes = value.get<std::string>();
  } else if (value.is_object() && value.size() == 1 && value.contains("base64") &&
             value["base64"].is_string()) {
    const std::string text = value["base64"].get<std::string>();
    if (!absl::Base64Unescape(text, &bytes) || absl::Base64Escape(bytes) != text) {
      return Invalid(field, "not padded base64 of RFC 4648");
    }
  } else {
    return Invalid(field, "must be a string or {\"base64\": \"…\"}");
  }
  if (bytes.find('\0') != std::string::npos) {
    return ReasonError(absl::StatusCode::kInvalidArgument, "EMBEDDED_NUL", field,
                       absl::StrCat(field, ": must not contain a NUL byte"));
  }
  return bytes;
}

}  // namespace sandboxd::wire
