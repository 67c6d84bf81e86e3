#include "sandboxd/server/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sandboxd::server {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(absl::string_view text) {
  return std::string(ParseConfig(text, "c.toml").status().message());
}

TEST(ConfigTest, ThePrintedDefaultIsTheDefault) {
  const auto config = ParseConfig(DefaultConfigText(), "default");

  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->socket, Config().socket);
  EXPECT_EQ(config->limits.sandboxes, Limits().sandboxes);
}

TEST(ConfigTest, UnknownKeysAndBadValuesNameLineAndKey) {
  EXPECT_THAT(ErrorOf("[daemon]\nsoket = \"/x\""), HasSubstr("c.toml:2: daemon.soket"));
  EXPECT_THAT(ErrorOf("[nope]\n"), HasSubstr(""));
  EXPECT_THAT(ErrorOf("[pool]\nsize = -1"), HasSubstr("whole number from 0 to 256"));
  EXPECT_THAT(ErrorOf("[pool]\nsize = \"4\""), HasSubstr("pool.size"));
  EXPECT_THAT(ErrorOf("x = 1"), HasSubstr("x: is not a known key"));
  EXPECT_THAT(ErrorOf("[daemon\n"), HasSubstr("c.toml:1"));
  EXPECT_THAT(ErrorOf("[daemon]\nsocket = \"relative\""), HasSubstr("absolute path"));
  EXPECT_THAT(ErrorOf("[daemon]\ncgroup = \"../x\""), HasSubstr("daemon.cgroup"));
}

TEST(ConfigTest, AProfileCannotGrantWhatNoSandboxMayHave) {
  EXPECT_THAT(ErrorOf("[profiles.x]\ncapabilities = [\"SYS_ADMIN\"]"), HasSubstr("SYS_ADMIN"));
  const auto config =
      ParseConfig("[profiles.x]\nbase = \"strict\"\ncapabilities = [\"chown\"]\n", "c.toml");
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->profiles.at("x").capabilities, 1u);
}

TEST(ConfigTest, ReloadNamesWhatNeedsARestart) {
  Config running = *ParseConfig("", "a");
  const Config fresh = *ParseConfig("[pool]\nsize = 9\n[daemon]\ncgroup = \"other\"\n", "b");

  const auto later = Reload(running, fresh);

  EXPECT_EQ(running.pool_size, 9);
  EXPECT_EQ(running.cgroup, "sandboxd");
  EXPECT_EQ(later, std::vector<std::string>{"daemon.cgroup"});
}

TEST(ConfigTest, AChangedProfileIsNamedAsNeedingARestart) {
  Config running = *ParseConfig("[profiles.small]\nbase = \"default\"\npids_max = 64\n", "a");
  const Config changed = *ParseConfig(
      "[profiles.small]\nbase = \"default\"\npids_max = 32\n[profiles.new]\nbase = \"strict\"\n",
      "b");

  EXPECT_EQ(Reload(running, changed), (std::vector<std::string>{"profiles.new", "profiles.small"}));
  EXPECT_EQ(running.profiles.at("small").pids_max, 64);
  EXPECT_FALSE(running.profiles.contains("new"));
}

}  // namespace
}  // namespace sandboxd::server
