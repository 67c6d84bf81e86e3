#ifndef SANDBOXD_RUNTIME_ID_RANGES_H_
#define SANDBOXD_RUNTIME_ID_RANGES_H_

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sandboxd {

// Host ids of one sandbox: [base, base + kIdsPerSandbox).
inline constexpr uint32_t kIdsPerSandbox = 65536;

// Hands out disjoint ranges of host user and group ids. A range is given out again as late as
// possible, so that what an old sandbox may have left behind meets no new owner soon.
class IdRanges {
 public:
  // `first_base` is a multiple of 65536 above 0; the last range ends below 2^32 - 65536, where the
  // kernel's own special ids begin (user_namespaces(7), -1 and 65534 of the initial namespace).
  static absl::StatusOr<IdRanges> Create(uint32_t first_base, uint32_t count);

  // RESOURCE_EXHAUSTED, OVER_CEILING where all are in use.
  absl::StatusOr<uint32_t> Take();
  // Marks the range of a sandbox found running. ALREADY_EXISTS where it is in use, INVALID_ARGUMENT
  // where it is not one of these ranges.
  absl::Status Adopt(uint32_t base);
  void Return(uint32_t base);

 private:
  IdRanges(uint32_t first_base, uint32_t count) : first_(first_base), used_(count, false) {}

  uint32_t first_;
  std::vector<bool> used_;
  size_t next_ = 0;
};

}  // namespace sandboxd

#endif  // SANDBOXD_RUNTIME_ID_RANGES_H_
