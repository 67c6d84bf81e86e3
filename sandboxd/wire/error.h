#ifndef SANDBOXD_WIRE_ERROR_H_
#define SANDBOXD_WIRE_ERROR_H_

#include <nlohmann/json.hpp>

#include "absl/status/status.h"

namespace sandboxd::wire {

// The body of an Error frame. A status without a reason is INTERNAL.
nlohmann::json ErrorBody(const absl::Status& status);

// The status that such a body says, with its detail attached.
absl::Status StatusFromBody(const nlohmann::json& body);

}  // namespace sandboxd::wire

#endif  // SANDBOXD_WIRE_ERROR_H_
