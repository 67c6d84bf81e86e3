#ifndef SANDBOXD_BASE_UNIQUE_FD_H_
#define SANDBOXD_BASE_UNIQUE_FD_H_

#include <utility>

namespace sandboxd {

// Owns one file descriptor. The destructor closes it; a move empties the source.
class [[nodiscard]] UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) Reset(other.Release());
    return *this;
  }
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

  // Gives up ownership. The caller closes the returned descriptor.
  [[nodiscard]] int Release() { return std::exchange(fd_, -1); }

  // Closes the current descriptor, if any, and takes ownership of `fd`.
  // Preserves errno, so an error path may drop descriptors before it reads it.
  void Reset(int fd = -1);

 private:
  int fd_ = -1;
};

}  // namespace sandboxd

#endif  // SANDBOXD_BASE_UNIQUE_FD_H_
