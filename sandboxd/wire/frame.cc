#include "sandboxd/wire/frame.h"

#include <endian.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "sandboxd/wire/error.h"

namespace sandboxd::wire {
namespace {

// Which flags a frame may have, as a set of bits.
constexpr uint8_t Set(std::initializer_list<Channel> channels) {
  uint8_t set = 0;
  for (const Channel channel : channels)
    set |= static_cast<uint8_t>(1 << static_cast<int>(channel));
  return set;
}
constexpr uint8_t kNever = 0;  // The frame does not travel in that direction.
constexpr uint8_t kPlain = 1;  // Only flags 0.
constexpr uint8_t kInput = Set({Channel::kStdin, Channel::kFile});
constexpr uint8_t kOutput = Set({Channel::kStdout, Channel::kStderr, Channel::kFile});
constexpr uint8_t kEnded = Set({Channel::kStream, Channel::kStdin}) | kOutput;

enum class Where { kConnection, kStream, kEither };

// The tables of section 1 of the specification.
struct Rule {
  FrameType type;
  absl::string_view name;
  uint8_t to_server;  // Sets of flags.
  uint8_t to_client;
  size_t min;
  size_t max;
  Where where;
};
constexpr Rule kRules[] = {
    {FrameType::kHello, "Hello", kPlain, kPlain, 2, kMaxControlBytes, Where::kConnection},
    {FrameType::kRequest, "Request", kPlain, kNever, 2, kMaxControlBytes, Where::kStream},
    {FrameType::kReply, "Reply", kNever, kPlain, 2, kMaxControlBytes, Where::kStream},
    {FrameType::kError, "Error", kNever, kPlain, 2, kMaxControlBytes, Where::kEither},
    {FrameType::kData, "Data", kInput, kOutput, 1, kMaxDataBytes, Where::kStream},
    {FrameType::kEnd, "End", kInput, kEnded, 0, 0, Where::kStream},
    {FrameType::kExit, "Exit", kNever, kPlain, 2, kMaxControlBytes, Where::kStream},
    {FrameType::kEvent, "Event", kNever, kPlain, 2, kMaxControlBytes, Where::kEither},
    {FrameType::kCredit, "Credit", kOutput, kInput, 8, 8, Where::kStream},
    {FrameType::kCancel, "Cancel", kPlain, kNever, 0, 0, Where::kStream},
    {FrameType::kPing, "Ping", 0b11, 0b11, 0, 8, Where::kConnection},
};

const Rule* FindRule(FrameType type) {
  const size_t index = static_cast<size_t>(type) - 1;  // Type 0 becomes the largest index.
  return index < std::size(kRules) ? &kRules[index] : nullptr;
}

template <typename T>
T Load(const char* bytes) {
  T value;
  memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace

absl::string_view FrameTypeName(FrameType type) {
  const Rule* rule = FindRule(type);
  return rule == nullptr ? "" : rule->name;
}

absl::Status CheckHeader(const FrameHeader& header, Direction direction) {
  const Rule* rule = FindRule(header.type);
  if (rule == nullptr) {
    return ProtocolError(absl::StrCat("unknown frame type ", static_cast<int>(header.type)));
  }
  const bool to_server = direction == Direction::kToServer;
  const uint8_t flags = to_server ? rule->to_server : rule->to_client;
  if (flags == kNever) {
    return ProtocolError(
        absl::StrCat("only the ", to_server ? "server" : "client", " sends ", rule->name));
  }
  if (header.size < rule->min || header.size > rule->max) {
    return ProtocolError(absl::StrCat(rule->name, " with ", header.size, " bytes; allowed are ",
                                      rule->min, " to ", rule->max));
  }
  if (header.flags >= 8 || ((flags >> header.flags) & 1) == 0) {
    return ProtocolError(absl::StrCat(rule->name, " cannot have the flags or channel ",
                                      header.flags, " in this direction"));
  }
  if (rule->where == Where::kStream && header.stream == 0) {
    return ProtocolError(absl::StrCat(rule->name, " needs a stream other than 0"));
  }
  if (rule->where == Where::kConnection && header.stream != 0) {
    return ProtocolError(absl::StrCat(rule->name, " belongs to stream 0"));
  }
  return absl::OkStatus();
}

absl::StatusOr<FrameHeader> DecodeHeader(absl::Span<const char> bytes, Direction direction) {
  if (bytes.size() < kHeaderBytes) return ProtocolError("a header is 16 bytes");
  const FrameHeader header{.size = le32toh(Load<uint32_t>(bytes.data())),
                           .type = static_cast<FrameType>(bytes[4]),
                           .flags = static_cast<uint8_t>(bytes[5]),
                           .stream = le64toh(Load<uint64_t>(bytes.data() + 8))};
  RETURN_IF_ERROR(CheckHeader(header, direction));
  if (Load<uint16_t>(bytes.data() + 6) != 0) return ProtocolError("reserved bytes are not 0");
  return header;
}

std::array<char, kHeaderBytes> EncodeHeader(const FrameHeader& header) {
  std::array<char, kHeaderBytes> bytes = {};
  const uint32_t size = htole32(header.size);
  const uint64_t stream = htole64(header.stream);
  memcpy(bytes.data(), &size, sizeof size);
  bytes[4] = static_cast<char>(header.type);
  bytes[5] = static_cast<char>(header.flags);
  memcpy(bytes.data() + 8, &stream, sizeof stream);
  return bytes;
}

std::string EncodeFrame(FrameType type, uint8_t flags, uint64_t stream, absl::string_view payload) {
  const auto header = EncodeHeader({static_cast<uint32_t>(payload.size()), type, flags, stream});
  return absl::StrCat(absl::string_view(header.data(), header.size()), payload);
}

std::string EncodeCreditPayload(uint64_t bytes) {
  const uint64_t value = htole64(bytes);
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string EncodeCredit(uint64_t stream, Channel channel, uint64_t bytes) {
  return EncodeFrame(FrameType::kCredit, static_cast<uint8_t>(channel), stream,
                     EncodeCreditPayload(bytes));
}

absl::StatusOr<uint64_t> DecodeCredit(absl::Span<const char> payload) {
  if (payload.size() != 8) return ProtocolError("credit is not 8 bytes");
  return le64toh(Load<uint64_t>(payload.data()));
}

absl::Status FrameReader::Feed(absl::Span<const char> bytes, OnFrame on_frame) {
  if (status_.ok()) status_ = Consume(bytes, on_frame);
  return status_;
}

absl::Status FrameReader::Consume(absl::Span<const char> bytes, OnFrame on_frame) {
  while (!bytes.empty()) {
    if (header_bytes_ < kHeaderBytes) {
      const size_t take = std::min(bytes.size(), kHeaderBytes - header_bytes_);
      memcpy(raw_header_.data() + header_bytes_, bytes.data(), take);
      header_bytes_ += take;
      bytes.remove_prefix(take);
      if (header_bytes_ < kHeaderBytes) return absl::OkStatus();
      ASSIGN_OR_RETURN(header_, DecodeHeader(raw_header_, direction_));
    }
    const size_t missing = header_.size - body_.size();
    if (bytes.size() < missing) {
      Keep(bytes);
      return absl::OkStatus();
    }
    header_bytes_ = 0;
    if (body_.empty()) {
      RETURN_IF_ERROR(on_frame(header_, bytes.first(missing)));
    } else {
      Keep(bytes.first(missing));
      const std::vector<char> body = std::exchange(body_, {});
      RETURN_IF_ERROR(on_frame(header_, body));
    }
    bytes.remove_prefix(missing);
  }
  return absl::OkStatus();
}

void FrameReader::Keep(absl::Span<const char> bytes) {
  const size_t needed = body_.size() + bytes.size();
  if (body_.capacity() < needed) {
    body_.reserve(std::min<size_t>(header_.size, std::max(needed, 2 * body_.capacity())));
  }
  body_.insert(body_.end(), bytes.begin(), bytes.end());
}

}  // namespace sandboxd::wire
