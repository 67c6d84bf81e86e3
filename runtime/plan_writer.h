#ifndef SANDBOXD_RUNTIME_PLAN_WRITER_H_
#define SANDBOXD_RUNTIME_PLAN_WRITER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/unique_fd.h"
#include "runtime/plan_format.h"

namespace sandboxd {

// Lays out one plan: fixed part, then arrays and strings. `Fixed` is the plan's struct.
template <typename Fixed>
class PlanWriter {
 public:
  explicit PlanWriter(PlanKind kind) : bytes_(sizeof(Fixed), '\0') {
    fixed().header = {.magic = kPlanMagic, .kind = kind, .size = 0, .zero = 0};
  }

  // The fixed part. The reference holds until the next Add.
  Fixed& fixed() { return *reinterpret_cast<Fixed*>(bytes_.data()); }

  // `text` must not contain NUL: callers have refused it.
  PlanString AddString(absl::string_view text) {
    const PlanString offset = static_cast<PlanString>(bytes_.size());
    bytes_.append(text.data(), text.size());
    bytes_.push_back('\0');
    return offset;
  }

  template <typename T>
  PlanArray AddArray(absl::Span<const T> elements) {
    bytes_.resize((bytes_.size() + 7) & ~size_t{7}, '\0');
    const PlanArray array = {static_cast<uint32_t>(bytes_.size()),
                             static_cast<uint32_t>(elements.size())};
    bytes_.append(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(T));
    return array;
  }

  // The whole plan; its last byte is 0.
  std::string Finish() && {
    bytes_.push_back('\0');
    fixed().header.size = static_cast<uint32_t>(bytes_.size());
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

// A finished plan as a sealed memory file. RESOURCE_EXHAUSTED above kMaxPlanBytes.
absl::StatusOr<UniqueFd> PlanFile(const char* name, absl::string_view plan);

}  // namespace sandboxd

#endif  // SANDBOXD_RUNTIME_PLAN_WRITER_H_
