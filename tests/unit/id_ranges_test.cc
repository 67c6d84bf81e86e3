#include "runtime/id_ranges.h"

#include <gtest/gtest.h>

namespace sandboxd {
namespace {

TEST(IdRangesTest, RangesAreDisjointAndBounded) {
  auto ranges = IdRanges::Create(65536, 2);
  ASSERT_TRUE(ranges.ok());

  const auto first = ranges->Take();
  const auto second = ranges->Take();
  const auto third = ranges->Take();

  EXPECT_EQ(*first, 65536u);
  EXPECT_EQ(*second, 131072u);
  EXPECT_EQ(third.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(IdRangesTest, AReturnedRangeIsGivenOutLast) {
  auto ranges = IdRanges::Create(65536, 3);
  const uint32_t first = *ranges->Take();
  ranges->Return(first);

  EXPECT_NE(*ranges->Take(), first);
  EXPECT_NE(*ranges->Take(), first);
  EXPECT_EQ(*ranges->Take(), first);
}

TEST(IdRangesTest, AdoptionRefusesWhatIsNotOursOrInUse) {
  auto ranges = IdRanges::Create(65536, 2);

  EXPECT_TRUE(ranges->Adopt(131072).ok());
  EXPECT_FALSE(ranges->Adopt(131072).ok());
  EXPECT_FALSE(ranges->Adopt(131073).ok());
  EXPECT_FALSE(ranges->Adopt(196608).ok());
  EXPECT_EQ(*ranges->Take(), 65536u);
}

TEST(IdRangesTest, SpecialHostIdsAreOutOfReach) {
  EXPECT_FALSE(IdRanges::Create(0, 1).ok());
  EXPECT_FALSE(IdRanges::Create(65537, 1).ok());
  EXPECT_FALSE(IdRanges::Create(65536, 65535).ok());
}

}  // namespace
}  // namespace sandboxd
