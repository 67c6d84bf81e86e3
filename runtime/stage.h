#ifndef SANDBOXD_RUNTIME_STAGE_H_
#define SANDBOXD_RUNTIME_STAGE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/stage_format.h"

namespace sandboxd {

// The stable name of a stage, as errors and timings show it: "pivot_root".
absl::string_view StageName(Stage stage);

// The status of a launch that failed at `failure`, with stage and errno attached. `object` names
// what was being launched, and `element` the element of the plan that the stage worked on, if any.
absl::Status LaunchError(const StageFailure& failure, absl::string_view object,
                         absl::string_view element = "");

}  // namespace sandboxd

#endif  // SANDBOXD_RUNTIME_STAGE_H_
