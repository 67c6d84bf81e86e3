#include "runtime/id_ranges.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sandboxd {

absl::StatusOr<IdRanges> IdRanges::Create(uint32_t first_base, uint32_t count) {
  const uint64_t end = first_base + uint64_t{count} * kIdsPerSandbox;
  if (first_base == 0 || first_base % kIdsPerSandbox != 0 || count == 0 || end > 0xffff'0000) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the id ranges from ", first_base, ", ", count,
        " of them: the base must be a multiple of 65536 above 0, the end at most 4294901760"));
  }
  return IdRanges(first_base, count);
}

absl::StatusOr<uint32_t> IdRanges::Take() {
  for (size_t i = 0; i < used_.size(); ++i) {
    const size_t index = (next_ + i) % used_.size();
    if (used_[index]) continue;
    used_[index] = true;
    next_ = index + 1;
    return first_ + static_cast<uint32_t>(index) * kIdsPerSandbox;
  }
  return ReasonError(absl::StatusCode::kResourceExhausted, "OVER_CEILING", "ids.ranges",
                     absl::StrCat("all ", used_.size(), " id ranges are in use"));
}

absl::Status IdRanges::Adopt(uint32_t base) {
  const uint32_t index = base >= first_ ? (base - first_) / kIdsPerSandbox : UINT32_MAX;
  if (base % kIdsPerSandbox != 0 || index >= used_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("id range ", base, " is not one of ours"));
  }
  if (used_[index]) return absl::AlreadyExistsError(absl::StrCat("id range ", base, " is in use"));
  used_[index] = true;
  return absl::OkStatus();
}

void IdRanges::Return(uint32_t base) {
  if (base >= first_ && (base - first_) / kIdsPerSandbox < used_.size()) {
    used_[(base - first_) / kIdsPerSandbox] = false;
  }
}

}  // namespace sandboxd
