#include "sandboxd/server/listing.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "sandboxd/wire/json.h"

namespace sandboxd::server {
namespace {

using nlohmann::json;

// Cursors compare as the entries do: the time has a fixed width.
std::string Cursor(const ListEntry& entry) {
  return absl::StrFormat("%019d.%s", absl::ToUnixNanos(entry.created_at), entry.id);
}

bool Matches(const json& row, const ListFilter& filter) {
  if (!filter.name.empty() && row["name"] != filter.name) return false;
  if (!filter.state.empty() && row["state"] != filter.state) return false;
  for (const auto& [key, value] : filter.labels.items()) {
    const auto found = row["labels"].find(key);
    if (found == row["labels"].end() || *found != value) return false;
  }
  return true;
}

}  // namespace

json ListPage(std::vector<ListEntry> entries, const ListFilter& filter) {
  std::sort(entries.begin(), entries.end(), [](const ListEntry& a, const ListEntry& b) {
    return std::tie(a.created_at, a.id) < std::tie(b.created_at, b.id);
  });
  json rows = json::array();
  size_t bytes = 0;
  size_t values = 0;
  std::string last;
  for (const ListEntry& entry : entries) {
    std::string cursor = Cursor(entry);
    if (cursor <= filter.after) continue;
    json row = entry.row();
    if (!Matches(row, filter)) continue;
    bytes += wire::DumpObject(row).size();
    values += row.size() + row["labels"].size() + 1;
    const bool full =
        rows.size() == filter.limit || bytes > kListPageBytes || values > kListPageValues;
    if (full && !rows.empty()) return {{"sandboxes", std::move(rows)}, {"next", last}};
    last = std::move(cursor);
    rows.push_back(std::move(row));
  }
  return {{"sandboxes", std::move(rows)}, {"next", nullptr}};
}

}  // namespace sandboxd::server
