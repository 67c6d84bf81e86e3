// Errors as the project reports them: an absl::Status whose message names the object, and, where a
// program is to act on it, a stable reason and the object in payloads.
#ifndef SANDBOXD_BASE_STATUS_H_
#define SANDBOXD_BASE_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sandboxd {

// What a status says beyond its code and message. Empty where nothing was attached.
struct ErrorDetail {
  std::string reason;  // Stable, for programs: "CWD_NOT_FOUND".
  std::string object;  // What it is about: "sandbox 4f…", "params.env[3]".
  std::string stage;   // The launch stage that failed: "mount /proc".
  std::string error;   // The symbolic errno of that stage: "ENOENT".
};

// The status of the current errno: "opening /x: No such file or directory". The code is Abseil's
// mapping of the errno.
absl::Status ErrnoError(absl::string_view what);
absl::Status ErrnoError(int error, absl::string_view what);

// A status with a reason for programs and the object it is about.
absl::Status ReasonError(absl::StatusCode code, absl::string_view reason, absl::string_view object,
                         absl::string_view message);

// Attaches `detail` to `status`; empty fields are left as they are. OK stays OK.
absl::Status WithDetail(absl::Status status, const ErrorDetail& detail);
ErrorDetail DetailOf(const absl::Status& status);

// "ENOENT", or "errno 4711" for a number without a name.
std::string ErrnoName(int error);

}  // namespace sandboxd

// Returns from the current function where `expression` is not OK. Named as in newer Abseil, so that
// theirs can replace them.
#define RETURN_IF_ERROR(expression)                     \
  do {                                                  \
    absl::Status return_if_error_status = (expression); \
    if (!return_if_error_status.ok()) {                 \
      return return_if_error_status;                    \
    }                                                   \
  } while (false)

#define SANDBOXD_CONCAT_INNER(a, b) a##b
#define SANDBOXD_CONCAT(a, b) SANDBOXD_CONCAT_INNER(a, b)
#define ASSIGN_OR_RETURN(declaration, expression) \
  ASSIGN_OR_RETURN_IMPL(SANDBOXD_CONCAT(status_or_, __LINE__), declaration, expression)
#define ASSIGN_OR_RETURN_IMPL(name, declaration, expression) \
  auto name = (expression);                                  \
  if (!name.ok()) return std::move(name).status();           \
  declaration = *std::move(name)

#endif  // SANDBOXD_BASE_STATUS_H_
