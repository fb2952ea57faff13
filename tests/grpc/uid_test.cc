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
    if (geteuid() != 0) GTEST_SKIP() << "only root can connect with the UID of another user";
    ASSERT_EQ(chmod(folder_->path().c_str(), 0755), 0);
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

TEST_F(UidTest, ReaderReadsAndIsRejectedWhatChanges) {
  ListenForUids();
  const auto channel = ChannelAs(kReaderUid);
  ExpectReadsOnly(channel, "uid 1002");
  EXPECT_EQ(GetStatus().refused_calls(), 4u);
  EXPECT_TRUE(CallAny(channel, "/grpc.health.v1.Health/Check").ok());
  EXPECT_TRUE(
      CallAny(channel, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo").ok());
}

// A Watch stream. `open` is true if the agent has sent the first event.
struct OpenWatch {
  explicit OpenWatch(v1::Control::Stub& stub) {
    context.set_deadline(std::chrono::system_clock::now() + svcmap::testing::kHangLimit);
    reader = stub.Watch(&context, {});
    v1::WatchEvent event;
    open = reader->Read(&event);
  }
  ~OpenWatch() {
    context.TryCancel();
    reader->Finish();
  }
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<v1::WatchEvent>> reader;
  bool open = false;
};

TEST_F(UidTest, OneUserCanUseAQuarterOfTheWatchStreams) {
  limits_.max_watchers = 8;
  ListenForUids();
  const auto reader = v1::Control::NewStub(ChannelAs(kReaderUid));
  const OpenWatch first(*reader);
  EXPECT_TRUE(first.open);
  const auto same_user = v1::Control::NewStub(ChannelAs(kReaderUid));
  const OpenWatch second(*same_user);
  EXPECT_TRUE(second.open);
  {
    grpc::ClientContext context;
    SetDeadline(context);
    const auto third = same_user->Watch(&context, {});
    v1::WatchEvent event;
    EXPECT_FALSE(third->Read(&event));
    const grpc::Status status = third->Finish();
    EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
    EXPECT_EQ(status.error_message(),
              "no more than 2 watchers of one client at a time, a quarter of --max-watchers 8; "
              "stream rejected");
  }
  const auto writer = v1::Control::NewStub(ChannelAs(kWriterUid));
  const OpenWatch other(*writer);
  EXPECT_TRUE(other.open);
}

}  // namespace
}  // namespace svcmap::api
