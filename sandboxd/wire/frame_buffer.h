#ifndef SANDBOXD_WIRE_FRAME_BUFFER_H_
#define SANDBOXD_WIRE_FRAME_BUFFER_H_

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "sandboxd/wire/frame.h"

namespace sandboxd::wire {

// A frame in place: its payload points into the buffer that it came from.
struct FrameView {
  FrameHeader header;
  absl::Span<const char> payload;
};

// Cuts bytes into frames that are pulled out one at a time, for a client that reads its one
// connection itself. Payloads are never copied to be whole: the buffer takes many frames, and only
// the incomplete last one is moved to its front when room is needed. It is of a fixed size but
// while a control frame that is larger comes in.
class FrameBuffer {
 public:
  // `direction` is that of the frames which come in.
  explicit FrameBuffer(Direction direction, size_t size = 256 << 10);

  // Where to receive more bytes; never empty once Pull() found no frame. Ends the validity of all
  // payloads. Filled() says how many came.
  absl::Span<char> Room();
  void Filled(size_t count) { end_ += count; }

  // The next frame, if all of it is here. Its payload is valid until Room(). PROTOCOL_ERROR where a
  // header breaks a rule; the same again from then on.
  absl::StatusOr<std::optional<FrameView>> Pull();

  // Whether Pull() has something to say: a whole frame, or an error.
  bool HasFrame() const;
  // Bytes are held that were not pulled. After Pull() found no frame: one was begun.
  bool mid_frame() const { return begin_ < end_; }

 private:
  void Resize(size_t size);

  const Direction direction_;
  const size_t usual_size_;
  std::unique_ptr<char[]> bytes_;
  size_t size_;
  size_t begin_ = 0;  // Of what was not pulled yet.
  size_t end_ = 0;
  size_t needed_ = kHeaderBytes;  // Bytes of the frame at begin_, as far as known.
  absl::Status status_;
};

}  // namespace sandboxd::wire

#endif  // SANDBOXD_WIRE_FRAME_BUFFER_H_
