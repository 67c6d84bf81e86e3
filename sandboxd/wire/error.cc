#include "sandboxd/wire/error.h"

#include <string>
#include <utility>

#include "base/status.h"

namespace sandboxd::wire {
namespace {

using absl::StatusCode;

struct Verdict {
  StatusCode code;
  std::string reason;
};

// The nearest of the codes in section 4 of the specification.
StatusCode Canonical(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kAlreadyExists:
    case StatusCode::kPermissionDenied:
    case StatusCode::kResourceExhausted:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kAborted:
    case StatusCode::kUnavailable:
    case StatusCode::kCancelled:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kInternal:
    case StatusCode::kUnimplemented:
      return code;
    case StatusCode::kOutOfRange:
      return StatusCode::kInvalidArgument;
    case StatusCode::kUnauthenticated:
      return StatusCode::kPermissionDenied;
    default:  // kOk, kUnknown, kDataLoss, and what Abseil may add.
      return StatusCode::kInternal;
  }
}

Verdict Judge(StatusCode code, const ErrorDetail& detail) {
  if (!detail.reason.empty()) return {Canonical(code), detail.reason};
  if (!detail.stage.empty()) return {StatusCode::kFailedPrecondition, "LAUNCH_FAILED"};
  if (!detail.error.empty()) return {StatusCode::kInternal, "INTERNAL"};
  if (code == StatusCode::kInvalidArgument) return {code, "INVALID_FIELD"};
  if (code == StatusCode::kUnimplemented) return {code, "UNKNOWN_OPERATION"};
  if (code == StatusCode::kCancelled) return {code, "CANCELLED"};
  return {StatusCode::kInternal, "INTERNAL"};
}

std::string Text(const nlohmann::json& body, const char* key) {
  const auto it = body.find(key);
  return it != body.end() && it->is_string() ? it->get<std::string>() : std::string();
}

StatusCode CodeFromName(const std::string& name) {
  for (int i = 1; i <= static_cast<int>(StatusCode::kUnauthenticated); ++i) {
    const StatusCode code = static_cast<StatusCode>(i);
    if (absl::StatusCodeToString(code) == name) return code;
  }
  return StatusCode::kUnknown;
}

}  // namespace

nlohmann::json ErrorBody(const absl::Status& status) {
  const ErrorDetail detail = DetailOf(status);
  Verdict verdict = Judge(status.code(), detail);
  nlohmann::json body = {{"code", absl::StatusCodeToString(verdict.code)},
                         {"reason", std::move(verdict.reason)},
                         {"message", std::string(status.message())}};
  if (!detail.object.empty()) body["object"] = detail.object;
  if (!detail.stage.empty()) body["stage"] = detail.stage;
  if (!detail.error.empty()) body["errno"] = detail.error;
  return body;
}

absl::Status ProtocolError(absl::string_view what) {
  return ReasonError(absl::StatusCode::kInvalidArgument, "PROTOCOL_ERROR", "connection", what);
}

absl::Status StatusFromBody(const nlohmann::json& body) {
  return WithDetail(absl::Status(CodeFromName(Text(body, "code")), Text(body, "message")),
                    {.reason = Text(body, "reason"),
                     .object = Text(body, "object"),
                     .stage = Text(body, "stage"),
                     .error = Text(body, "errno")});
}

}  // namespace sandboxd::wire
