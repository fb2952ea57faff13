// Tests of EndpointDelta messages in a controller's stream.
#include <gmock/gmock.h>

#include "api/grpc/status.h"
#include "tests/grpc/server_fixture.h"
#include "tests/support/status_matchers.h"

namespace svcmap::api {
namespace {

using svcmap::testing::ADelta;
using svcmap::testing::ASlice;
using svcmap::testing::Removal;
using svcmap::testing::SliceRef;
using svcmap::testing::Upsert;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

ADelta Delta() { return ADelta("shop/web-1"); }

v1::Object SliceOf(const std::vector<std::string>& ips) {
  ASlice slice("shop/web");
  for (const std::string& ip : ips) slice.Endpoint(ip);
  return slice.Port("http", 8080);
}

class EndpointDeltaTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    Serve();
    stream_ = std::make_unique<Stream>(*stub_);
    ASSERT_TRUE(stream_->Open("test"));
  }
  void TearDown() override {
    stream_.reset();
    ServerTest::TearDown();
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
