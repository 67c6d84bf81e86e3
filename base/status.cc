#include "base/status.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace sandboxd {
namespace {

constexpr char kReason[] = "sandboxd/reason";
constexpr char kObject[] = "sandboxd/object";
constexpr char kStage[] = "sandboxd/stage";
constexpr char kError[] = "sandboxd/errno";

void Attach(absl::Status& status, absl::string_view key, const std::string& value) {
  if (!value.empty()) status.SetPayload(key, absl::Cord(value));
}

std::string Payload(const absl::Status& status, absl::string_view key) {
  const auto value = status.GetPayload(key);
  return value.has_value() ? std::string(*value) : std::string();
}

}  // namespace

absl::Status ErrnoError(absl::string_view what) { return ErrnoError(errno, what); }

absl::Status ErrnoError(int error, absl::string_view what) {
  return WithDetail(absl::ErrnoToStatus(error, what), {.error = ErrnoName(error)});
}

absl::Status ReasonError(absl::StatusCode code, absl::string_view reason, absl::string_view object,
                         absl::string_view message) {
  return WithDetail(absl::Status(code, message),
                    {.reason = std::string(reason), .object = std::string(object)});
}

absl::Status WithDetail(absl::Status status, const ErrorDetail& detail) {
  if (status.ok()) return status;
  Attach(status, kReason, detail.reason);
  Attach(status, kObject, detail.object);
  Attach(status, kStage, detail.stage);
  Attach(status, kError, detail.error);
  return status;
}

ErrorDetail DetailOf(const absl::Status& status) {
  return {.reason = Payload(status, kReason),
          .object = Payload(status, kObject),
          .stage = Payload(status, kStage),
          .error = Payload(status, kError)};
}

std::string ErrnoName(int error) {
  const char* name = strerrorname_np(error);
  return name != nullptr ? name : absl::StrCat("errno ", error);
}

}  // namespace sandboxd
