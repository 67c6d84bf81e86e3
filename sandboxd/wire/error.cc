#include "sandboxd/wire/error.h"

#include "base/status.h"

namespace sandboxd::wire {
namespace {

std::string Text(const nlohmann::json& body, const char* key) {
  const auto it = body.find(key);
  return it != body.end() && it->is_string() ? it->get<std::string>() : std::string();
}

}  // namespace

nlohmann::json ErrorBody(const absl::Status& status) {
  const ErrorDetail detail = DetailOf(status);
  const bool known = !detail.reason.empty();
  nlohmann::json body = {
      {"code", known ? absl::StatusCodeToString(status.code()) : std::string("INTERNAL")},
      {"reason", known ? detail.reason : std::string("INTERNAL")},
      {"message", std::string(status.message())}};
  if (!detail.object.empty()) body["object"] = detail.object;
  if (!detail.stage.empty()) body["stage"] = detail.stage;
  if (!detail.error.empty()) body["errno"] = detail.error;
  return body;
}

absl::Status StatusFromBody(const nlohmann::json& body) {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  for (int i = 1; i <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++i) {
    if (absl::StatusCodeToString(static_cast<absl::StatusCode>(i)) == Text(body, "code")) {
      code = static_cast<absl::StatusCode>(i);
    }
  }
  return WithDetail(absl::Status(code, Text(body, "message")),
                    {.reason = Text(body, "reason"),
                     .object = Text(body, "object"),
                     .stage = Text(body, "stage"),
                     .error = Text(body, "errno")});
}

}  // namespace sandboxd::wire
