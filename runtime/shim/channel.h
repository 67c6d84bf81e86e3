// One message with descriptors over a SOCK_SEQPACKET socket.
#ifndef SANDBOXD_RUNTIME_SHIM_CHANNEL_H_
#define SANDBOXD_RUNTIME_SHIM_CHANNEL_H_

#include <cstddef>

namespace sandboxd::shim {

inline constexpr size_t kMaxFds = 250;

struct FdList {
  int fds[kMaxFds];
  size_t count = 0;

  void Add(int fd) { fds[count++] = fd; }
  // Gives up the descriptor at `index`, or -1 where there is none.
  int Take(size_t index);
  void CloseAll();
};

// Returns 0 or an errno value. Never blocks: a peer that does not read gets EAGAIN.
int Send(int socket, const void* body, size_t size, const int* fds = nullptr, size_t fd_count = 0);

// Reads one message into `body`, zero-filling what it does not cover. Returns the message's size,
// 0 where the peer has gone, or -errno. `fds` must be empty; the caller owns what arrives.
long Receive(int socket, void* body, size_t size, FdList& fds, bool wait);

}  // namespace sandboxd::shim

#endif  // SANDBOXD_RUNTIME_SHIM_CHANNEL_H_
