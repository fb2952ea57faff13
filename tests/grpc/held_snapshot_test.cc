// Tests of snapshots whose removals the agent holds, as a controller and svcmapctl see them.
#include <gmock/gmock.h>

#include <optional>

#include "tests/grpc/server_fixture.h"
#include "tests/support/log_capture.h"

namespace svcmap::api {
namespace {

using svcmap::testing::Upsert;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class HeldSnapshotTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    loop_->Stop();
    StartLoop({}, /*hold_removals=*/50);
    Serve();
    std::vector<v1::Change> changes = {Upsert(testing::ANode("n1"))};
    for (int i = 0; i < 20; ++i) {
      changes.push_back(Upsert(Web("shop/s" + std::to_string(i), "10.96.1." + std::to_string(i))));
    }
    stream_.emplace(*stub_);
    ASSERT_TRUE(stream_->Open("example"));
    ASSERT_TRUE(stream_->BeginSnapshot() && stream_->Send(1, changes) && stream_->EndSnapshot(2));
    stream_->ReadAck();
    stream_->ReadAck();
  }
  void TearDown() override {
    stream_.reset();
    ServerTest::TearDown();
  }

  v1::Ack EmptySnapshot(uint64_t number) {
    EXPECT_TRUE(stream_->BeginSnapshot() && stream_->EndSnapshot(number));
    return stream_->ReadAck();
  }

  grpc::Status AcceptSnapshot(v1::Ack& ack, uint32_t protocol_version = 2) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::AcceptSnapshotRequest request;
    request.set_protocol_version(protocol_version);
    return stub_->AcceptSnapshot(&context, request, &ack);
  }

  std::optional<Stream> stream_;
};

TEST_F(HeldSnapshotTest, TheAckTheStatusAndTheLogNameTheLoss) {
  const testing::LogCapture log;
  const v1::Ack ack = EmptySnapshot(3);
  EXPECT_EQ(ack.outcome(), v1::HELD);
  EXPECT_EQ(ack.held(), "20 of 20 Services");
  EXPECT_THAT(ack.state_token(), IsEmpty());
  EXPECT_THAT(log.Text(), HasSubstr("removals of a snapshot held, stored objects and rules stay in "
                                    "effect until \"svcmapctl accept-snapshot\" client=\"uid 0\" "
                                    "name=example loss=\"20 of 20 Services\""));
  AwaitTurn();
  const v1::GetStatusResponse status = GetStatus();
  EXPECT_EQ(status.held_snapshot().loss(), "20 of 20 Services");
  ASSERT_THAT(status.findings(), SizeIs(1));
  EXPECT_EQ(status.findings(0).code(), v1::SNAPSHOT_HELD);
  EXPECT_THAT(status.findings(0).message(), HasSubstr("would remove 20 of 20 Services; "));
  EXPECT_THAT(List(v1::KIND_SERVICE), SizeIs(20));
}

TEST_F(HeldSnapshotTest, AcceptSnapshotRemovesTheObjects) {
  v1::Ack ack;
  const grpc::Status none = AcceptSnapshot(ack);
  EXPECT_EQ(none.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(none.error_message(), "the agent holds no snapshot");
  EmptySnapshot(3);
  EXPECT_EQ(AcceptSnapshot(ack, 1).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  AwaitTurn();
  ASSERT_TRUE(AcceptSnapshot(ack).ok());
  EXPECT_EQ(ack.outcome(), v1::COMMITTED);
  EXPECT_THAT(List(v1::KIND_SERVICE), IsEmpty());
  EXPECT_FALSE(GetStatus().has_held_snapshot());
}

// A node without its Node object is not healthy, although its state is "serving".
TEST_F(ServerTest, AMissingNodeObjectIsAFinding) {
  Serve();
  auto web = Web();
  web.mutable_service()->mutable_spec()->add_external_ips("relay.example");
  Apply({web});
  AwaitTurn();
  const v1::GetStatusResponse status = GetStatus();
  EXPECT_EQ(status.state(), v1::SERVING);
  // Precedes findings about objects, because svcmapctl shows only the first findings.
  ASSERT_THAT(status.findings(), SizeIs(2));
  EXPECT_EQ(status.findings(0).code(), v1::NODE_UNKNOWN);
  EXPECT_EQ(status.findings(0).name(), "n1");
  EXPECT_THAT(status.findings(0).message(),
              HasSubstr("Node n1 is not stored: /healthz returns 503, "));
  Apply({testing::ANode("n1")});
  AwaitTurn();
  EXPECT_THAT(GetStatus().findings(), SizeIs(1));
}

}  // namespace
}  // namespace svcmap::api
