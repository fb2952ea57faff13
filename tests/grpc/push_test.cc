// Tests of a controller's stream (see proto/README.md).
#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>

#include <thread>

#include "api/convert/error_info.h"
#include "tests/grpc/server_fixture.h"

namespace svcmap::api {
namespace {

using svcmap::testing::AService;
using svcmap::testing::ASlice;
using svcmap::testing::Upsert;

v1::Object WebSlice(const std::string& ip) {
  return ASlice("shop/web").Endpoint(ip).Port("http", 8080);
}

class PushTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    Serve();
  }
};

TEST_F(PushTest, ObjectsThatAreNotUtf8AreRejectedAndTheOthersGoOn) {
  const google::protobuf::LogSilencer silencer;
  Stream stream(*stub_, "test");
  v1::Object bad_port = AService("shop/bad").ClusterIp("10.96.0.77").Port("\xff\xfe", 80);
  v1::Object nameless = AService("shop/\xff").ClusterIp("10.96.0.78").Port("http", 80);
  v1::Object noted = Web();
  (*noted.mutable_service()->mutable_metadata()->mutable_annotations())["note"] = "\xff";
  ASSERT_TRUE(stream.Send(1, {Upsert(bad_port), Upsert(nameless),
                              Upsert(AService("shop/").ClusterIp("10.96.0.79").Port("http", 80)),
                              Upsert(noted), Upsert(WebSlice("10.1.0.1"))}));
  const v1::Ack ack = stream.ReadAck();
  EXPECT_EQ(ack.outcome(), v1::COMMITTED);
  ASSERT_EQ(ack.results_size(), 3);
  EXPECT_EQ(ack.results(0).code(), v1::UNREADABLE);
  EXPECT_EQ(ack.results(0).name(), "bad");
  EXPECT_EQ(ack.results(0).field(), "spec.ports[0].name");
  EXPECT_EQ(ack.results(1).code(), v1::UNREADABLE);
  EXPECT_EQ(ack.results(1).field(), "metadata.name");
  EXPECT_THAT(ack.results(1).message(), ::testing::HasSubstr("; object at index 1 in the request"));
  EXPECT_THAT(ack.results(2).message(),
              ::testing::HasSubstr(
                  "metadata.name: Required value: object at index 2 in the request; the prev"));
  EXPECT_EQ(Elements(proxy::kServiceIps), 1u);
}

TEST_F(PushTest, FindingsOfObjectsThatASnapshotDoesNotNameAreForgotten) {
  v1::Object bad = Web("a/bad");
  bad.mutable_service()->mutable_spec()->set_cluster_ip("bogus");
  Apply({bad});
  EXPECT_EQ(GetStatus().refused_objects(), 1u);
  Stream stream(*stub_, "test");
  ASSERT_TRUE(stream.BeginSnapshot());
  ASSERT_TRUE(stream.EndSnapshot(1));
  stream.ReadAck();
  EXPECT_EQ(GetStatus().refused_objects(), 0u);
}

TEST_F(PushTest, UnknownProtocolVersionIsRejected) {
  Stream stream(*stub_);
  v1::PushRequest request;
  request.mutable_open()->set_name("test");
  request.mutable_open()->set_protocol_version(1);
  stream.stream->Write(request);
  const grpc::Status status = stream.Finish();
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(),
            "open.protocol_version 1 is not supported; supported versions: 2");
  const ErrorInfo info = ReadErrorDetails(status.error_details());
  EXPECT_EQ(info.reason, v1::UNSUPPORTED_PROTOCOL_VERSION);
  EXPECT_EQ(info.metadata.at("field"), "open.protocol_version");
  EXPECT_EQ(info.metadata.at("supported"), "2");
}

// A new stream may replace a stream just before the agent acknowledges a batch of the replaced
// stream.
TEST_F(PushTest, OlderStreamLearnsTheNameInTheMiddleOfItsBatches) {
  for (int round = 0; round < 20; ++round) {
    // Batches for the closed stream count towards the frame limit of their connection, so each
    // older stream has a connection of its own.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto stub = v1::Control::NewStub(grpc::CreateCustomChannel(
        "unix:" + socket(), grpc::InsecureChannelCredentials(), arguments));
    Stream older(*stub, "first");
    std::thread batches([&] {
      for (uint64_t number = 1; older.Send(number, {});) ++number;
    });
    Stream newer(*stub_);
    const bool opened = newer.Open("second");
    batches.join();
    ASSERT_TRUE(opened) << newer.Finish().error_message() << " in round " << round;
    const grpc::Status status = older.Finish();
    ASSERT_EQ(status.error_message(), "replaced by second") << "in round " << round;
    const ErrorInfo info = ReadErrorDetails(status.error_details());
    EXPECT_EQ(info.reason, v1::REPLACED);
    EXPECT_EQ(info.metadata.at("name"), "second");
  }
}

TEST_F(PushTest, KernelThatRejectsIsAckedFailedAndCaughtUpWithLater) {
  Stream stream(*stub_, "test");
  rejecting_ = true;
  ASSERT_TRUE(stream.Send(1, {Upsert(Web())}));
  const v1::Ack failed = stream.ReadAck();
  EXPECT_EQ(failed.outcome(), v1::FAILED);
  EXPECT_NE(failed.error(), "");
  EXPECT_EQ(GetStatus().state(), v1::RETRYING);
  EXPECT_EQ(GetStatus().stages_size(), static_cast<int>(proxy::kStages));
  rejecting_ = false;
  ASSERT_TRUE(stream.Send(2, {}));
  EXPECT_EQ(stream.ReadAck().outcome(), v1::COMMITTED);
  EXPECT_EQ(Elements(proxy::kNoEndpointServices), 1u);
}

}  // namespace
}  // namespace svcmap::api
