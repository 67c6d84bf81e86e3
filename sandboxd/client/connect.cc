#include "sandboxd/client/connect.h"

#include <sys/socket.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/socket.h"
#include "base/status.h"

namespace sandboxd::client {
namespace {

constexpr char kDefaultSocket[] = "/run/sandboxd/sandboxd.sock";

// What a person can do about it, where there is something.
absl::Status ConnectError(const absl::Status& status, const std::string& path,
                          absl::Duration timeout) {
  const std::string error = DetailOf(status).error;
  ErrorDetail detail{.reason = "DAEMON_UNREACHABLE", .object = path, .error = error};
  if (error == "ENOENT" || error == "ECONNREFUSED") {
    return WithDetail(absl::UnavailableError(absl::StrCat(
                          "no daemon listens at ", path,
                          "; start one with `sandboxd --config …`, or name its socket with "
                          "--socket or SANDBOXD_SOCKET")),
                      detail);
  }
  if (error == "EACCES" || error == "EPERM") {
    detail.reason = "SOCKET_NOT_ALLOWED";
    return WithDetail(absl::PermissionDeniedError(absl::StrCat(
                          "you may not use ", path, ": be root or in the group sandboxd")),
                      detail);
  }
  if (error == "EAGAIN" || error == "EINPROGRESS") {
    return WithDetail(
        absl::DeadlineExceededError(absl::StrCat("the daemon at ", path, " took no connection in ",
                                                 absl::FormatDuration(timeout))),
        detail);
  }
  return error.empty() ? status : WithDetail(status, detail);
}

}  // namespace

std::string SocketPath(const std::string& socket) {
  if (!socket.empty()) return socket;
  const char* named = getenv("SANDBOXD_SOCKET");
  return named != nullptr && *named != '\0' ? named : kDefaultSocket;
}

absl::StatusOr<UniqueFd> ConnectSocket(const std::string& path, absl::Duration timeout) {
  auto socket = ConnectUnix(path, SOCK_STREAM, timeout);
  if (!socket.ok()) return ConnectError(socket.status(), path, timeout);
  return socket;
}

}  // namespace sandboxd::client
