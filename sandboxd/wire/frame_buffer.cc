#include "sandboxd/wire/frame_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sandboxd::wire {

FrameBuffer::FrameBuffer(Direction direction, size_t size)
    : direction_(direction),
      usual_size_(std::max(size, kHeaderBytes + 1)),
      bytes_(new char[usual_size_]),
      size_(usual_size_) {}

void FrameBuffer::Resize(size_t size) {
  std::unique_ptr<char[]> bytes(new char[size]);
  memcpy(bytes.get(), bytes_.get() + begin_, end_ - begin_);
  bytes_ = std::move(bytes);
  size_ = size;
  end_ -= begin_;
  begin_ = 0;
}

absl::Span<char> FrameBuffer::Room() {
  const size_t held = end_ - begin_;
  const size_t wanted = std::max(usual_size_, needed_);
  if (size_ != wanted && held < wanted) {
    Resize(wanted);
  } else if (begin_ > 0) {
    memmove(bytes_.get(), bytes_.get() + begin_, held);
    begin_ = 0;
    end_ = held;
  }
  return absl::MakeSpan(bytes_.get() + end_, size_ - end_);
}

absl::StatusOr<std::optional<FrameView>> FrameBuffer::Pull() {
  if (!status_.ok()) return status_;
  needed_ = kHeaderBytes;
  const absl::Span<const char> here = absl::MakeConstSpan(bytes_.get() + begin_, end_ - begin_);
  if (here.size() < kHeaderBytes) return std::nullopt;
  auto header = DecodeHeader(here, direction_);
  if (!header.ok()) {
    status_ = header.status();
    return status_;
  }
  needed_ += header->size;
  if (here.size() < needed_) return std::nullopt;
  begin_ += needed_;
  needed_ = kHeaderBytes;
  return FrameView{*header, here.subspan(kHeaderBytes, header->size)};
}

bool FrameBuffer::HasFrame() const {
  const absl::Span<const char> here = absl::MakeConstSpan(bytes_.get() + begin_, end_ - begin_);
  if (!status_.ok()) return true;
  if (here.size() < kHeaderBytes) return false;
  const auto header = DecodeHeader(here, direction_);
  return !header.ok() || here.size() >= kHeaderBytes + header->size;
}

}  // namespace sandboxd::wire
