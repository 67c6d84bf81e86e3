#ifndef SANDBOXD_SERVER_SANDBOXES_H_
#define SANDBOXD_SERVER_SANDBOXES_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "rootfs/image.h"
#include "sandboxd/server/box.h"
#include "sandboxd/server/config.h"
#include "sandboxd/server/events.h"
#include "sandboxd/server/pool.h"
#include "sandboxd/server/sandbox.h"
#include "sandboxd/server/state_file.h"

namespace sandboxd::server {

// All sandboxes of the daemon: made, found, ended, found again after a restart.
class Sandboxes : public Sandbox::Owner {
 public:
  // What is remembered of one that has ended.
  struct Ended {
    std::string id;
    uid_t owner;
    absl::Time created_at;
    SandboxEnd end;
    nlohmann::json row;
  };
  struct Created {
    Sandbox* sandbox;
    bool fresh;  // False: an idempotency key found it.
  };
  using CreateCallback = absl::AnyInvocable<void(absl::StatusOr<Created>)>;
  using EndWaiter = absl::AnyInvocable<void(const Ended&)>;

  Sandboxes(BoxHost& host, EventLog& events, const Config& config, LayerSet layers)
      : host_(host), events_(events), config_(config), layers_(layers), pool_(host, config, [this] {
          return creating_ > 0;
        }) {}
  ~Sandboxes() override;

  // Compiles the profiles, prepares the image `host`, adopts what an earlier daemon left.
  absl::Status Start();
  // No more creates; the pool is given up, then `on_pool_gone` runs. Sandboxes go on.
  void Drain(absl::AnyInvocable<void()> on_pool_gone);

  void Create(uid_t owner, CreateSpec spec, CreateCallback callback);
  // By id, name of one's own, unique prefix of an id of at least 4 characters, or another's name,
  // among those `uid` may see.
  absl::StatusOr<Sandbox*> Find(uid_t uid, absl::string_view reference);
  const Ended* FindEnded(uid_t uid, absl::string_view id) const;
  void Kill(Sandbox& sandbox, absl::string_view reason, Box::KilledCallback callback);
  // Calls back when the sandbox has ended and is removed.
  uint64_t WaitEnd(const std::string& id, EndWaiter waiter);
  void AbandonWait(uint64_t wait);

  const std::map<std::string, std::unique_ptr<Sandbox>>& all() const { return sandboxes_; }
  // Those `uid` may see, oldest first.
  std::vector<const Sandbox*> Visible(uid_t uid) const;
  const std::deque<Ended>& ended() const { return ended_; }
  // Gives an exec the capabilities and resource limits of its sandbox's profile.
  void Confine(const Sandbox& sandbox, ExecSpec& spec) const;
  size_t pool_ready() const { return pool_.ready(); }
  std::vector<std::string> images() const;
  nlohmann::json Describe(const Sandbox& sandbox) const;

  // Sandbox::Owner
  void OnEnded(Sandbox& sandbox, absl::string_view reason, const std::string& message) override;

 private:
  struct CompiledProfile {
    BoxProfile box;
    std::vector<PlanRlimit> exec_rlimits;
  };

  absl::Status CompileProfile(const Profile& profile);
  absl::StatusOr<std::shared_ptr<const Image>> FindImage(const std::string& reference);
  absl::Status CheckCreate(uid_t owner, const CreateSpec& spec);
  void LaunchBox(uid_t owner, CreateSpec spec, std::shared_ptr<const Image> image,
                 std::unique_ptr<Box> box, CreateCallback callback);
  void Finish(uid_t owner, const CreateSpec& spec, std::unique_ptr<Box> box,
              const absl::Status& status, CreateCallback callback);
  void Register(std::unique_ptr<Sandbox> sandbox);
  void ArmDeadline(Sandbox& sandbox);
  absl::Status SaveState(const Sandbox& sandbox) const;
  void Remove(const std::string& id, absl::string_view reason, const std::string& message);
  absl::Status Recover();
  void AdoptOne(const std::string& id);
  absl::Status Readopt(const std::string& id, const State& state);
  std::string Quarantine(const std::string& id, const std::string& text);

  BoxHost& host_;
  EventLog& events_;
  const Config& config_;
  const LayerSet layers_;
  std::map<std::string, CompiledProfile> profiles_;
  std::shared_ptr<const Image> host_image_;
  std::string boot_id_;
  std::map<std::string, std::unique_ptr<Sandbox>> sandboxes_;
  std::map<std::string, EventLoop::TimerId> deadlines_;
  std::deque<Ended> ended_;
  std::map<uint64_t, std::pair<std::string, EndWaiter>> waiters_;
  uint64_t next_wait_ = 1;
  Pool pool_;
  size_t creating_ = 0;
  std::map<std::pair<uid_t, std::string>, bool> names_pending_;
  // Creates that wait for one of the same owner and idempotency key.
  std::map<std::pair<uid_t, std::string>, std::vector<std::pair<CreateSpec, CreateCallback>>>
      keys_pending_;
  bool draining_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace sandboxd::server

#endif  // SANDBOXD_SERVER_SANDBOXES_H_
