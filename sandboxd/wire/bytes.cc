#include "sandboxd/wire/bytes.h"

#include <cstdint>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sandboxd::wire {
namespace {

absl::Status Invalid(absl::string_view field, absl::string_view what) {
  return ReasonError(absl::StatusCode::kInvalidArgument, "INVALID_FIELD", field,
                     absl::StrCat(field, ": ", what));
}

// How many bytes of ASCII `text` begins with, in steps of eight.
size_t AsciiPrefix(absl::string_view text) {
  size_t size = 0;
  for (; size + 8 <= text.size(); size += 8) {
    uint64_t word;
    memcpy(&word, text.data() + size, sizeof word);
    if ((word & 0x8080808080808080u) != 0) break;
  }
  return size;
}

// What may follow a lead byte: how many bytes in all, and the range of the second one. It is that
// range which excludes overlong forms, surrogates, and what lies above U+10FFFF.
struct Sequence {
  size_t size;  // 0: not a lead byte.
  unsigned char low;
  unsigned char high;
};
constexpr Sequence SequenceOf(unsigned char lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xc2) return {0, 0, 0};
  if (lead < 0xe0) return {2, 0x80, 0xbf};
  if (lead < 0xf0) {
    return {3, static_cast<unsigned char>(lead == 0xe0 ? 0xa0 : 0x80),
            static_cast<unsigned char>(lead == 0xed ? 0x9f : 0xbf)};
  }
  if (lead < 0xf5) {
    return {4, static_cast<unsigned char>(lead == 0xf0 ? 0x90 : 0x80),
            static_cast<unsigned char>(lead == 0xf4 ? 0x8f : 0xbf)};
  }
  return {0, 0, 0};
}

}  // namespace

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    text.remove_prefix(AsciiPrefix(text));
    if (text.empty()) return true;
    const Sequence sequence = SequenceOf(static_cast<unsigned char>(text[0]));
    if (sequence.size == 0 || sequence.size > text.size()) return false;
    for (size_t i = 1; i < sequence.size; ++i) {
      const unsigned char byte = static_cast<unsigned char>(text[i]);
      const unsigned char low = i == 1 ? sequence.low : 0x80;
      const unsigned char high = i == 1 ? sequence.high : 0xbf;
      if (byte < low || byte > high) return false;
    }
    text.remove_prefix(sequence.size);
  }
  return true;
}

nlohmann::json BytesToJson(absl::string_view bytes) {
  if (IsUtf8(bytes)) return std::string(bytes);
  return nlohmann::json::object({{"base64", absl::Base64Escape(bytes)}});
}

absl::StatusOr<std::string> BytesFromJson(const nlohmann::json& value, absl::string_view field) {
  std::string bytes;
  if (value.is_string()) {
    bytes = value.get_ref<const std::string&>();
  } else if (value.is_object() && value.size() == 1 && value.contains("base64") &&
             value["base64"].is_string()) {
    const std::string& text = value["base64"].get_ref<const std::string&>();
    // Abseil also takes unpadded text, spaces, and stray bits at the end.
    if (!absl::Base64Unescape(text, &bytes) || absl::Base64Escape(bytes) != text) {
      return Invalid(field, "the base64 is not that of RFC 4648 with padding");
    }
  } else {
    return Invalid(field, "must be a string, or {\"base64\": \"…\"} where it is not UTF-8");
  }
  if (absl::StrContains(bytes, '\0')) {
    return ReasonError(absl::StatusCode::kInvalidArgument, "EMBEDDED_NUL", field,
                       absl::StrCat(field, ": must not contain a NUL byte"));
  }
  return bytes;
}

}  // namespace sandboxd::wire
