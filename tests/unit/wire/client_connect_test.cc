#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/socket.h"
#include "tests/unit/wire/fake_server.h"

namespace sandboxd::client {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using wire::FrameType;

class ConnectTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/wire_test.XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
    path_ = directory_ + "/sock";
  }
  void TearDown() override {
    unsetenv("SANDBOXD_SOCKET");
    unlink(path_.c_str());
    rmdir(directory_.c_str());
  }
  void Listen(int backlog = 8) {
    auto listener = ListenUnix(path_, SOCK_STREAM, 0600, backlog);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }

  std::string directory_;
  std::string path_;
  UniqueFd listener_;
};

TEST_F(ConnectTest, SaysHelloBeforeAnyoneAnswers) {
  Listen();

  const auto client = Client::Connect({.socket = path_, .name = "me/2"});
  ASSERT_TRUE(client.ok()) << client.status();

  Peer peer(UniqueFd(accept(listener_.get(), nullptr, nullptr)));
  EXPECT_EQ(peer.Expect(FrameType::kHello).json(), (json{{"protocol", 1}, {"client", "me/2"}}));
}

TEST_F(ConnectTest, TheEnvironmentNamesTheSocket) {
  Listen();
  setenv("SANDBOXD_SOCKET", path_.c_str(), 1);

  EXPECT_EQ(DefaultSocket(), path_);
  EXPECT_TRUE(Client::Connect().ok());
}

TEST_F(ConnectTest, WithoutADaemonTheMessageSaysWhatToDo) {
  const auto nothing = Client::Connect({.socket = path_});
  Listen();
  listener_.Reset();
  const auto nobody = Client::Connect({.socket = path_});

  for (const absl::Status& status : {nothing.status(), nobody.status()}) {
    EXPECT_TRUE(absl::IsUnavailable(status));
    EXPECT_EQ(DetailOf(status).reason, "DAEMON_UNREACHABLE");
    EXPECT_THAT(std::string(status.message()), HasSubstr("no daemon listens at " + path_));
    EXPECT_THAT(std::string(status.message()), HasSubstr("SANDBOXD_SOCKET"));
  }
}

TEST_F(ConnectTest, WithoutPermissionTheMessageNamesTheGroup) {
  Listen();
  chmod(path_.c_str(), 0);
  // Root may use any socket: for this call we are nobody.
  const uid_t user = geteuid();
  ASSERT_EQ(seteuid(user == 0 ? 65534 : user), 0);

  const auto client = Client::Connect({.socket = path_});
  ASSERT_EQ(seteuid(user), 0);

  EXPECT_TRUE(absl::IsPermissionDenied(client.status())) << client.status();
  EXPECT_EQ(DetailOf(client.status()).reason, "SOCKET_NOT_ALLOWED");
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("group sandboxd"));
}

TEST_F(ConnectTest, APathThatIsTooLongIsRefused) {
  const auto client = Client::Connect({.socket = "/" + std::string(200, 'x')});

  EXPECT_TRUE(absl::IsInvalidArgument(client.status()));
}

TEST_F(ConnectTest, AFullQueueIsWaitedForUntilTheTimeout) {
  Listen(/*backlog=*/0);
  const auto first = Client::Connect({.socket = path_});
  ASSERT_TRUE(first.ok());

  const auto second = Client::Connect({.socket = path_, .connect_timeout = absl::Milliseconds(50)});

  EXPECT_TRUE(absl::IsDeadlineExceeded(second.status())) << second.status();
}

}  // namespace
}  // namespace sandboxd::client
