// Control bodies: whatever the text, parsing ends without a crash and within its limits; what is
// taken is what the library alone would read, and survives being written and read again; byte
// strings and errors in it are judged without a crash.
#include <cstdint>
#include <cstdlib>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/strings/string_view.h"
#include "base/status.h"
#include "sandboxd/wire/bytes.h"
#include "sandboxd/wire/error.h"
#include "sandboxd/wire/json.h"

namespace sandboxd::wire {
namespace {

using nlohmann::json;

void Require(bool condition) {
  if (!condition) abort();
}

void CheckLimits(const json& value, size_t depth, size_t& values) {
  Require(++values <= kMaxJsonValues);
  Require(!value.is_number_float() && !value.is_binary() && !value.is_discarded());
  if (value.is_number_integer()) {
    Require(value.get<int64_t>() >= -kMaxJsonInteger && value.get<int64_t>() <= kMaxJsonInteger);
  }
  if (value.is_string()) Require(IsUtf8(value.get_ref<const std::string&>()));
  if (!value.is_structured()) return;
  Require(depth < kMaxJsonDepth);
  for (const auto& [key, element] : value.items()) {
    Require(!value.is_object() || IsUtf8(key));
    CheckLimits(element, depth + 1, values);
  }
}

void CheckBytes(const json& value) {
  const auto bytes = BytesFromJson(value, "value");
  if (!bytes.ok()) return;
  Require(bytes->find('\0') == std::string::npos);
  const auto again = BytesFromJson(BytesToJson(*bytes), "value");
  Require(again.ok() && *again == *bytes);
}

void ReadFields(const json& object) {
  FieldReader reader(object, "params");
  reader.RequiredString("image");
  reader.Bytes("cwd");
  reader.RequiredBytesList("argv");
  reader.StringMap("labels", 4, 16, 16);
  reader.Integer("timeout_ms", 0, 1, 1000);
  reader.Bool("on", false);
  reader.StringList("names");
  reader.OptionalInteger("after", 0, 9);
  reader.Enum("stdin", 0, {{"none", 0}, {"pipe", 1}});
  const absl::Status status = reader.Finish();
  Require(status.ok() || !DetailOf(status).reason.empty());
  FieldReader required(object, "params");
  required.RequiredBytes("cwd");
  required.RequiredInteger("timeout_ms", 1, 1000);
  required.Finish().IgnoreError();
}

}  // namespace
}  // namespace sandboxd::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sandboxd;
  using namespace sandboxd::wire;
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto object = ParseObject(text);
  if (!object.ok()) {
    Require(DetailOf(object.status()).reason == "PROTOCOL_ERROR");
    return 0;
  }
  size_t values = 0;
  CheckLimits(*object, 0, values);
  Require(object->is_object());
  Require(*object == nlohmann::json::parse(text.begin(), text.end(), nullptr, false));
  const auto again = ParseObject(DumpObject(*object));
  Require(again.ok() && *again == *object);
  for (const auto& [key, value] : object->items()) CheckBytes(value);
  ReadFields(*object);
  const absl::Status status = StatusFromBody(*object);
  Require(!status.ok());
  // Once ours, an error stays what it is.
  const nlohmann::json body = ErrorBody(status);
  Require(ErrorBody(StatusFromBody(body)) == body);
  return 0;
}
