#ifndef SANDBOXD_CLIENT_LINK_H_
#define SANDBOXD_CLIENT_LINK_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/unique_fd.h"
#include "sandboxd/wire/frame.h"
#include "sandboxd/wire/frame_buffer.h"

namespace sandboxd::client {

// A moment on the steady clock, or never.
class Deadline {
 public:
  explicit Deadline(absl::Duration timeout);
  // As poll(2) wants it: rounded up; -1 for never.
  int PollMillis() const;

 private:
  std::optional<std::chrono::steady_clock::time_point> at_;
};

// One connection, shared by the client and its streams. It sorts the frames that come: one for the
// stream that somebody waits for is handed out in place, one for another open stream is copied to
// that stream's queue, and one for a stream that was forgotten is dropped. The queues are bounded,
// by the credit given for Data and by kMaxQueuedEvents for Events.
//
// It never reads in the background: a caller waits in Next(), which also writes what is pending.
class Link {
 public:
  // Queues and sends the Hello.
  Link(UniqueFd socket, const std::string& client_name);

  // Opens a stream with a Request.
  absl::StatusOr<uint64_t> Open(absl::string_view op, const nlohmann::json& params);
  // Drops what is queued for a stream and what still comes.
  void Forget(uint64_t stream) { streams_.erase(stream); }

  // The number that stands for every stream where Next() is asked to wait.
  static constexpr uint64_t kAnyStream = 0;

  struct Wake {
    enum class Kind { kTimeout, kFrame, kWritable };
    Kind kind = Kind::kTimeout;
    wire::FrameView frame;  // For kFrame. Valid until the next call of Next().
  };
  // Waits for the next frame of `stream`: Reply, Error, Data, End, Exit or Event. Credit is taken
  // account of within, and handed out too only where any stream will do. With `until_writable` it
  // also returns as soon as Accepts() > 0. An error is that of the connection, and lasting: what
  // the server said on stream 0 where it said something.
  absl::StatusOr<Wake> Next(uint64_t stream, Deadline deadline, bool until_writable = false);

  // Waits for the Reply to the Request that opened `stream`. An Error is returned as its status; so
  // is DEADLINE_EXCEEDED, after a Cancel. The stream is forgotten then.
  absl::StatusOr<nlohmann::json> Answer(uint64_t stream, Deadline deadline);
  // Whether Next() for any stream has something without waiting.
  bool HasFrame() const;

  // How many bytes SendData() would take now.
  size_t Accepts(uint64_t stream, wire::Channel channel) const;
  // Sends as much of `data` as credit and the socket allow; returns how much that is.
  size_t SendData(uint64_t stream, wire::Channel channel, absl::Span<const char> data);
  // Waits until the socket takes more of what is pending.
  absl::Status WaitWritable();
  void SendControl(wire::FrameType type, uint8_t flags, uint64_t stream, absl::string_view body);
  // Says that the caller has done with `bytes` of Data, so that the server may send as many more.
  void Consumed(uint64_t stream, wire::Channel channel, size_t bytes);

  int fd() const { return socket_.get(); }
  short poll_events() const;
  bool draining() const { return draining_; }
  // The server's Hello; null until it came.
  const nlohmann::json& hello() const { return hello_; }
  uint64_t initial_credit() const { return initial_credit_; }

 private:
  struct QueuedFrame {
    wire::FrameHeader header;
    std::string payload;
  };
  struct Window {
    uint64_t send = 0;      // We may send as many bytes.
    uint64_t receive = 0;   // The server may send as many bytes.
    uint64_t consumed = 0;  // The caller has done with as many that no Credit was sent for.
    bool widened = false;
  };
  struct Stream {
    Window windows[wire::kChannels];
    std::deque<QueuedFrame> queue;
    size_t queued_events = 0;
    // Events that were lost because nobody took them; told as one gap before those in the queue.
    std::optional<int64_t> lost_from;
    int64_t lost_to = 0;
  };

  absl::StatusOr<std::optional<wire::FrameView>> PullFor(uint64_t stream);
  absl::Status Sort(const wire::FrameView& frame, uint64_t wanted, bool& deliver);
  absl::Status OnConnectionFrame(const wire::FrameView& frame);
  absl::Status OnHello(const wire::FrameView& frame);
  absl::Status OnCredit(Stream& stream, const wire::FrameView& frame);
  void Enqueue(Stream& stream, const wire::FrameView& frame);
  void LoseOldestEvent(Stream& stream);
  bool TakeQueued(uint64_t stream, wire::FrameView& frame);
  absl::Status Receive(bool& blocked);
  absl::Status Wait(Deadline deadline, bool& timed_out);
  void Flush();
  Stream* Find(uint64_t stream);

  UniqueFd socket_;
  wire::FrameBuffer in_;
  std::string out_;  // What the socket did not take yet, from out_offset_ on.
  size_t out_offset_ = 0;
  absl::flat_hash_map<uint64_t, Stream> streams_;
  uint64_t next_stream_ = 1;
  uint64_t initial_credit_ = 256 << 10;
  QueuedFrame current_;  // The one that was handed out last, if it came from a queue.
  nlohmann::json hello_;
  bool draining_ = false;
  bool write_broken_ = false;  // The server has closed; what it sent before can still be read.
  absl::Status status_;
};

}  // namespace sandboxd::client

#endif  // SANDBOXD_CLIENT_LINK_H_
