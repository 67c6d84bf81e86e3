#include "base/socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sandboxd {
namespace {

constexpr absl::Duration kForEver = absl::Hours(24 * 365);  // More would overflow the clock.

absl::StatusOr<sockaddr_un> UnixAddress(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(
        absl::StrCat("the socket path ", path, " must have 1 to 107 bytes"));
  }
  memcpy(address.sun_path, path.data(), path.size());
  return address;
}

absl::Status SendError(const char* what) {
  if (errno == EAGAIN) return absl::ResourceExhaustedError(absl::StrCat(what, ": queue full"));
  if (errno == EPIPE || errno == ECONNRESET) {
    return absl::UnavailableError(absl::StrCat(what, ": the peer has gone"));
  }
  return ErrnoError(what);
}

}  // namespace

absl::StatusOr<PeerCredentials> GetPeerCredentials(int fd) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
    return ErrnoError("reading the peer's credentials");
  }
  PeerCredentials credentials{.pid = peer.pid, .uid = peer.uid, .gid = peer.gid, .groups = {}};
  credentials.groups.resize(16);
  for (;;) {
    size = static_cast<socklen_t>(credentials.groups.size() * sizeof(gid_t));
    const int rc = getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, credentials.groups.data(), &size);
    credentials.groups.resize(size / sizeof(gid_t));
    if (rc == 0) return credentials;
    if (errno != ERANGE) return ErrnoError("reading the peer's groups");
  }
}

absl::StatusOr<UniqueFd> ConnectUnix(const std::string& path, int type, absl::Duration timeout) {
  ASSIGN_OR_RETURN(const sockaddr_un address, UnixAddress(path));
  UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoError("making a socket");
  if (timeout < kForEver) {
    // The timeout of sending is also that of connect(2). 0 would mean for ever.
    const timeval time = absl::ToTimeval(std::max(timeout, absl::Microseconds(1)));
    setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
  }
  int rc;
  do {
    rc = connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } while (rc < 0 && errno == EINTR);
  if (rc < 0) return ErrnoError(absl::StrCat("connecting to ", path));
  return fd;
}

absl::StatusOr<UniqueFd> ListenUnix(const std::string& path, int type, mode_t mode, int backlog) {
  ASSIGN_OR_RETURN(const sockaddr_un address, UnixAddress(path));
  UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoError("making a socket");
  // The socket file takes its mode from the socket's inode: no window with a wider one, and no
  // umask to change for the whole process.
  if (fchmod(fd.get(), mode) < 0) return ErrnoError("setting the mode of a socket");
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) < 0) {
    return ErrnoError(absl::StrCat("binding ", path));
  }
  if (listen(fd.get(), backlog) < 0) return ErrnoError(absl::StrCat("listening on ", path));
  return fd;
}

absl::StatusOr<std::pair<UniqueFd, UniqueFd>> UnixPair(int type) {
  int fds[2];
  if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) < 0)
    return ErrnoError("making a socketpair");
  return std::make_pair(UniqueFd(fds[0]), UniqueFd(fds[1]));
}

absl::Status SendMessage(int fd, absl::Span<const char> body, absl::Span<const int> fds) {
  iovec iov{const_cast<char*>(body.data()), body.size()};
  msghdr message = {};
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxMessageFds)];
  if (!fds.empty()) {
    if (fds.size() > kMaxMessageFds) return absl::InvalidArgumentError("too many descriptors");
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  }
  ssize_t n;
  do {
    n = sendmsg(fd, &message, MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return SendError("sending a message");
  return absl::OkStatus();
}

absl::StatusOr<ReceivedMessage> ReceiveMessage(int fd, absl::Span<char> buffer) {
  iovec iov{buffer.data(), buffer.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxMessageFds)];
  msghdr message = {};
  message.msg_iov = &iov;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t n;
  do {
    n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    if (errno == EAGAIN) return absl::NotFoundError("nothing to read");
    return SendError("receiving a message");
  }
  ReceivedMessage result;
  result.size = static_cast<size_t>(n);
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int received;
      memcpy(&received, CMSG_DATA(header) + i * sizeof(int), sizeof received);
      result.fds.emplace_back(received);
    }
  }
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return absl::DataLossError("a message did not fit its buffer");
  }
  return result;
}

}  // namespace sandboxd
