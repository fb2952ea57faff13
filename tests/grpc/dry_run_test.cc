// Tests of validate_only: Apply and Remove report their effect and change nothing.
#include <gmock/gmock.h>

#include "tests/grpc/server_fixture.h"

namespace svcmap::api {
namespace {

using svcmap::testing::AService;
using svcmap::testing::ASlice;
using svcmap::testing::ServiceRef;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::Object SliceWith(int endpoints) {
  ASlice slice("shop/web");
  for (int i = 0; i < endpoints; ++i) {
    slice.Endpoint("10.1." + std::to_string(i / 250) + "." + std::to_string(i % 250));
  }
  return slice.Port("http", 8080);
}

std::vector<std::string> Reported(const v1::Ack& ack) {
  std::vector<std::string> lines;
  for (const v1::ElementChange& e : ack.dry_run().elements()) {
    lines.push_back((e.change() == v1::ElementChange::ADDED ? "+ " : "- ") + e.family() + " " +
                    e.set() + " " + e.key() + (e.data().empty() ? "" : " : " + e.data()) +
                    (e.comment().empty() ? "" : " \"" + e.comment() + "\""));
  }
  return lines;
}

class DryRunTest : public ServerTest {
 protected:
  v1::Ack Try(const testing::Objects& objects) { return Apply(objects, /*validate_only=*/true); }
  v1::Ack TryRemoval(const std::vector<v1::ObjectRef>& refs) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::RemoveRequest request;
    request.set_protocol_version(2);
    for (const v1::ObjectRef& ref : refs) *request.add_objects() = ref;
    request.set_validate_only(true);
    v1::Ack ack;
    const grpc::Status status = stub_->Remove(&context, request, &ack);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return ack;
  }
  // Returns the state token of all stored objects.
  proxy::StateToken Token() {
    proxy::StateToken token = {};
    EXPECT_TRUE(loop_->Call([&](proxy::Reconciler& r) { token = r.store().token(); }));
    return token;
  }
  // Returns the status without fields that change over time.
  std::string Seen() {
    v1::GetStatusResponse status = GetStatus();
    status.clear_started();
    // pending_since stays set until the loop iteration after the response.
    status.clear_pending_since();
    std::string seen = status.SerializeAsString();
    for (const v1::Kind kind : {v1::KIND_SERVICE, v1::KIND_ENDPOINT_SLICE, v1::KIND_NODE}) {
      for (const v1::Object& object : List(kind)) seen += object.SerializeAsString();
    }
    return seen;
  }
};

TEST_F(DryRunTest, TellsElementsAndChangesNothing) {
  Serve();
  const v1::Ack real = Apply({Web(), SliceWith(1)});
  const proxy::StateToken token = Token();
  const std::string before = Seen();
  const v1::Ack ack = Try({SliceWith(2)});
  EXPECT_EQ(ack.outcome(), v1::WOULD_CHANGE);
  EXPECT_EQ(ack.revision(), real.revision());
  EXPECT_EQ(ack.state_token(), "");
  EXPECT_FALSE(ack.has_commit_duration());
  EXPECT_THAT(Reported(ack),
              ElementsAre("- IPv4 service-ips 10.96.0.10 . tcp . 80",
                          "+ IPv4 endpoints 0x1 . 1 : 10.1.0.1 . 8080",
                          "+ IPv4 service-ips 10.96.0.10 . tcp . 80 : 2.0.0.1 \"shop/web:http\""));
  EXPECT_EQ(ack.dry_run().deleted(), 1u);
  EXPECT_EQ(ack.dry_run().added(), 2u);
  EXPECT_FALSE(ack.dry_run().rewrites_tables());
  EXPECT_EQ(Seen(), before);
  // The dry run has changed neither the stored objects nor the state token.
  const v1::Ack again = Apply({Web(), SliceWith(1)});
  EXPECT_EQ(again.outcome(), v1::UNCHANGED);
  EXPECT_EQ(Token(), token);
}

TEST_F(DryRunTest, NothingToChangeIsUnchanged) {
  Serve();
  Apply({Web()});
  for (const v1::Ack& ack : {Try({Web()}), TryRemoval({ServiceRef("shop/nothing")}), Try({})}) {
    EXPECT_EQ(ack.outcome(), v1::UNCHANGED);
    EXPECT_FALSE(ack.has_dry_run());
  }
}

TEST_F(DryRunTest, RemovalIsReported) {
  Serve();
  Apply({Web()});
  EXPECT_THAT(Reported(TryRemoval({ServiceRef("shop/web")})),
              ElementsAre("- IPv4 no-endpoint-services 10.96.0.10 . tcp . 80",
                          "- IPv4 cluster-ips 10.96.0.10"));
  EXPECT_EQ(List(v1::KIND_SERVICE).size(), 1u);
}

// A dry run reports invalid objects, exceeded limits and conflicts, but stores no findings.
TEST_F(DryRunTest, S16_ResultsAreThoseOfTheRealCall) {
  StartLoop({.objects = 3});
  Serve();
  Apply({Web()});
  const testing::Objects objects = {
      AService("shop/bad").ClusterIp("10.96.0.11").Port("http", 70000),
      AService("shop/x-same").ClusterIp("10.96.0.10").Port("http", 80),
      AService("shop/y-odd").ClusterIp("10.96.0.13").ExternalIp("relay.example").Port("", 25),
      AService("shop/z-over").ClusterIp("10.96.0.14").Port("http", 80)};
  const v1::Ack reported = Try(objects);
  const v1::GetStatusResponse status = GetStatus();
  for (const v1::ObjectResult& finding : status.findings()) {
    EXPECT_EQ(finding.code(), v1::NODE_UNKNOWN) << finding.message();
  }
  EXPECT_EQ(status.refused_objects(), 0u);
  EXPECT_EQ(List(v1::KIND_SERVICE).size(), 1u);
  EXPECT_THAT(Messages(reported),
              ElementsAre(HasSubstr("70000: must be between 1 and 65535"),
                          HasSubstr("\"relay.example\": must be a valid IP address"),
                          HasSubstr("already stores --max-objects 3"),
                          HasSubstr("already used by Service shop/web")));
  EXPECT_EQ(Messages(Apply(objects)), Messages(reported));
}

TEST_F(DryRunTest, TheListIsBoundedAndTheCountsAreTrue) {
  Serve();
  Apply({Web()});
  testing::Objects slices;
  for (int i = 0; i < 12; ++i) {
    ASlice slice("shop/web");
    slice.Named("web-" + std::to_string(i)).Port("http", 8080);
    for (int n = 0; n < 1000; ++n) {
      slice.Endpoint("10." + std::to_string(i + 1) + "." + std::to_string(n / 250) + "." +
                     std::to_string(n % 250));
    }
    slices.push_back(slice);
  }
  const v1::Ack ack = Try(slices);
  EXPECT_EQ(ack.dry_run().elements_size(), 10'000);
  EXPECT_EQ(ack.dry_run().deleted(), 1u);
  EXPECT_EQ(ack.dry_run().added(), 12'001u);
  EXPECT_FALSE(ack.dry_run().rewrites_tables());  // The map has room for 196,608 endpoints.
  EXPECT_LT(ack.ByteSizeLong(), 2'000'000u);
}

}  // namespace
}  // namespace svcmap::api
