#ifndef SANDBOXD_SERVER_LISTING_H_
#define SANDBOXD_SERVER_LISTING_H_

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"

namespace sandboxd::server {

// What may be on one page of a list, and what is taken into it.
struct ListEntry {
  absl::Time created_at;
  std::string id;
  absl::AnyInvocable<nlohmann::json() const> row;
};

struct ListFilter {
  std::string name;       // Empty: any.
  std::string state;      // Empty: any.
  nlohmann::json labels;  // Those that must be there; null: any.
  std::string after;      // The cursor of the page before; empty: the first page.
  size_t limit = 1000;    // Rows.
};

// A page never needs more than one frame: it ends before `kListPageBytes` of text or
// `kListPageValues` JSON values, but has one row at least, if there is any.
inline constexpr size_t kListPageBytes = 512 << 10;
inline constexpr size_t kListPageValues = 32768;

// {"sandboxes": rows, "next": cursor or null}, oldest first. A cursor stays good when the sandbox
// that it was made from has gone: it says after which moment to go on.
nlohmann::json ListPage(std::vector<ListEntry> entries, const ListFilter& filter);

}  // namespace sandboxd::server

#endif  // SANDBOXD_SERVER_LISTING_H_
