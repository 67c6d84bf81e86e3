// Statuses as the bodies of Error frames (docs/protocol.md, section 4), and back.
#ifndef SANDBOXD_WIRE_ERROR_H_
#define SANDBOXD_WIRE_ERROR_H_

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sandboxd::wire {

// The body that says `status`, with its reason, object, stage and errno (base/status.h). Where no
// reason was attached, one is chosen that promises no more than is known:
//
//   a failed stage                  LAUNCH_FAILED      FAILED_PRECONDITION
//   a failed system call            INTERNAL           INTERNAL
//   code kInvalidArgument           INVALID_FIELD      INVALID_ARGUMENT
//   code kUnimplemented             UNKNOWN_OPERATION  UNIMPLEMENTED
//   code kCancelled                 CANCELLED          CANCELLED
//   any other (kOk included)        INTERNAL           INTERNAL
//
// The codes of system calls (ENOENT: kNotFound …) are about our files, not about what was asked.
// A code that the specification does not name becomes the nearest one that it does.
nlohmann::json ErrorBody(const absl::Status& status);

// The other side broke a rule of sections 1 or 3: PROTOCOL_ERROR, about the connection.
absl::Status ProtocolError(absl::string_view what);

// The status that such a body says, never OK, with its detail attached. Codes of a later version
// are kUnknown; fields that are missing or not strings are empty.
absl::Status StatusFromBody(const nlohmann::json& body);

}  // namespace sandboxd::wire

#endif  // SANDBOXD_WIRE_ERROR_H_
