#ifndef SANDBOXD_BASE_MEMFD_H_
#define SANDBOXD_BASE_MEMFD_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/unique_fd.h"

namespace sandboxd {

// A memory file that holds exactly `content` and can never change again (memfd_create(2), all
// seals of fcntl(2) F_ADD_SEALS). `name` shows in /proc/*/maps only. With `executable` it may be
// given to execveat(2).
absl::StatusOr<UniqueFd> SealedMemfd(const char* name, absl::Span<const char> content,
                                     bool executable = false);

}  // namespace sandboxd

#endif  // SANDBOXD_BASE_MEMFD_H_
