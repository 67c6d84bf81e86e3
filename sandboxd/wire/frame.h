// Frames of docs/protocol.md, section 1: the 16-byte header, its rules, and a reader for servers.
#ifndef SANDBOXD_WIRE_FRAME_H_
#define SANDBOXD_WIRE_FRAME_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sandboxd::wire {

inline constexpr size_t kHeaderBytes = 16;
inline constexpr size_t kMaxControlBytes = 1 << 20;  // Payload of a frame with a JSON body.
inline constexpr size_t kMaxDataBytes = 64 << 10;    // Payload of a Data frame.
inline constexpr uint64_t kMaxCredit = 1 << 30;      // Held by one channel.
inline constexpr uint8_t kPingAnswer = 1;            // Flag of a Ping that answers one.

enum class FrameType : uint8_t {
  kHello = 1,
  kRequest = 2,
  kReply = 3,
  kError = 4,
  kData = 5,
  kEnd = 6,
  kExit = 7,
  kEvent = 8,
  kCredit = 9,
  kCancel = 10,
  kPing = 11,
};

// "Hello", "Request" …; "" for a number that is no type.
absl::string_view FrameTypeName(FrameType type);

// What the flags of Data, End and Credit hold.
enum class Channel : uint8_t { kStream = 0, kStdin = 1, kStdout = 2, kStderr = 3, kFile = 4 };
inline constexpr size_t kChannels = 5;

enum class Direction { kToServer, kToClient };

struct FrameHeader {
  uint32_t size = 0;  // Bytes of payload.
  FrameType type = FrameType::kHello;
  uint8_t flags = 0;
  uint64_t stream = 0;
};

// Judges a header by itself: type, direction, size, flags (or channel), stream. PROTOCOL_ERROR
// where it breaks a rule of the specification's tables.
absl::Status CheckHeader(const FrameHeader& header, Direction direction);

// Reads a header out of the first 16 of `bytes` and judges it with CheckHeader(), before anything
// is taken for its payload. Also PROTOCOL_ERROR: fewer bytes, reserved bytes that are not 0.
absl::StatusOr<FrameHeader> DecodeHeader(absl::Span<const char> bytes, Direction direction);

std::array<char, kHeaderBytes> EncodeHeader(const FrameHeader& header);

// A whole frame. The caller keeps to the rules; tests that break them use this as well.
std::string EncodeFrame(FrameType type, uint8_t flags, uint64_t stream, absl::string_view payload);

// The payload of a Credit frame, and the whole frame.
std::string EncodeCreditPayload(uint64_t bytes);
std::string EncodeCredit(uint64_t stream, Channel channel, uint64_t bytes);
// PROTOCOL_ERROR unless there are 8 bytes.
absl::StatusOr<uint64_t> DecodeCredit(absl::Span<const char> payload);

// Cuts pushed bytes into frames, for an event loop that reads all connections into one buffer. A
// frame whose payload lies wholly in the fed bytes is passed on without a copy. Between calls it
// holds at most one incomplete frame, in memory that grows with the bytes that came and not with
// the size that the header promises; between frames it holds nothing.
class FrameReader {
 public:
  using OnFrame = absl::FunctionRef<absl::Status(const FrameHeader&, absl::Span<const char>)>;

  // `direction` is that of the frames which come in.
  explicit FrameReader(Direction direction) : direction_(direction) {}

  // Calls `on_frame` for every frame that is complete now, in order; payloads are valid during the
  // call only. Stops at the first error, its own or the callback's, and returns it from then on.
  absl::Status Feed(absl::Span<const char> bytes, OnFrame on_frame);

  // A frame was begun and is not complete: a server's deadline for slow frames runs while it is.
  bool mid_frame() const { return header_bytes_ > 0; }

 private:
  absl::Status Consume(absl::Span<const char> bytes, OnFrame on_frame);
  void Keep(absl::Span<const char> bytes);

  const Direction direction_;
  std::array<char, kHeaderBytes> raw_header_;
  size_t header_bytes_ = 0;  // Of raw_header_, that came.
  FrameHeader header_;       // Valid where all of it came.
  std::vector<char> body_;   // What came of its payload.
  absl::Status status_;
};

}  // namespace sandboxd::wire

#endif  // SANDBOXD_WIRE_FRAME_H_
