#include "runtime/shim/plan_view.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <cerrno>

namespace sandboxd::shim {

int PlanView::Map(int fd, PlanKind kind, uint32_t fixed_size) {
  struct stat status;
  if (fd < 0) return EBADF;
  if (fstat(fd, &status) < 0) return errno;
  if (status.st_size < static_cast<off_t>(fixed_size) ||
      status.st_size > static_cast<off_t>(kMaxPlanBytes)) {
    return EBADMSG;
  }
  const uint32_t size = static_cast<uint32_t>(status.st_size);
  void* mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  if (mapped == MAP_FAILED) return errno;
  base_ = static_cast<char*>(mapped);
  size_ = size;
  const PlanHeader* header = As<PlanHeader>();
  if (header->magic != kPlanMagic || header->kind != kind || header->size != size ||
      base_[size - 1] != '\0') {
    Unmap();
    return EBADMSG;
  }
  return 0;
}

void PlanView::Unmap() {
  if (base_ != nullptr) munmap(base_, size_);
  base_ = nullptr;
  size_ = 0;
}

}  // namespace sandboxd::shim
