#include "proxy/conntrack/udp_book.h"

#include <gtest/gtest.h>

#include "tests/unit/proxy/flow_text.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using Names = std::vector<std::string>;

UdpPort Dns(const Names& destinations, const Names& endpoints, std::string name = "dns") {
  UdpPort port{.name = std::move(name), .endpoints = Endpoints(endpoints)};
  for (const std::string& destination : destinations) {
    port.destinations.push_back(End(destination));
  }
  return port;
}

class UdpBookTest : public ::testing::Test {
 protected:
  // Runs a cleanup round with the given tracked flows. The result is true for each stale flow.
  std::vector<bool> Round(const std::vector<nft::Flow>& tracked) {
    UdpBook::Round round = book_.Take();
    StaleFlows flows = round.MakeStaleFlows();
    std::vector<bool> stale;
    for (const nft::Flow& flow : tracked) stale.push_back(flows.IsStale(flow));
    book_.Finish(round, flows);
    return stale;
  }
  void Settled(const std::string& service, const UdpPorts& ports) {
    book_.Update(service, ports);
    Round({});
    EXPECT_FALSE(book_.due());
  }

  UdpBook book_;
};

TEST_F(UdpBookTest, S237ServicesWithoutUdpAreNeverKept) {
  book_.Update("ns/web", {});
  book_.Update("ns/slices-only", {Dns({}, {"10.0.0.1:53"})});
  EXPECT_FALSE(book_.due());
  EXPECT_EQ(book_.services(), 0u);
}

TEST_F(UdpBookTest, S237WhichChangesMakeAServiceDue) {
  const UdpPorts before = {Dns({"10.96.0.1:53"}, {"10.0.0.1:53", "10.0.0.2:53"})};
  const struct {
    const char* name;
    UdpPorts after;
    bool due;
  } cases[] = {
      {"nothing", before, false},
      {"an endpoint joins",
       {Dns({"10.96.0.1:53"}, {"10.0.0.1:53", "10.0.0.2:53", "10.0.0.3:53"})},
       false},
      {"an endpoint goes", {Dns({"10.96.0.1:53"}, {"10.0.0.1:53"})}, true},
      {"an endpoint is replaced", {Dns({"10.96.0.1:53"}, {"10.0.0.1:53", "10.0.0.3:53"})}, true},
      {"no endpoint is left (S-239)", {Dns({"10.96.0.1:53"}, {})}, true},
      {"an address comes (Service only)",
       {Dns({"10.96.0.1:53", "192.0.2.1:53"}, {"10.0.0.1:53", "10.0.0.2:53"})},
       true},
      {"an address goes (Service only)", {Dns({}, {"10.0.0.1:53", "10.0.0.2:53"})}, true},
      {"everything goes", {}, true},
  };
  for (const auto& c : cases) {
    book_ = UdpBook();
    Settled("ns/dns", before);
    book_.Update("ns/dns", c.after);
    EXPECT_EQ(book_.due(), c.due) << c.name;
  }
}

TEST_F(UdpBookTest, SinglePortsOfOtherServicesAreNoPartOfARange) {
  Settled("ns/dns", {Dns({"10.96.0.1:53", "10.96.0.2:53"}, {"10.0.0.2:53"})});
  UdpPort range = Dns({}, {"10.0.0.1:1"});
  range.destinations.emplace_back(End("10.96.0.1:1"), 65535);
  Settled("ns/ranged", {range});
  range.endpoints = Endpoints({"10.0.0.9:1"});
  book_.Update("ns/ranged", {range});
  EXPECT_TRUE(book_.due());
  const std::vector<bool> first_kept = {false, true};
  EXPECT_EQ(Round({Flow("10.96.0.1:53", "10.0.0.2:53"), Flow("10.96.0.1:54", "10.0.0.1:54")}),
            first_kept);
  // A former range keeps the flows of its endpoints.
  book_.Update("ns/ranged", {Dns({}, {"10.0.0.9:1"})});
  EXPECT_EQ(Round({Flow("10.96.0.1:54", "10.0.0.9:54"), Flow("10.96.0.1:55", "10.0.0.1:55")}),
            first_kept);
}

TEST_F(UdpBookTest, S237TheFirstEndpointMakesAServiceDue) {
  Settled("ns/dns", {Dns({"10.96.0.1:53"}, {})});
  book_.Update("ns/dns", {Dns({"10.96.0.1:53"}, {"10.0.0.1:53"})});
  EXPECT_TRUE(book_.due());
}

TEST_F(UdpBookTest, ARoundTakesAllThatIsDueAsItIsThen) {
  book_.Update("ns/a", {Dns({"10.96.0.1:53"}, {"10.0.0.1:53"})});
  book_.Update("ns/b", {Dns({"10.96.0.2:53"}, {"10.0.0.2:53"})});
  book_.Update("ns/a", {Dns({"10.96.0.1:53"}, {"10.0.0.3:53"})});
  EXPECT_EQ(Round({Flow("10.96.0.1:53", "10.0.0.1:53"), Flow("10.96.0.1:53", "10.0.0.3:53"),
                   Flow("10.96.0.2:53", "10.0.0.2:53"), Flow("10.96.0.2:53", "10.0.0.1:53")}),
            (std::vector{true, false, false, true}));
  EXPECT_FALSE(book_.due());
}

TEST_F(UdpBookTest, ARoundThatFailedIsDueAgain) {
  book_.Update("ns/dns", {Dns({"10.96.0.1:53"}, {})});
  const UdpBook::Round round = book_.Take();
  EXPECT_FALSE(book_.due());
  book_.Return(round);
  EXPECT_TRUE(book_.due());
}

// The Service is deleted first, then its EndpointSlices and pods. The cleaner deletes the flows
// when the endpoints disappear.
TEST_F(UdpBookTest, S237FlowsOfADeletedServiceGoWithTheirEndpoints) {
  const nft::Flow flow = Flow("10.96.0.1:53", "10.0.0.1:53");
  Settled("ns/dns", {Dns({"10.96.0.1:53"}, {"10.0.0.1:53"})});
  book_.Update("ns/dns", {Dns({}, {"10.0.0.1:53"})});
  EXPECT_EQ(Round({flow}), std::vector{false});
  EXPECT_EQ(book_.services(), 1u);
  book_.Update("ns/dns", {});
  EXPECT_EQ(Round({flow}), std::vector{true});
  EXPECT_EQ(book_.services(), 0u);
}

TEST_F(UdpBookTest, S240FlowsToAFormerAddressGoWithTheirEndpoint) {
  const nft::Flow flow = Flow("192.0.2.1:53", "10.0.0.1:53");
  Settled("ns/dns", {Dns({"10.96.0.1:53", "192.0.2.1:53"}, {"10.0.0.1:53", "10.0.0.2:53"})});
  book_.Update("ns/dns", {Dns({"10.96.0.1:53"}, {"10.0.0.1:53", "10.0.0.2:53"})});
  EXPECT_EQ(Round({flow}), std::vector{false});
  book_.Update("ns/dns", {Dns({"10.96.0.1:53"}, {"10.0.0.2:53"})});
  EXPECT_EQ(Round({flow}), std::vector{true});
}

TEST_F(UdpBookTest, AFormerAddressWithoutFlowsIsForgotten) {
  Settled("ns/dns", {Dns({"10.96.0.1:53", "192.0.2.1:53"}, {"10.0.0.1:53"})});
  Settled("ns/dns", {Dns({"10.96.0.1:53"}, {"10.0.0.1:53"})});
  book_.Update("ns/dns", {Dns({"10.96.0.1:53"}, {"10.0.0.2:53"})});
  EXPECT_EQ(Round({Flow("192.0.2.1:53", "10.0.0.1:53")}), std::vector{false});
}

TEST_F(UdpBookTest, AFormerAddressIsNotForgottenByARoundThatDidNotKnowIt) {
  book_.Update("ns/dns", {Dns({"10.96.0.1:53", "192.0.2.1:53"}, {"10.0.0.1:53"})});
  UdpBook::Round round = book_.Take();
  const StaleFlows flows = round.MakeStaleFlows();
  book_.Update("ns/dns", {Dns({"10.96.0.1:53"}, {})});
  book_.Finish(round, flows);
  EXPECT_TRUE(book_.due());
  EXPECT_EQ(Round({Flow("192.0.2.1:53", "10.0.0.1:53")}), std::vector{true});
}

// After an address moves to another Service, the previous Service must not cause the deletion of
// the current Service's flows.
TEST_F(UdpBookTest, S240AFormerAddressThatIsAnothersIsTheOthersBusiness) {
  const nft::Flow first = Flow("192.0.2.1:53", "10.0.0.1:53");
  const nft::Flow second = Flow("192.0.2.1:53", "10.0.0.2:53");
  Settled("ns/a", {Dns({"192.0.2.1:53"}, {"10.0.0.1:53"})});
  book_.Update("ns/a", {Dns({}, {"10.0.0.1:53"})});
  EXPECT_EQ(Round({first}), std::vector{false});
  book_.Update("ns/b", {Dns({"192.0.2.1:53"}, {"10.0.0.2:53"})});
  EXPECT_EQ(Round({first, second}), (std::vector{true, false}));
  book_.Update("ns/a", {});
  EXPECT_EQ(Round({second}), std::vector{false});
}

TEST_F(UdpBookTest, S240ARenamedPortKeepsItsFlows) {
  Settled("ns/dns", {Dns({"10.96.0.1:53"}, {"10.0.0.1:53"}, "old")});
  book_.Update("ns/dns", {Dns({"10.96.0.1:53"}, {"10.0.0.1:53"}, "new")});
  EXPECT_EQ(Round({Flow("10.96.0.1:53", "10.0.0.1:53"), Flow("10.96.0.1:53", "10.0.0.2:53")}),
            (std::vector{false, true}));
}

}  // namespace
}  // namespace svcmap::proxy
