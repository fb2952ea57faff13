// Tests of unary calls, the standard gRPC services, and requests that must not harm the server.
#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <grpcpp/impl/codegen/client_unary_call.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <random>

#include "nft/base/unique_fd.h"
#include "tests/grpc/server_fixture.h"

namespace svcmap::api {
namespace {

using svcmap::testing::AService;

using ControlTest = ServerTest;

TEST_F(ControlTest, SocketIsForItsOwnerOnly) {
  Serve();
  struct stat found = {};
  ASSERT_EQ(stat(socket().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
}

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

TEST_F(ControlTest, SecondServerOnTheSameSocketIsRejectedAndTheFirstGoesOn) {
  Serve();
  const auto second = Server::Start({.listen = {"unix://" + socket()}}, limits_, *service_);
  EXPECT_EQ(second.status().message(), "another process listens on " + socket());
  EXPECT_EQ(Apply({Web()}).outcome(), v1::COMMITTED);
}

TEST_F(ControlTest, TcpNeedsCertificatesOrTheWordInsecure) {
  Serve();
  const auto server = Server::Start({.listen = {"tcp://127.0.0.1:7777"}}, limits_, *service_);
  EXPECT_EQ(server.status().message(),
            "--tls-cert, --tls-key, --tls-client-ca: Required value: --listen tcp://127.0.0.1:7777 "
            "needs TLS; use --insecure to allow read-only access without TLS");
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

TEST_F(ControlTest, ApplyRejectsOnlyTheObjectsThatAreNotUtf8) {
  const google::protobuf::LogSilencer silencer;
  Serve();
  v1::Object noted = Web();
  (*noted.mutable_service()->mutable_metadata()->mutable_annotations())["note"] = "\xff";
  const v1::Object bad_port = AService("shop/bad").ClusterIp("10.96.0.77").Port("\xff\xfe", 80);
  const v1::Ack ack = Apply({noted, bad_port});
  EXPECT_EQ(ack.outcome(), v1::COMMITTED);
  ASSERT_EQ(ack.results_size(), 1);
  EXPECT_EQ(ack.results(0).code(), v1::UNREADABLE);
  EXPECT_EQ(ack.results(0).name(), "bad");
  EXPECT_EQ(ack.results(0).field(), "spec.ports[0].name");
  EXPECT_EQ(List(v1::KIND_SERVICE).size(), 1u);
}

TEST_F(ControlTest, DumpSpeaksNft) {
  Serve();
  Apply({Web()});
  for (const auto what : {v1::DumpRequest::DESIRED, v1::DumpRequest::APPLIED}) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::DumpRequest request;
    request.set_what(what);
    const auto reader = stub_->Dump(&context, request);
    std::string text;
    for (v1::DumpResponse response; reader->Read(&response);) text += response.text();
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_THAT(text, ::testing::HasSubstr(
                          "add element ip svcmap no-endpoint-services { 10.96.0.10 . tcp . 80 "
                          "comment \"shop/web:http\" }"));
  }
}

TEST_F(ControlTest, WithManifestsNobodyElseMayChangeTheState) {
  Serve("/etc/svcmap/manifests");
  grpc::ClientContext context;
  SetDeadline(context);
  v1::ApplyRequest request;
  request.set_protocol_version(2);
  *request.add_objects() = Web();
  v1::Ack ack;
  const grpc::Status status = stub_->Apply(&context, request, &ack);
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("/etc/svcmap/manifests"));
  Stream stream(*stub_);
  EXPECT_EQ(stream.Finish().error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(GetStatus().manifests_path(), "/etc/svcmap/manifests");
}

TEST_F(ControlTest, AMessageWithTooManyObjectsIsRejected) {
  Serve();
  grpc::ClientContext context;
  SetDeadline(context);
  v1::ApplyRequest request;
  request.set_protocol_version(2);
  for (int i = 0; i < 65537; ++i) request.add_objects()->mutable_service();
  v1::Ack ack;
  const grpc::Status status = stub_->Apply(&context, request, &ack);
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("65537 objects in a message"));
  Stream stream(*stub_);
  ASSERT_TRUE(stream.Open("test"));
  ASSERT_TRUE(stream.Send(1, std::vector<v1::Change>(65537)));
  EXPECT_EQ(stream.Finish().error_code(), grpc::RESOURCE_EXHAUSTED);
}

TEST_F(ControlTest, StateIsWaitedForUntilSomebodyTellsIt) {
  Serve();
  EXPECT_EQ(GetStatus().state(), v1::WAITING_FOR_STATE);
  Apply({Web()});
  EXPECT_EQ(GetStatus().state(), v1::SERVING);
}

TEST_F(ControlTest, MessageOverTheLimitIsRejectedAndTheNextOneTaken) {
  limits_.max_batch_bytes = 100'000;
  Serve();
  grpc::ClientContext context;
  SetDeadline(context);
  v1::ApplyRequest request;
  request.set_protocol_version(2);
  for (int i = 0; i < 5000; ++i) *request.add_objects() = Web();
  v1::Ack ack;
  EXPECT_EQ(stub_->Apply(&context, request, &ack).error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Apply({Web()}).outcome(), v1::COMMITTED);
}

TEST_F(ControlTest, NonsenseBytesHurtNobody) {
  Serve();
  std::mt19937 random(7);
  for (int i = 0; i < 50; ++i) {
    const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, socket().c_str(), sizeof(address.sun_path) - 1);
    ASSERT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    std::string bytes = i % 2 == 0 ? "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" : "";
    for (int b = 0; b < 2000; ++b) bytes += static_cast<char>(random());
    send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  EXPECT_EQ(Apply({Web()}).outcome(), v1::COMMITTED);
}

TEST_F(ControlTest, HealthAndReflectionAnswer) {
  Serve();
  for (const char* method : {"/grpc.health.v1.Health/Check",
                             "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
    grpc::ClientContext context;
    SetDeadline(context);
    grpc::CompletionQueue queue;
    grpc::internal::RpcMethod rpc(method, grpc::internal::RpcMethod::NORMAL_RPC);
    v1::GetStatusRequest
        // An empty message is also a valid health request, which requests the health of the whole
        // server.
        empty;
    v1::GetStatusRequest answer;
    const grpc::Status status =
        grpc::internal::BlockingUnaryCall<v1::GetStatusRequest, v1::GetStatusRequest>(
            channel_.get(), rpc, &context, empty, &answer);
    EXPECT_NE(status.error_code(), grpc::UNIMPLEMENTED) << method << status.error_message();
  }
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
            "last one is used");
}

}  // namespace
}  // namespace svcmap::api
