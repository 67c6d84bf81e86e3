// A plan mapped into memory, checked before use.
#ifndef SANDBOXD_RUNTIME_SHIM_PLAN_VIEW_H_
#define SANDBOXD_RUNTIME_SHIM_PLAN_VIEW_H_

#include <cstdint>

#include "runtime/plan_format.h"

namespace sandboxd::shim {

class PlanView {
 public:
  PlanView() = default;

  // Maps the plan in `fd`, privately and writable. Returns 0 or an errno value: EBADMSG where it is
  // not a plan of this kind with its last byte 0 (so that every string ends).
  int Map(int fd, PlanKind kind, uint32_t fixed_size);
  void Unmap();

  template <typename T>
  T* As() const {
    return reinterpret_cast<T*>(base_);
  }

  // The string at `offset`, or nullptr for 0 or an offset outside the plan.
  const char* String(PlanString offset) const {
    return offset == 0 || offset >= size_ ? nullptr : base_ + offset;
  }

  // The array's elements, or nullptr where they are not wholly inside the plan.
  template <typename T>
  T* Elements(const PlanArray& array) const {
    const uint64_t end = array.offset + uint64_t{array.count} * sizeof(T);
    if (array.offset % alignof(T) != 0 || end > size_) return nullptr;
    return reinterpret_cast<T*>(base_ + array.offset);
  }

 private:
  char* base_ = nullptr;
  uint32_t size_ = 0;
};

}  // namespace sandboxd::shim

#endif  // SANDBOXD_RUNTIME_SHIM_PLAN_VIEW_H_
