#ifndef SANDBOXD_CLIENT_EVENT_STREAM_H_
#define SANDBOXD_CLIENT_EVENT_STREAM_H_

#include <cstdint>
#include <memory>
#include <optional>

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace sandboxd::client {

class Client;
class Link;

// A subscription to the events of the caller's sandboxes. Destroying it ends it.
//
// While nobody calls Next(), and another stream of the connection is read, the last 1024 events are
// kept; those before them become one {"event": "gap", "from", "to"}, as the daemon's own queue
// does.
class EventStream {
 public:
  EventStream(EventStream&&) = default;
  EventStream& operator=(EventStream&& other) noexcept;
  ~EventStream() { Abandon(); }

  // The sequence number of the first event that was still to come when the stream was opened.
  int64_t next() const { return next_; }

  // The next event; nothing where the timeout passed. OUT_OF_RANGE when the stream has ended, else
  // the connection's error.
  absl::StatusOr<std::optional<nlohmann::json>> Next(
      absl::Duration timeout = absl::InfiniteDuration());

  // Asks for the end; Next() tells when it came.
  void Cancel();

  // As those of ExecStream.
  int fd() const;
  short poll_events() const;

 private:
  friend class Client;
  EventStream(std::shared_ptr<Link> link, uint64_t stream, const nlohmann::json& reply);
  void Abandon();

  std::shared_ptr<Link> link_;  // Null after a move.
  uint64_t stream_ = 0;
  int64_t next_ = 0;
  bool done_ = false;
};

}  // namespace sandboxd::client

#endif  // SANDBOXD_CLIENT_EVENT_STREAM_H_
