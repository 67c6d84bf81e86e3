#include "sandboxd/server/pool.h"

#include <utility>

#include "base/log.h"
#include "base/status.h"

namespace sandboxd::server {
namespace {

// A pause in creates that is taken for their end: filling never competes with one.
constexpr absl::Duration kPause = absl::Milliseconds(2);

void LogFailure(const absl::Status& status) {
  Log(LogLevel::kError, "preparing a sandbox for the pool",
      {{"error", std::string(status.message())}});
}

}  // namespace

std::unique_ptr<Box> Pool::Take(const std::string& profile) {
  const auto it = shelves_.find(profile);
  if (it == shelves_.end()) return nullptr;
  std::deque<std::unique_ptr<Box>>& boxes = it->second.boxes;
  while (!boxes.empty()) {
    std::unique_ptr<Box> box = std::move(boxes.front());
    boxes.pop_front();
    if (!box->lost()) return box;
    GiveUp(std::move(box));
  }
  return nullptr;
}

Pool::Shelf* Pool::Lacking() {
  for (auto& [name, shelf] : shelves_) {
    if (shelf.boxes.size() < static_cast<size_t>(config_.pool_size)) return &shelf;
  }
  return nullptr;
}

void Pool::Fill() {
  if (working_ || draining_ || Lacking() == nullptr) return;
  working_ = true;
  host_.loop.After(kPause, [this, alive = alive_] {
    if (!*alive) return;
    working_ = false;
    if (draining_) return;
    Shelf* shelf = Lacking();
    if (shelf == nullptr) return;
    if (busy_()) return Fill();
    const absl::Status status = PrepareOne(*shelf);
    if (!status.ok()) LogFailure(status);
  });
}

absl::Status Pool::PrepareOne(Shelf& shelf) {
  ASSIGN_OR_RETURN(preparing_, Box::Prepare(host_, *shelf.profile));
  working_ = true;
  preparing_->AwaitPrepared([this, &shelf, alive = alive_](const absl::Status& status) {
    if (*alive) OnPrepared(shelf, status);
  });
  return absl::OkStatus();
}

// A failure ends the filling until the next create asks for it: no busy loop.
void Pool::OnPrepared(Shelf& shelf, const absl::Status& status) {
  working_ = false;
  std::unique_ptr<Box> box = std::move(preparing_);
  if (draining_ || !status.ok()) {
    if (!status.ok()) LogFailure(status);
    return GiveUp(std::move(box));
  }
  shelf.boxes.push_back(std::move(box));
  Fill();
}

void Pool::Drain(absl::AnyInvocable<void()> on_gone) {
  draining_ = true;
  on_gone_ = std::move(on_gone);
  for (auto& [name, shelf] : shelves_) {
    for (std::unique_ptr<Box>& box : std::exchange(shelf.boxes, {})) GiveUp(std::move(box));
  }
  host_.loop.Defer([this] { CheckGone(); });
}

void Pool::GiveUp(std::unique_ptr<Box> box) {
  ++giving_up_;
  // Later in this turn: the caller may be the box itself.
  host_.loop.Defer([this, box = std::move(box)]() mutable {
    Box* raw = box.get();
    raw->Kill([this, box = std::move(box)](absl::Status) mutable {
      host_.loop.Defer([this, box = std::move(box)]() mutable {
        box.reset();
        --giving_up_;
        CheckGone();
      });
    });
  });
}

void Pool::CheckGone() {
  if (!draining_ || giving_up_ > 0 || preparing_ != nullptr || !on_gone_) return;
  std::exchange(on_gone_, nullptr)();
}

size_t Pool::ready() const {
  size_t count = 0;
  for (const auto& [name, shelf] : shelves_) count += shelf.boxes.size();
  return count;
}

}  // namespace sandboxd::server
