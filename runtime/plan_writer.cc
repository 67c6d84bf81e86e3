#include "runtime/plan_writer.h"

#include "absl/strings/str_cat.h"
#include "base/memfd.h"
#include "base/status.h"

namespace sandboxd {

absl::StatusOr<UniqueFd> PlanFile(const char* name, absl::string_view plan) {
  if (plan.size() > kMaxPlanBytes) {
    return ReasonError(absl::StatusCode::kInvalidArgument, "ARGUMENTS_TOO_LONG", name,
                       absl::StrCat("arguments, environment and mounts take ", plan.size(),
                                    " bytes together; at most ", kMaxPlanBytes, " are possible"));
  }
  return SealedMemfd(name, absl::MakeConstSpan(plan.data(), plan.size()));
}

}  // namespace sandboxd
