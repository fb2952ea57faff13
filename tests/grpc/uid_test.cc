// Tests of the authorization of Unix socket clients by uid.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel_posix.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "nft/base/unique_fd.h"
#include "tests/grpc/any_call.h"
#include "tests/grpc/server_fixture.h"

namespace svcmap::api {
namespace {

using svcmap::testing::CallAny;
using svcmap::testing::ExpectReadsOnly;

constexpr uid_t kWriterUid = 1001;
constexpr uid_t kReaderUid = 1002;
constexpr uid_t kStrangerUid = 1003;

class UidTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    if (geteuid() != 0) GTEST_SKIP() << "only root can call as somebody else";
    ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  }

  void ListenForUids() {
    ServeAt({.allow = {.write_uids = {kWriterUid}, .read_uids = {kReaderUid}}});
  }

  // Connects with another uid. The uid changes only for the calling thread and only during this
  // function. Returns errno, or 0 on success.
  int ConnectAs(uid_t uid, UniqueFd& fd) const {
    fd = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {.sun_family = AF_UNIX};
    std::strncpy(address.sun_path, socket().c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(syscall(SYS_setresuid, -1, uid, -1), 0);
    const bool connected =
        connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    const int error = connected ? 0 : errno;
    EXPECT_EQ(syscall(SYS_setresuid, -1, 0, -1), 0);
    return error;
  }

  std::shared_ptr<grpc::Channel> ChannelAs(uid_t uid) const {
    UniqueFd fd;
    EXPECT_EQ(ConnectAs(uid, fd), 0);
    fcntl(fd.get(), F_SETFL, O_NONBLOCK);
    return grpc::CreateInsecureChannelFromFd("uid", fd.Release());
  }
};

TEST_F(UidTest, WithoutNamedUidsOnlyTheOwnerAndRootCanOpenTheSocket) {
  Serve();
  UniqueFd fd;
  EXPECT_EQ(ConnectAs(kStrangerUid, fd), EACCES);
  EXPECT_TRUE(CallAny(ChannelAs(0), "/svcmap.v1.Control/Apply").ok());
}

TEST_F(UidTest, WithNamedUidsEverybodyCanOpenTheSocket) {
  ListenForUids();
  struct stat found = {};
  ASSERT_EQ(stat(socket().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0666u);
}

TEST_F(UidTest, UidOutsideOfTheListsIsHungUpOn) {
  ListenForUids();
  UniqueFd fd;
  ASSERT_EQ(ConnectAs(kStrangerUid, fd), 0);
  const timeval patience = {10, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  char byte = 0;
  // The server closes the connection without sending data.
  EXPECT_EQ(recv(fd.get(), &byte, 1, 0), 0);
  EXPECT_EQ(GetStatus().refused_calls(), 1u);
}

TEST_F(UidTest, WriterAndRootAreRejectedNothing) {
  ListenForUids();
  for (const uid_t uid : {kWriterUid, uid_t{0}}) {
    const auto channel = ChannelAs(uid);
    for (const std::string method : {"Apply", "Remove", "List", "GetStatus"}) {
      EXPECT_TRUE(CallAny(channel, "/svcmap.v1.Control/" + method).ok()) << method;
    }
  }
  EXPECT_EQ(GetStatus().refused_calls(), 0u);
}

TEST_F(UidTest, ReaderReadsAndIsRejectedWhatChanges) {
  ListenForUids();
  const auto channel = ChannelAs(kReaderUid);
  ExpectReadsOnly(channel, "uid 1002");
  EXPECT_EQ(GetStatus().refused_calls(), 3u);
  EXPECT_TRUE(CallAny(channel, "/grpc.health.v1.Health/Check").ok());
  EXPECT_TRUE(
      CallAny(channel, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo").ok());
}

}  // namespace
}  // namespace svcmap::api
