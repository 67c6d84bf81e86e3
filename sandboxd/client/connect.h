#ifndef SANDBOXD_CLIENT_CONNECT_H_
#define SANDBOXD_CLIENT_CONNECT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/unique_fd.h"

namespace sandboxd::client {

// `socket`, else $SANDBOXD_SOCKET, else the daemon's default path.
std::string SocketPath(const std::string& socket);

// Connects to a daemon's socket. Waits up to `timeout` for a place in its queue of connections. The
// errors are those of Client::Connect().
absl::StatusOr<UniqueFd> ConnectSocket(const std::string& path, absl::Duration timeout);

}  // namespace sandboxd::client

#endif  // SANDBOXD_CLIENT_CONNECT_H_
