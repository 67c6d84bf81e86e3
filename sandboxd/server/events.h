#ifndef SANDBOXD_SERVER_EVENTS_H_
#define SANDBOXD_SERVER_EVENTS_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <string>

#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"

namespace sandboxd::server {

// One thing that happened to a sandbox.
struct Event {
  uint64_t sequence;
  absl::Time at;
  const char* name;
  uid_t owner;
  std::string sandbox;
  nlohmann::json details;  // An object whose members are the event's own.
};

// As subscribers get it. Made only for them: most events are never asked for.
nlohmann::json EventBody(const Event& event);

// A ring of the daemon's last events, and who wants to hear of new ones.
class EventLog {
 public:
  class Subscriber {
   public:
    virtual ~Subscriber() = default;
    virtual void OnNews() = 0;
  };

  explicit EventLog(size_t capacity) : capacity_(capacity) {}

  // `name` is a literal; `details` is an object that is added to the event.
  void Add(const char* name, const std::string& sandbox, uid_t owner,
           nlohmann::json details = nlohmann::json::object());

  uint64_t next() const { return next_; }
  // The oldest sequence number that is still here.
  uint64_t oldest() const { return ring_.empty() ? next_ : ring_.front().sequence; }
  // The event with this number, which is in [oldest(), next()).
  const Event& at(uint64_t sequence) const { return ring_[sequence - oldest()]; }

  void Subscribe(Subscriber& subscriber) { subscribers_.insert(&subscriber); }
  void Unsubscribe(Subscriber& subscriber) { subscribers_.erase(&subscriber); }

 private:
  const size_t capacity_;
  uint64_t next_ = 1;
  std::deque<Event> ring_;
  absl::flat_hash_set<Subscriber*> subscribers_;
};

}  // namespace sandboxd::server

#endif  // SANDBOXD_SERVER_EVENTS_H_
