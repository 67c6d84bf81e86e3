// Frames of docs/protocol.md: the 16-byte header, its rules, and an incremental reader.
#ifndef SANDBOXD_WIRE_FRAME_H_
#define SANDBOXD_WIRE_FRAME_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sandboxd::wire {

inline constexpr size_t kHeaderBytes = 16;
inline constexpr size_t kMaxControlBytes = 1 << 20;
inline constexpr size_t kMaxDataBytes = 64 << 10;

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

enum class Channel : uint8_t { kStream = 0, kStdin = 1, kStdout = 2, kStderr = 3, kFile = 4 };

enum class Direction { kToServer, kToClient };

struct FrameHeader {
  uint32_t size = 0;
  FrameType type = FrameType::kHello;
  uint8_t flags = 0;
  uint64_t stream = 0;
};

std::array<char, kHeaderBytes> EncodeHeader(const FrameHeader& header);
std::string EncodeFrame(FrameType type, uint8_t flags, uint64_t stream, absl::string_view payload);
std::string EncodeCreditPayload(uint64_t bytes);
// PROTOCOL_ERROR unless there are 8 bytes.
absl::StatusOr<uint64_t> DecodeCredit(absl::Span<const char> payload);

// Reads a header and judges it by itself: type, direction, size, flags, zero, stream. PROTOCOL_ERROR
// where it breaks a rule, before anything is taken for its payload.
absl::StatusOr<FrameHeader> DecodeHeader(absl::Span<const char> bytes, Direction direction);

// Cuts a byte stream into frames. Holds at most one incomplete frame.
class FrameReader {
 public:
  using OnFrame = absl::FunctionRef<absl::Status(const FrameHeader&, absl::Span<const char>)>;

  explicit FrameReader(Direction direction) : direction_(direction) {}

  // Calls `on_frame` for every frame that is complete now, in order; payloads are valid during the
  // call only. Stops at the first error, its own or the callback's.
  absl::Status Feed(absl::Span<const char> bytes, OnFrame on_frame);

  // A frame was begun and is not complete.
  bool mid_frame() const { return !partial_.empty(); }

 private:
  const Direction direction_;
  std::string partial_;
};

}  // namespace sandboxd::wire

#endif  // SANDBOXD_WIRE_FRAME_H_
