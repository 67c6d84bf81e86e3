#include "sandboxd/client/connect.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sandboxd::client {
namespace {

constexpr char kDefaultSocket[] = "/run/sandboxd/sandboxd.sock";

absl::Status ConnectError(int error, const std::string& path, absl::Duration timeout) {
  const ErrorDetail detail{
      .reason = error == EACCES || error == EPERM ? "SOCKET_NOT_ALLOWED" : "DAEMON_UNREACHABLE",
      .object = path,
      .error = ErrnoName(error)};
  switch (error) {
    case ENOENT:
    case ECONNREFUSED:
      return WithDetail(absl::UnavailableError(absl::StrCat(
                            "no daemon listens at ", path,
                            "; start one with `sandboxd --config …`, or name its socket with "
                            "--socket or SANDBOXD_SOCKET")),
                        detail);
    case EACCES:
    case EPERM:
      return WithDetail(absl::PermissionDeniedError(absl::StrCat(
                            "you may not use ", path, ": be root or in the group sandboxd")),
                        detail);
    case EAGAIN:
    case EINPROGRESS:
      return WithDetail(
          absl::DeadlineExceededError(absl::StrCat(
              "the daemon at ", path, " took no connection in ", absl::FormatDuration(timeout))),
          detail);
    default:
      return WithDetail(ErrnoError(error, absl::StrCat("connecting to ", path)), detail);
  }
}

}  // namespace

std::string SocketPath(const std::string& socket) {
  if (!socket.empty()) return socket;
  const char* named = getenv("SANDBOXD_SOCKET");
  return named != nullptr && *named != '\0' ? named : kDefaultSocket;
}

absl::StatusOr<UniqueFd> ConnectSocket(const std::string& path, absl::Duration timeout) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(
        absl::StrCat("the socket path ", path, " must have 1 to 107 bytes"));
  }
  memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoError("making a socket");
  // The timeout of sending is also that of connect(2). 0 would mean for ever.
  timeval time = absl::ToTimeval(std::max(timeout, absl::Microseconds(1)));
  if (timeout >= absl::Hours(24 * 365)) time = {};
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
  int rc;
  do {
    rc = connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } while (rc < 0 && errno == EINTR);
  if (rc < 0) return ConnectError(errno, path, timeout);
  return fd;
}

}  // namespace sandboxd::client
