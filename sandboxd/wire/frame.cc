#include "sandboxd/wire/frame.h"

#include <endian.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace sandboxd::wire {
namespace {

absl::Status ProtocolError(absl::string_view what) {
  return ReasonError(absl::StatusCode::kInvalidArgument, "PROTOCOL_ERROR", "connection", what);
}

// The table of section 1 of the specification.
struct Rule {
  FrameType type;
  bool to_server;
  bool to_client;
  size_t min;
  size_t max;
  uint8_t max_flags;
  bool needs_stream;
};
constexpr Rule kRules[] = {
    {FrameType::kHello, true, true, 2, kMaxControlBytes, 0, false},
    {FrameType::kRequest, true, false, 2, kMaxControlBytes, 0, true},
    {FrameType::kReply, false, true, 2, kMaxControlBytes, 0, true},
    {FrameType::kError, false, true, 2, kMaxControlBytes, 0, false},
    {FrameType::kData, true, true, 1, kMaxDataBytes, 4, true},
    {FrameType::kEnd, true, true, 0, 0, 4, true},
    {FrameType::kExit, false, true, 2, kMaxControlBytes, 0, true},
    {FrameType::kEvent, false, true, 2, kMaxControlBytes, 0, false},
    {FrameType::kCredit, true, true, 8, 8, 4, true},
    {FrameType::kCancel, true, false, 0, 0, 0, true},
    {FrameType::kPing, true, true, 0, 8, 1, false},
};

const Rule* FindRule(uint8_t type) {
  for (const Rule& rule : kRules) {
    if (static_cast<uint8_t>(rule.type) == type) return &rule;
  }
  return nullptr;
}

template <typename T>
T LoadLittle(const char* bytes) {
  T value;
  memcpy(&value, bytes, sizeof value);
  if constexpr (sizeof(T) == 8) {
    return le64toh(value);
  } else if constexpr (sizeof(T) == 4) {
    return le32toh(value);
  } else {
    return le16toh(value);
  }
}

}  // namespace

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
  std::string frame(header.data(), header.size());
  frame.append(payload.data(), payload.size());
  return frame;
}

std::string EncodeCreditPayload(uint64_t bytes) {
  const uint64_t value = htole64(bytes);
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

absl::StatusOr<uint64_t> DecodeCredit(absl::Span<const char> payload) {
  if (payload.size() != 8) return ProtocolError("credit is not 8 bytes");
  return LoadLittle<uint64_t>(payload.data());
}

absl::StatusOr<FrameHeader> DecodeHeader(absl::Span<const char> bytes, Direction direction) {
  if (bytes.size() < kHeaderBytes) return ProtocolError("a header is 16 bytes");
  const uint8_t type = static_cast<uint8_t>(bytes[4]);
  const Rule* rule = FindRule(type);
  if (rule == nullptr) return ProtocolError(absl::StrCat("unknown frame type ", type));
  FrameHeader header{.size = LoadLittle<uint32_t>(bytes.data()),
                     .type = rule->type,
                     .flags = static_cast<uint8_t>(bytes[5]),
                     .stream = LoadLittle<uint64_t>(bytes.data() + 8)};
  if (direction == Direction::kToServer ? !rule->to_server : !rule->to_client) {
    return ProtocolError(absl::StrCat("frame type ", type, " comes from the other side"));
  }
  if (header.size < rule->min || header.size > rule->max) {
    return ProtocolError(absl::StrCat("frame type ", type, " with ", header.size,
                                      " bytes; allowed are ", rule->min, " to ", rule->max));
  }
  if (header.flags > rule->max_flags) return ProtocolError("unknown flags");
  if (LoadLittle<uint16_t>(bytes.data() + 6) != 0) return ProtocolError("reserved bytes are not 0");
  if (rule->needs_stream && header.stream == 0) return ProtocolError("a stream number is needed");
  return header;
}

absl::Status FrameReader::Feed(absl::Span<const char> bytes, OnFrame on_frame) {
  while (!bytes.empty()) {
    if (partial_.empty() && bytes.size() >= kHeaderBytes) {
      // The common case: the whole frame is here and need not be copied.
      ASSIGN_OR_RETURN(const FrameHeader header, DecodeHeader(bytes, direction_));
      if (bytes.size() >= kHeaderBytes + header.size) {
        RETURN_IF_ERROR(on_frame(header, bytes.subspan(kHeaderBytes, header.size)));
        bytes.remove_prefix(kHeaderBytes + header.size);
        continue;
      }
    }
    if (partial_.size() < kHeaderBytes) {
      const size_t take = std::min(bytes.size(), kHeaderBytes - partial_.size());
      partial_.append(bytes.data(), take);
      bytes.remove_prefix(take);
      if (partial_.size() < kHeaderBytes) return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const FrameHeader header, DecodeHeader(partial_, direction_));
    const size_t missing = kHeaderBytes + header.size - partial_.size();
    const size_t take = std::min(bytes.size(), missing);
    partial_.append(bytes.data(), take);
    bytes.remove_prefix(take);
    if (take < missing) return absl::OkStatus();
    const std::string frame = std::move(partial_);
    partial_.clear();
    RETURN_IF_ERROR(on_frame(header, absl::MakeConstSpan(frame).subspan(kHeaderBytes)));
  }
  return absl::OkStatus();
}

}  // namespace sandboxd::wire
