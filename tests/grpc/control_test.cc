// Tests of unary calls and of the socket.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "nft/base/unique_fd.h"
#include "tests/grpc/server_fixture.h"

namespace svcmap::api {
namespace {

using ControlTest = ServerTest;

TEST_F(ControlTest, ASocketOfAnotherTypeIsNotReplaced) {
  Serve();
  const std::string path = socket() + ".other";
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const UniqueFd other(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(other.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(other.get(), 1), 0);
  const auto second = Server::Start({.listen = {"unix://" + path}}, limits_, *service_);
  EXPECT_EQ(second.status().message(), "another process listens on " + path);
  unlink(path.c_str());
}

TEST_F(ControlTest, StoredObjectsAreListedWithoutUnusedLabels) {
  Serve();
  const v1::Object web = Web();
  v1::Object labelled = web;
  (*labelled.mutable_service()->mutable_metadata()->mutable_labels())["team"] = "shop";
  Apply({labelled});
  const std::vector<v1::Object> listed = List(v1::KIND_SERVICE);
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].SerializeAsString(), web.SerializeAsString());
  EXPECT_TRUE(List(v1::KIND_NODE).empty());
}

TEST_F(ControlTest, WithManifestsNoClientMayChangeTheState) {
  Serve("/etc/svcmap/manifests");
  v1::ApplyRequest request;
  *request.add_objects() = Web();
  v1::Ack ack;
  const grpc::Status status = TryApply(request, ack);
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("/etc/svcmap/manifests"));
  Stream stream(*stub_);
  EXPECT_EQ(stream.Finish().error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(GetStatus().manifests_path(), "/etc/svcmap/manifests");
}

TEST_F(ControlTest, AMessageWithTooManyObjectsIsRejected) {
  Serve();
  v1::ApplyRequest request;
  for (int i = 0; i < 65537; ++i) request.add_objects()->mutable_service();
  v1::Ack ack;
  const grpc::Status status = TryApply(request, ack);
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("message contains 65537 objects"));
  Stream stream(*stub_, "test");
  ASSERT_TRUE(stream.Send(1, std::vector<v1::Change>(65537)));
  EXPECT_EQ(stream.Finish().error_code(), grpc::RESOURCE_EXHAUSTED);
}

TEST_F(ControlTest, SeveralVersionsOfAnObjectInARequestAreAWarning) {
  Serve();
  const v1::Ack ack = Apply({Web("shop/web", "10.96.0.10"), Web("shop/dns", "10.96.0.11"),
                             Web("shop/web", "10.96.0.12")});
  ASSERT_EQ(ack.results_size(), 1);
  EXPECT_EQ(ack.results(0).code(), v1::DUPLICATE);
  EXPECT_EQ(ack.results(0).severity(), v1::WARNING);
  EXPECT_EQ(ack.results(0).message(),
            "Service shop/web: Duplicate value: the request contains 2 versions of the object; the "
            "last version is used");
}

}  // namespace
}  // namespace svcmap::api
