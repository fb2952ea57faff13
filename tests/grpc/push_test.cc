// Tests of a controller's stream (see proto/README.md).
#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>

#include <optional>
#include <thread>

#include "api/convert/error_info.h"
#include "api/grpc/status.h"
#include "tests/grpc/server_fixture.h"
#include "tests/support/encoded.h"
#include "tests/support/log_capture.h"
#include "tests/support/status_matchers.h"

namespace svcmap::api {
namespace {

using svcmap::testing::ADelta;
using svcmap::testing::AService;
using svcmap::testing::ASlice;
using svcmap::testing::Removal;
using svcmap::testing::ServiceRef;
using svcmap::testing::SliceRef;
using svcmap::testing::Upsert;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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

// Tests of two controllers, one of which uses an outdated epoch.
using FencingTest = PushTest;

// The agent discards batches that are in flight when a controller with a higher epoch takes over.
TEST_F(FencingTest, NothingOfADeposedControllerIsTakenAnyMore) {
  ActiveSession holder;
  int ended = 0;
  const auto end = [&](const grpc::Status&) { ++ended; };
  ASSERT_TRUE(holder.Take(1, {.name = "a", .epoch = 1}, end).ok());
  EXPECT_TRUE(holder.Enter(1).owns_lock());
  ASSERT_TRUE(holder.Take(2, {.name = "b", .epoch = 2}, end).ok());
  EXPECT_EQ(ended, 1);
  int converted = 0;
  const absl::Status status = intake_->Submit(
      {}, 1,
      [&](int) {
        ++converted;
        return ConvertChange(testing::Encoded(Upsert(Web())), intake_->context());
      },
      [](const proxy::BatchResult&) { FAIL() << "taken"; }, {}, [&] { return holder.Enter(1); });
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(converted, 1);
  EXPECT_THAT(List(v1::KIND_SERVICE), SizeIs(0));
}

TEST_F(FencingTest, TheLeaderIsSavedBeforeItCounts) {
  std::vector<proxy::Leader> saved;
  ActiveSession holder({.epoch = 5, .name = "a"},
                       [&](const proxy::Leader& leader) { saved.push_back(leader); });
  const auto end = [](const grpc::Status&) {};
  EXPECT_FALSE(holder.Take(1, {.name = "b", .epoch = 4}, end).ok());
  EXPECT_TRUE(holder.Take(2, {.name = "a", .epoch = 5}, end).ok());
  EXPECT_THAT(saved, SizeIs(0));
  EXPECT_TRUE(holder.Take(3, {.name = "b", .instance = "x", .epoch = 6}, end).ok());
  ASSERT_THAT(saved, SizeIs(1));
  EXPECT_EQ(saved[0], (proxy::Leader{6, "b", "x"}));
}

// Tests of controllers that reconnect with a state token.
class ResumeTest : public PushTest {
 protected:
  // Sends a snapshot and returns the last received token.
  static std::string Snapshot(Stream& stream, const std::vector<v1::Change>& changes) {
    EXPECT_TRUE(stream.BeginSnapshot() && stream.Send(1, changes) && stream.EndSnapshot(2));
    EXPECT_THAT(stream.ReadAck().state_token(), IsEmpty());
    return stream.ReadAck().state_token();
  }
};

TEST_F(ResumeTest, ATokenStandsForTheObjectsHoweverTheyCame) {
  Stream stream(*stub_, "a");
  const std::string nothing = stream.opened.state_token();
  const std::string one = Snapshot(stream, {Upsert(Web())});
  ASSERT_TRUE(stream.Send(3, {Upsert(Web("shop/api", "10.96.0.11"))}));
  const std::string both = stream.ReadAck().state_token();
  ASSERT_TRUE(stream.Send(4, {svcmap::testing::Removal(ServiceRef("shop/web"))}));
  const std::string other = stream.ReadAck().state_token();
  EXPECT_THAT(one, SizeIs(16));
  EXPECT_NE(one, other);
  EXPECT_NE(one, nothing);
  ASSERT_TRUE(stream.Send(5, {Upsert(Web())}));
  EXPECT_EQ(stream.ReadAck().state_token(), both);
  // A rejected object changes neither the stored objects nor the token.
  ASSERT_TRUE(stream.Send(6, {Upsert(Web("shop/web", "10.96.0.999"))}));
  EXPECT_EQ(stream.ReadAck().state_token(), both);
}

// After another client has changed stored objects, a controller receives no token until its next
// snapshot. With a token, the controller could resume without noticing the other client's changes.
TEST_F(ResumeTest, AfterAChangeOutOfBandThereIsNoTokenUntilTheNextSnapshot) {
  Stream stream(*stub_, "a");
  ASSERT_TRUE(stream.Send(1, {}));
  EXPECT_THAT(stream.ReadAck().state_token(), IsEmpty()) << "it was asked for a snapshot";
  Stream known(*stub_, "a");
  const std::string token = Snapshot(known, {Upsert(Web())});
  EXPECT_EQ(Apply({Web()}).outcome(), v1::UNCHANGED);
  ASSERT_TRUE(known.Send(3, {}));
  EXPECT_EQ(known.ReadAck().state_token(), token) << "nothing was changed";

  Apply({Web("shop/web", "10.96.0.99")});
  ASSERT_TRUE(known.Send(4, {Upsert(Web("shop/api", "10.96.0.11"))}));
  EXPECT_THAT(known.ReadAck().state_token(), IsEmpty());
  ASSERT_TRUE(known.BeginSnapshot() && known.Send(5, {Upsert(Web())}));
  EXPECT_THAT(known.ReadAck().state_token(), IsEmpty());
  Apply({Web("shop/web", "10.96.0.99")});
  ASSERT_TRUE(known.EndSnapshot(6));
  EXPECT_THAT(known.ReadAck().state_token(), IsEmpty()) << "changed while it was sent";
  ASSERT_TRUE(known.BeginSnapshot() && known.Send(7, {Upsert(Web())}) && known.EndSnapshot(8));
  known.ReadAck();
  EXPECT_EQ(known.ReadAck().state_token(), token);
}

// Tests of snapshots whose removals the agent holds, as a controller and svcmapctl see them.
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

// Tests of EndpointDelta messages in a controller's stream.

ADelta Delta() { return ADelta("shop/web-1"); }

v1::Object SliceOf(const std::vector<std::string>& ips) {
  ASlice slice("shop/web");
  for (const std::string& ip : ips) slice.Endpoint(ip);
  return slice.Port("http", 8080);
}

class EndpointDeltaTest : public PushTest {
 protected:
  void SetUp() override {
    PushTest::SetUp();
    stream_ = std::make_unique<Stream>(*stub_);
    ASSERT_TRUE(stream_->Open("test"));
  }
  void TearDown() override {
    stream_.reset();
    PushTest::TearDown();
  }
  v1::Ack Push(const std::vector<v1::Change>& changes) {
    EXPECT_TRUE(stream_->Send(++number_, changes));
    return stream_->ReadAck();
  }
  std::vector<std::string> Addresses() {
    std::vector<std::string> addresses;
    for (const v1::Object& object : List(v1::KIND_ENDPOINT_SLICE)) {
      for (const v1::Endpoint& endpoint : object.endpoint_slice().endpoints()) {
        addresses.push_back(endpoint.addresses(0));
      }
    }
    return addresses;
  }
  size_t Programmed() { return Elements(proxy::kEndpoints); }

  std::unique_ptr<Stream> stream_;
  uint64_t number_ = 0;
};

TEST_F(EndpointDeltaTest, OrderWithinABatchCounts) {
  Push({Upsert(Web())});
  // Deltas after the slice are applied in order.
  Push({Upsert(SliceOf({"10.1.0.1"})), Delta().Put("10.1.0.2"),
        Delta().Remove("10.1.0.2").Put("10.1.0.3")});
  EXPECT_THAT(Addresses(), ElementsAre("10.1.0.1", "10.1.0.3"));
  // A complete slice supersedes earlier deltas in the same batch.
  EXPECT_THAT(Messages(Push({Delta().Put("10.1.0.4"), Upsert(SliceOf({"10.1.0.5"}))})), IsEmpty());
  EXPECT_THAT(Addresses(), ElementsAre("10.1.0.5"));
  EXPECT_THAT(Messages(Push({Delta().Put("10.1.0.6"), Removal(SliceRef("shop/web-1"))})),
              IsEmpty());
  EXPECT_THAT(Addresses(), IsEmpty());
  // The loop deletes the endpoints after the Ack.
  EXPECT_OK(
      svcmap::testing::Eventually("no endpoint is programmed", [&] { return Programmed() == 0; }));
}

TEST_F(EndpointDeltaTest, SliceThatIsNotStoredIsRejectedAndTheRestOfTheBatchGoesOn) {
  Push({Upsert(SliceOf({"10.1.0.1"}))});
  const v1::Ack ack =
      Push({Removal(SliceRef("shop/web-1")), Delta().Put("10.1.0.2"), Upsert(Web())});
  EXPECT_EQ(ack.outcome(), v1::COMMITTED);
  EXPECT_THAT(
      Messages(ack),
      ElementsAre("EndpointSlice shop/web-1 rejected: the EndpointSlice is not stored; send the "
                  "complete object before deltas"));
  EXPECT_EQ(ack.results(0).severity(), v1::REFUSED);
  EXPECT_EQ(List(v1::KIND_SERVICE).size(), 1u);
  EXPECT_EQ(GetStatus().refused_objects(), 1u);
  Push({Upsert(SliceOf({"10.1.0.1"}))});
  EXPECT_EQ(GetStatus().refused_objects(), 0u);
}

// svcmapd does not use removed endpoints, even if it rejects the version of the slice from which
// they are missing.
TEST_F(EndpointDeltaTest, EndpointsThatARejectedSliceDoesNotListGo) {
  const v1::Object valid = SliceOf({"10.1.0.1", "10.1.0.2", "10.1.0.3"});
  const auto without_first = [&] {
    v1::Object object = SliceOf({"10.1.0.2", "10.1.0.3", "10.1.0.4"});
    object.mutable_endpoint_slice()->mutable_endpoints(1)->mutable_conditions()->set_ready(false);
    return object;
  };
  v1::Object invalid = without_first(), too_many = without_first();
  invalid.mutable_endpoint_slice()->mutable_ports(0)->set_name("HTTP");
  for (int i = 0; i < 20'000; ++i) too_many.mutable_endpoint_slice()->add_ports();
  // 20,000 ports times 14 endpoints exceed svcmap's limit.
  v1::Object too_large = without_first();
  for (int i = 1; i < 20'000; ++i) {
    v1::EndpointPort& port = *too_large.mutable_endpoint_slice()->add_ports();
    port.set_name("p" + std::to_string(i));
    port.set_port(1000 + i);
  }
  for (int i = 5; i <= 15; ++i) {
    too_large.mutable_endpoint_slice()->add_endpoints()->add_addresses("10.1.0." +
                                                                       std::to_string(i));
  }
  for (const v1::Object& rejected : {invalid, too_many, too_large}) {
    Push({Upsert(Web()), Upsert(valid)});
    EXPECT_EQ(Programmed(), 3u);
    const v1::Ack ack = Push({Upsert(rejected)});
    ASSERT_EQ(ack.results_size(), 1);
    SCOPED_TRACE(ack.results(0).message());
    EXPECT_EQ(ack.results(0).severity(), v1::REFUSED);
    EXPECT_EQ(ack.outcome(), v1::COMMITTED);
    EXPECT_THAT(Addresses(), ElementsAre("10.1.0.2", "10.1.0.3"));
    EXPECT_EQ(Programmed(), 1u);
    EXPECT_EQ(Push({Upsert(rejected)}).outcome(), v1::UNCHANGED);
    EXPECT_EQ(GetStatus().refused_objects(), 1u);
  }
  // The order within a batch counts.
  EXPECT_EQ(Push({Upsert(invalid), Upsert(valid)}).results_size(), 1);
  EXPECT_EQ(Programmed(), 3u);
  Push({Upsert(valid), Upsert(invalid), Delta().Put("10.1.0.7")});
  EXPECT_THAT(Addresses(), ElementsAre("10.1.0.2", "10.1.0.3", "10.1.0.7"));
}

TEST_F(EndpointDeltaTest, CostFollowsTheMessageAndTheSliceNotTheirProduct) {
  std::vector<std::string> ips;
  for (int i = 0; i < 900; ++i) {
    ips.push_back("10.1." + std::to_string(i / 250) + "." + std::to_string(i % 250 + 1));
  }
  Push({Upsert(Web()), Upsert(SliceOf(ips))});
  // The test would take minutes if svcmapd converted the slice of 900 endpoints for each delta.
  std::vector<v1::Change> changes(60'000, Delta().Put("10.1.9.9"));
  EXPECT_EQ(Push(changes).outcome(), v1::COMMITTED);
  EXPECT_EQ(Addresses().size(), 901u);
}

TEST_F(EndpointDeltaTest, S346_SlicesAndDeltasTellWhenTheyWereCaused) {
  v1::Object slice = SliceOf({"10.1.0.1"});
  auto& annotations = *slice.mutable_endpoint_slice()->mutable_metadata()->mutable_annotations();
  const auto say = [&](const std::string& time) {
    annotations["endpoints.kubernetes.io/last-change-trigger-time"] = time;
  };
  say("2999-01-01T00:00:00.123456789Z");  // The clock of the sender is ahead of the agent's clock.
  Push({Upsert(Web()), Upsert(slice)});
  EXPECT_EQ(GetStatus().programming_latency().count(), 1u);
  for (const char* time :
       {"yesterday",
        "2001-01-01T00:00:00Z"}) {  // An invalid time, and a time before the start of the agent.
    say(time);
    EXPECT_EQ(Push({Upsert(slice)}).outcome(), v1::UNCHANGED);
    EXPECT_EQ(GetStatus().programming_latency().count(), 1u) << time;
  }
  v1::Change delta = Delta().Put("10.1.0.3");
  SetTimestamp(*delta.mutable_endpoint_delta()->mutable_last_change_trigger_time(),
               std::chrono::system_clock::now());
  Push({delta});
  const v1::ProgrammingLatency latency = GetStatus().programming_latency();
  EXPECT_EQ(latency.count(), 2u);
  EXPECT_GT(latency.last().nanos(), 0);
  EXPECT_LT(latency.longest().seconds(), svcmap::testing::kHangLimit.count());
  EXPECT_EQ(Push({Delta().Put("10.1.0.4")}).outcome(), v1::COMMITTED);
  EXPECT_EQ(GetStatus().programming_latency().count(), 2u);
}

}  // namespace
}  // namespace svcmap::api
