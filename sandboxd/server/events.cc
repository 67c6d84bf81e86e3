#include "sandboxd/server/events.h"

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace sandboxd::server {

void EventLog::Add(absl::string_view name, const std::string& sandbox, uid_t owner,
                   nlohmann::json details) {
  details["seq"] = next_;
  details["at"] = absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::Now(), absl::UTCTimeZone());
  details["event"] = std::string(name);
  details["sandbox"] = sandbox;
  ring_.push_back({next_++, owner, sandbox, std::move(details)});
  if (ring_.size() > capacity_) ring_.pop_front();
  for (Subscriber* subscriber : subscribers_) subscriber->OnNews();
}

}  // namespace sandboxd::server
