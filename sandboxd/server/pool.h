#ifndef SANDBOXD_SERVER_POOL_H_
#define SANDBOXD_SERVER_POOL_H_

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "sandboxd/server/box.h"
#include "sandboxd/server/config.h"

namespace sandboxd::server {

// Boxes prepared ahead of the creates that will take them: pool.size of each profile of
// pool.profiles. Filled one after the other, and only while no create is going on.
class Pool {
 public:
  // `busy` says whether a create is going on.
  Pool(BoxHost& host, const Config& config, absl::AnyInvocable<bool()> busy)
      : host_(host), config_(config), busy_(std::move(busy)) {}
  ~Pool() { *alive_ = false; }

  // `profile` outlives the pool.
  void Add(const std::string& name, const BoxProfile& profile) {
    shelves_[name].profile = &profile;
  }

  // A box of this profile, or null where none is ready.
  std::unique_ptr<Box> Take(const std::string& profile);

  // Brings the pool to its mark after a pause. Call it whenever something may be missing.
  void Fill();

  // Ends all boxes and prepares no more. The callback runs once, when all have gone.
  void Drain(absl::AnyInvocable<void()> on_gone);

  size_t ready() const;

 private:
  struct Shelf {
    const BoxProfile* profile = nullptr;
    std::deque<std::unique_ptr<Box>> boxes;
  };

  Shelf* Lacking();
  absl::Status PrepareOne(Shelf& shelf);
  void OnPrepared(Shelf& shelf, const absl::Status& status);
  void GiveUp(std::unique_ptr<Box> box);
  void CheckGone();

  BoxHost& host_;
  const Config& config_;
  absl::AnyInvocable<bool()> busy_;
  std::map<std::string, Shelf> shelves_;
  std::unique_ptr<Box> preparing_;  // One at a time.
  bool working_ = false;            // A pause or a preparation is under way.
  bool draining_ = false;
  absl::AnyInvocable<void()> on_gone_;
  size_t giving_up_ = 0;  // Boxes that are still to go.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace sandboxd::server

#endif  // SANDBOXD_SERVER_POOL_H_
