#include "sandboxd/server/events.h"

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace sandboxd::server {

nlohmann::json EventBody(const Event& event) {
  nlohmann::json body = event.details;
  body["seq"] = event.sequence;
  body["at"] = absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", event.at, absl::UTCTimeZone());
  body["event"] = event.name;
  body["sandbox"] = event.sandbox;
  return body;
}

void EventLog::Add(const char* name, const std::string& sandbox, uid_t owner,
                   nlohmann::json details) {
  ring_.push_back({next_++, absl::Now(), name, owner, sandbox, std::move(details)});
  if (ring_.size() > capacity_) ring_.pop_front();
  for (Subscriber* subscriber : subscribers_) subscriber->OnNews();
}

}  // namespace sandboxd::server
