#include "sandboxd/server/listing.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "sandboxd/wire/frame.h"
#include "sandboxd/wire/json.h"

namespace sandboxd::server {
namespace {

using nlohmann::json;

ListEntry Entry(int second, const std::string& id, json labels = json::object()) {
  return {absl::FromUnixSeconds(1'700'000'000 + second), id, [id, labels] {
            return json{{"id", id}, {"name", "n-" + id}, {"state", "running"}, {"labels", labels}};
          }};
}

template <typename... Entries>
std::vector<ListEntry> Some(Entries... entries) {
  std::vector<ListEntry> all;
  (all.push_back(std::move(entries)), ...);
  return all;
}

std::vector<std::string> Ids(const json& page) {
  std::vector<std::string> ids;
  for (const json& row : page["sandboxes"]) ids.push_back(row["id"]);
  return ids;
}

TEST(ListPageTest, OldestFirstAndPageByPage) {
  const json first = ListPage(Some(Entry(3, "c"), Entry(1, "b"), Entry(1, "a")), {.limit = 2});
  EXPECT_EQ(Ids(first), (std::vector<std::string>{"a", "b"}));

  const json second = ListPage(Some(Entry(3, "c"), Entry(1, "b"), Entry(1, "a")),
                               {.after = first["next"], .limit = 2});
  EXPECT_EQ(Ids(second), (std::vector<std::string>{"c"}));
  EXPECT_TRUE(second["next"].is_null());
}

TEST(ListPageTest, ACursorOutlivesItsSandbox) {
  const json first = ListPage(Some(Entry(1, "a"), Entry(2, "b"), Entry(3, "c")), {.limit = 2});

  const json second = ListPage(Some(Entry(1, "a"), Entry(3, "c")), {.after = first["next"]});

  EXPECT_EQ(Ids(second), (std::vector<std::string>{"c"}));
}

TEST(ListPageTest, FiltersDoNotCountWhatTheyLeaveOut) {
  const json page = ListPage(Some(Entry(1, "a"), Entry(2, "b", {{"k", "v"}}), Entry(3, "c")),
                             {.labels = {{"k", "v"}}, .limit = 1});

  EXPECT_EQ(Ids(page), (std::vector<std::string>{"b"}));
  EXPECT_TRUE(page["next"].is_null());
}

TEST(ListPageTest, APageFitsIntoAFrame) {
  const json labels = {{"big", std::string(200'000, 'x')}};
  const auto entries = [&] {
    std::vector<ListEntry> all;
    for (int i = 0; i < 20; ++i) all.push_back(Entry(i, absl::StrCat("id-", i), labels));
    return all;
  };
  size_t seen = 0;
  std::string after;
  for (int pages = 0; pages < 20; ++pages) {
    const json page = ListPage(entries(), {.after = after});
    EXPECT_LT(wire::DumpObject(page).size(), wire::kMaxControlBytes);
    seen += page["sandboxes"].size();
    if (page["next"].is_null()) break;
    after = page["next"];
  }
  EXPECT_EQ(seen, 20u);
}

TEST(ListPageTest, ARowThatIsTooLargeByItselfIsStillShown) {
  const json page =
      ListPage(Some(Entry(1, "a", {{"k", std::string(kListPageBytes + 1, 'x')}})), {});

  EXPECT_EQ(Ids(page), (std::vector<std::string>{"a"}));
}

}  // namespace
}  // namespace sandboxd::server
