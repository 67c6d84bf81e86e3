#include "runtime/shim/channel.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cerrno>

namespace sandboxd::shim {

int FdList::Take(size_t index) {
  if (index >= count) return -1;
  const int fd = fds[index];
  fds[index] = -1;
  return fd;
}

void FdList::CloseAll() {
  for (size_t i = 0; i < count; ++i) {
    if (fds[i] >= 0) close(fds[i]);
  }
  count = 0;
}

int Send(int socket, const void* body, size_t size, const int* fds, size_t fd_count) {
  iovec iov{const_cast<void*>(body), size};
  msghdr message = {};
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)];
  if (fd_count > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
    memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
  }
  ssize_t n;
  do {
    n = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  return n < 0 ? errno : 0;
}

long Receive(int socket, void* body, size_t size, FdList& fds, bool wait) {
  memset(body, 0, size);
  iovec iov{body, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)];
  msghdr message = {};
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t n;
  do {
    n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
  } while (n < 0 && errno == EINTR);
  if (n < 0) return -errno;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t arrived = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < arrived && fds.count < kMaxFds; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      fds.Add(fd);
    }
  }
  return n;
}

}  // namespace sandboxd::shim
