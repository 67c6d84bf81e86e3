#include "runtime/exec_plan.h"

#include <gtest/gtest.h>

#include "base/status.h"

namespace sandboxd {
namespace {

TEST(MergeEnvTest, LaterEntriesWinAndPathIsThere) {
  const std::vector<std::string> image = {"A=1", "B=2"};
  const std::vector<std::string> exec = {"B=3", "C="};

  const auto merged = MergeEnv({&image, &exec});

  ASSERT_TRUE(merged.ok());
  EXPECT_EQ(*merged,
            (std::vector<std::string>{"A=1", "B=3", "C=", std::string("PATH=") + kDefaultPath}));
}

TEST(MergeEnvTest, AnEntryNeedsAName) {
  for (const std::string entry : {"=x", "x", ""}) {
    const std::vector<std::string> env = {entry};
    EXPECT_FALSE(MergeEnv({&env}).ok()) << entry;
  }
}

TEST(ExecPlanTest, AStringThatTheKernelWouldRefuseIsNamed) {
  ExecSpec spec;
  spec.argv = {"true"};
  spec.env = {"BIG=" + std::string(128 * 1024, 'x')};

  const auto plan = BuildExecPlan(spec);

  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(DetailOf(plan.status()).reason, "ARGUMENTS_TOO_LONG");
  EXPECT_EQ(DetailOf(plan.status()).object, "env BIG");
}

TEST(ExecPlanTest, TheSumIsBounded) {
  ExecSpec spec;
  spec.argv = {"true"};
  for (int i = 0; i < 70'000; ++i)
    spec.env.push_back("N" + std::to_string(i) + "=" + std::string(30, 'x'));

  EXPECT_EQ(DetailOf(BuildExecPlan(spec).status()).reason, "ARGUMENTS_TOO_LONG");
}

TEST(ExecPlanTest, HeaderDescribesTheWholePlan) {
  ExecSpec spec;
  spec.argv = {"ls", "-l"};
  spec.env = {"PATH=/bin"};

  const auto plan = BuildExecPlan(spec);

  ASSERT_TRUE(plan.ok());
  const ExecPlan& fixed = *reinterpret_cast<const ExecPlan*>(plan->data());
  EXPECT_EQ(fixed.header.magic, kPlanMagic);
  EXPECT_EQ(fixed.header.size, plan->size());
  EXPECT_EQ(fixed.argv.count, 3u);
  EXPECT_EQ(std::string(plan->data() + fixed.path), "/bin");
  EXPECT_EQ(fixed.has_home, 0u);
  EXPECT_EQ(plan->back(), '\0');
}

}  // namespace
}  // namespace sandboxd
