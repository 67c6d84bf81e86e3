#include "sandboxd/server/pool.h"

#include <utility>

#include "base/log.h"

namespace sandboxd::server {
namespace {

// A pause in creates that is taken for their end: filling never competes with one.
constexpr absl::Duration kPause = absl::Milliseconds(2);

}  // namespace

std::unique_ptr<Box> Pool::Take(const std::string& profile) {
  const auto it = shelves_.find(profile);
  if (it == shelves_.end()) return nullptr;
  std::deque<std::unique_ptr<Box>>& boxes = it->second.boxes;
  while (!boxes.empty()) {
    std::unique_ptr<Box> box = std::move(boxes.front());
    boxes.pop_front();
    if (!box->lost()) return box;
    Box* raw = box.get();
    raw->Kill([this, box = std::move(box)](absl::Status) mutable {
      host_.loop.Defer([box = std::move(box)] {});
    });
  }
  return nullptr;
}

Pool::Shelf* Pool::Lacking() {
  for (auto& [name, shelf] : shelves_) {
    if (shelf.boxes.size() + shelf.pending < static_cast<size_t>(config_.pool_size)) return &shelf;
  }
  return nullptr;
}

void Pool::Fill() {
  if (timer_set_ || draining_ || Lacking() == nullptr) return;
  timer_set_ = true;
  host_.loop.After(kPause, [this, alive = alive_] {
    if (!*alive) return;
    timer_set_ = false;
    if (draining_) return;
    if (busy_()) return Fill();
    if (Shelf* shelf = Lacking()) PrepareOne(*shelf);
  });
}

void Pool::PrepareOne(Shelf& shelf) {
  ++shelf.pending;
  Box::Prepare(host_, *shelf.profile,
               [this, &shelf, alive = alive_](absl::StatusOr<std::unique_ptr<Box>> box) {
                 if (!*alive) return;
                 --shelf.pending;
                 if (draining_) return box.ok() ? GiveUp(*std::move(box)) : GaveUp();
                 if (!box.ok()) {
                   Log(LogLevel::kError, "preparing a sandbox for the pool",
                       {{"error", std::string(box.status().message())}});
                   return;
                 }
                 shelf.boxes.push_back(*std::move(box));
                 Fill();
               });
}

void Pool::Drain(absl::AnyInvocable<void()> on_gone) {
  draining_ = true;
  on_gone_ = std::move(on_gone);
  giving_up_ = 1;  // For this call itself.
  for (auto& [name, shelf] : shelves_) {
    // Those in preparation come to GiveUp() when they are ready.
    giving_up_ += shelf.boxes.size() + shelf.pending;
    for (std::unique_ptr<Box>& box : std::exchange(shelf.boxes, {})) GiveUp(std::move(box));
  }
  host_.loop.Defer([this] { GaveUp(); });
}

void Pool::GiveUp(std::unique_ptr<Box> box) {
  Box* raw = box.get();
  raw->Kill([this, box = std::move(box)](absl::Status) mutable {
    host_.loop.Defer([this, box = std::move(box)]() mutable {
      box.reset();
      GaveUp();
    });
  });
}

void Pool::GaveUp() {
  if (--giving_up_ == 0) on_gone_();
}

size_t Pool::ready() const {
  size_t count = 0;
  for (const auto& [name, shelf] : shelves_) count += shelf.boxes.size();
  return count;
}

}  // namespace sandboxd::server
