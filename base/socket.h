// Unix domain sockets: connect, listen, and messages with descriptors (unix(7), cmsg(3)).
#ifndef SANDBOXD_BASE_SOCKET_H_
#define SANDBOXD_BASE_SOCKET_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/unique_fd.h"

namespace sandboxd {

// The most descriptors one message carries here; the kernel's own limit is 253 (SCM_MAX_FD).
inline constexpr size_t kMaxMessageFds = 250;

// Who is at the other end, as the kernel recorded it at connect(2) time (SO_PEERCRED,
// SO_PEERGROUPS).
struct PeerCredentials {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
};
absl::StatusOr<PeerCredentials> GetPeerCredentials(int fd);

// `type` is SOCK_STREAM or SOCK_SEQPACKET; descriptors are close-on-exec. A path longer than the
// 107 bytes of sun_path is INVALID_ARGUMENT. Waits up to `timeout`, which is also that of later
// sends, for a place in the listener's queue; EAGAIN after it.
absl::StatusOr<UniqueFd> ConnectUnix(const std::string& path, int type,
                                     absl::Duration timeout = absl::InfiniteDuration());

// Binds with mode 0600 (or `mode`) from the first moment and listens. The path must not exist.
absl::StatusOr<UniqueFd> ListenUnix(const std::string& path, int type, mode_t mode, int backlog);

absl::StatusOr<std::pair<UniqueFd, UniqueFd>> UnixPair(int type);

// Sends one message with descriptors. UNAVAILABLE where the peer has gone; EAGAIN of a
// non-blocking socket is RESOURCE_EXHAUSTED.
absl::Status SendMessage(int fd, absl::Span<const char> body, absl::Span<const int> fds = {});

struct ReceivedMessage {
  size_t size = 0;            // 0: the peer closed.
  std::vector<UniqueFd> fds;  // Close-on-exec.
};
// Receives one message of a SOCK_SEQPACKET socket into `buffer`. A body or descriptors that did
// not fit are DATA_LOSS. Nothing to read on a non-blocking socket is absl::StatusCode::kNotFound.
absl::StatusOr<ReceivedMessage> ReceiveMessage(int fd, absl::Span<char> buffer);

}  // namespace sandboxd

#endif  // SANDBOXD_BASE_SOCKET_H_
