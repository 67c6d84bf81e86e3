// The two readers of frames, fed in pieces of any size: they find the same frames as one another
// and as when they are fed at once, keep every rule of a header, and write back what they read.
//
// The first byte of an input seeds the sizes of the pieces, and its lowest bit is the direction.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "sandboxd/wire/frame.h"
#include "sandboxd/wire/frame_buffer.h"

namespace sandboxd::wire {
namespace {

void Require(bool condition) {
  if (!condition) abort();
}

// Sizes of pieces: mostly small, now and then large.
class Pieces {
 public:
  explicit Pieces(uint32_t seed) : state_(seed * 2654435761u + 1) {}
  size_t Next() {
    state_ = state_ * 1664525u + 1013904223u;
    const uint32_t draw = state_ >> 8;
    return draw % 7 == 0 ? draw % 5000 + 1 : draw % 40 + 1;
  }

 private:
  uint32_t state_;
};

// What a reader made of an input: the frames that it took, written again, and how it ended.
struct Outcome {
  std::string frames;
  bool failed = false;
  bool mid_frame = false;

  bool operator==(const Outcome&) const = default;
};

void Take(Outcome& outcome, const FrameHeader& header, absl::Span<const char> payload,
          Direction direction) {
  Require(CheckHeader(header, direction).ok());
  Require(header.size == payload.size());
  if (header.type == FrameType::kCredit) {
    const auto credit = DecodeCredit(payload);
    Require(credit.ok());
    Require(
        EncodeCredit(header.stream, static_cast<Channel>(header.flags), *credit) ==
        EncodeFrame(header.type, header.flags, header.stream, {payload.data(), payload.size()}));
  }
  outcome.frames +=
      EncodeFrame(header.type, header.flags, header.stream, {payload.data(), payload.size()});
}

Outcome Push(absl::string_view input, Direction direction, bool whole, Pieces pieces) {
  Outcome outcome;
  FrameReader reader(direction);
  for (absl::Status status; !input.empty() && status.ok();) {
    const size_t size = whole ? input.size() : std::min(pieces.Next(), input.size());
    // A copy of its own, so that reading beyond it is noticed.
    const std::string piece(input.substr(0, size));
    input.remove_prefix(size);
    status = reader.Feed(piece, [&](const FrameHeader& header, absl::Span<const char> payload) {
      Take(outcome, header, payload, direction);
      return absl::OkStatus();
    });
    outcome.failed = !status.ok();
  }
  outcome.mid_frame = !outcome.failed && reader.mid_frame();
  return outcome;
}

Outcome Pull(absl::string_view input, Direction direction, size_t buffer_size, Pieces pieces) {
  Outcome outcome;
  FrameBuffer buffer(direction, buffer_size);
  while (!input.empty() && !outcome.failed) {
    const absl::Span<char> room = buffer.Room();
    Require(!room.empty());
    const size_t size = std::min({pieces.Next(), input.size(), room.size()});
    memcpy(room.data(), input.data(), size);
    buffer.Filled(size);
    input.remove_prefix(size);
    for (;;) {
      const bool has = buffer.HasFrame();
      const auto frame = buffer.Pull();
      outcome.failed = !frame.ok();
      Require(has == (!frame.ok() || frame->has_value()));
      if (!frame.ok() || !frame->has_value()) break;
      Take(outcome, (*frame)->header, (*frame)->payload, direction);
    }
  }
  outcome.mid_frame = !outcome.failed && buffer.mid_frame();
  return outcome;
}

}  // namespace
}  // namespace sandboxd::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sandboxd::wire;
  if (size == 0) return 0;
  const Direction direction = (data[0] & 1) != 0 ? Direction::kToServer : Direction::kToClient;
  const absl::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);

  const Outcome whole = Push(input, direction, /*whole=*/true, Pieces(0));
  // What was taken is a prefix of the input, byte by byte.
  Require(input.substr(0, whole.frames.size()) == whole.frames);
  Require(Push(input, direction, /*whole=*/false, Pieces(data[0])) == whole);
  Require(Pull(input, direction, 256 << 10, Pieces(data[0])) == whole);
  Require(Pull(input, direction, data[0], Pieces(data[0])) == whole);
  return 0;
}
