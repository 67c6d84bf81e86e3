#include "sandboxd/server/state_file.h"

#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"

namespace sandboxd::server {
namespace {

constexpr char kBoot[] = "0f6b3c5e-0000-4000-8000-000000000001";

std::string Text() { return EncodeState(kBoot, 1879048192, {{"owner", 7}}); }

TEST(StateFileTest, WhatWasWrittenIsRead) {
  const State state = DecodeState(Text(), kBoot);

  EXPECT_EQ(state.verdict, StateVerdict::kSound);
  EXPECT_EQ(state.id_base, 1879048192u);
  EXPECT_EQ(state.body["owner"], 7);
}

TEST(StateFileTest, AnotherBootIsTold) {
  EXPECT_EQ(DecodeState(Text(), "another").verdict, StateVerdict::kOtherBoot);
}

TEST(StateFileTest, EveryChangedByteIsFound) {
  const std::string sound = Text();
  for (size_t i = 0; i < sound.size(); ++i) {
    std::string damaged = sound;
    damaged[i] ^= 1;
    EXPECT_EQ(DecodeState(damaged, kBoot).verdict, StateVerdict::kDamaged) << i;
  }
  for (size_t size = 0; size < sound.size(); ++size) {
    EXPECT_EQ(DecodeState(sound.substr(0, size), kBoot).verdict, StateVerdict::kDamaged) << size;
  }
}

// The checksum covers the line too, so a newer version's file is made as that version would.
TEST(StateFileTest, ANewerSchemaIsToldWithItsIds) {
  // As EncodeState() of a version whose schema is 2 writes it.
  const std::string newer =
      "sandboxd-state 2 0f6b3c5e-0000-4000-8000-000000000001 65536 @\nanything";
  uint64_t sum = 0xcbf29ce484222325;
  for (const char c : absl::StrReplaceAll(newer, {{"@\n", ""}})) {
    sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  char digits[17];
  snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(sum));

  const State state = DecodeState(absl::StrReplaceAll(newer, {{"@", digits}}), kBoot);

  EXPECT_EQ(state.verdict, StateVerdict::kNewer);
  EXPECT_EQ(state.id_base, 65536u);
}

}  // namespace
}  // namespace sandboxd::server
