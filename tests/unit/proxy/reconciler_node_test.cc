// Tests that a change of a node property rewrites only the Services that depend on the property.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/proxy/reconciler_world.h"

namespace svcmap::proxy::test {
namespace {

using ::testing::ElementsAre;

class ReconcilerNodeTest : public ReconcilerTest {
 protected:
  // Returns the operations of the last transaction.
  Lines Sent() const { return sent_.empty() ? Lines() : Operations(sent_.back()); }
};

TEST_F(ReconcilerNodeTest, S29S32AnotherZonePlansServicesWithHintsAgain) {
  ASlice hinted("shop/hinted-1", "shop/hinted");
  hinted.Port(8080).Ready("10.1.0.1").Hinted({.zones = {"za"}});
  hinted.Ready("10.1.0.2").Hinted({.zones = {"zb"}});
  Settle({ANode("n1", {"192.0.2.1"}, "za"), Web(), Slice("shop/web", 3, 2),
          AService("shop/hinted").At("10.96.0.2").Port(80), hinted});
  EXPECT_THAT(Contents(kernel_), ::testing::Contains("endpoints 0x2 . 0 : 10.1.0.1 . 8080"));
  Apply({ANode("n1", {"192.0.2.1"}, "zb")});
  Sync();
  EXPECT_THAT(Sent(), ElementsAre("- endpoints 0x2 . 0", "+ endpoints 0x2 . 0 : 10.1.0.2 . 8080"));
  ExpectConverged();
  Apply({ANode("n1", {"192.0.2.1"}, "zc")});
  Sync();
  EXPECT_THAT(Sent(), ElementsAre("+ endpoints 0x2 . 1 : 10.1.0.1 . 8080",
                                  "- service-ips 10.96.0.2 . tcp . 80",
                                  "+ service-ips 10.96.0.2 . tcp . 80 : 2.0.0.2 \"shop/hinted:\""));
  ExpectConverged();
  sent_.clear();
  Apply({ANode("n2", {"192.0.2.2"}, "za")});
  EXPECT_EQ(Sync().outcome, Outcome::kNothing) << "another node";
}

TEST_F(ReconcilerNodeTest, S118AnotherNodeIpPlansServicesWithRangesAgain) {
  const std::string source = "firewall-sources 203.0.113.1 . tcp . 80 . ";
  Settle({ANode("n1", {"192.0.2.1"}), Web().LoadBalancer("203.0.113.1").SourceRange("192.0.2.0/24"),
          AService("shop/open").At("10.96.0.2").Port(80).LoadBalancer("203.0.113.2")});
  Apply({ANode("n1", {"198.51.100.1"})});
  Sync();
  EXPECT_THAT(Sent(), ElementsAre("- " + source + "203.0.113.1"));
  ExpectConverged();
  Apply({Removal(Kind::kNode, "n1")});
  EXPECT_EQ(Sync().outcome, Outcome::kNothing) << "loopback is no more in the range";
  Apply({ANode("n1", {"192.0.2.9"})});
  Sync();
  EXPECT_THAT(Sent(), ElementsAre("+ " + source + "203.0.113.1"));
  ExpectConverged();
}

TEST_F(ReconcilerNodeTest, S65TheNodesPodCidrIsFollowed) {
  Reconciler by_node(kernel_, {.node_name = "n1",
                               .node_port_addresses = {},
                               .ruleset = {.detect_local = DetectLocal::kNodeCidr}});
  const auto sync = [&](const Change& change) {
    by_node.store().Apply(change, ++sequence_);
    EXPECT_TRUE(by_node.Sync(SIZE_MAX).error.ok());
    EXPECT_EQ(Contents(kernel_), Additions(DesiredRows(by_node)));
    return Contents(kernel_);
  };
  EXPECT_THAT(sync(Web()), ElementsAre("cluster-ips 10.96.0.1",
                                       "no-endpoint-services 10.96.0.1 . tcp . 80 \"shop/web:\""));
  EXPECT_THAT(
      sync(ANode("n1", {"192.0.2.1"}, "", {"10.244.3.0/24"})),
      ::testing::IsSupersetOf({"pod-sources 10.244.3.0", "pod-sources 10.244.4.0 end",
                               "masquerade-sources 0.0.0.0", "masquerade-sources 10.244.3.0 end",
                               "masquerade-sources 10.244.4.0"}));
  EXPECT_THAT(sync(ANode("n1", {"192.0.2.1"}, "", {"10.244.9.0/24"})),
              ::testing::IsSupersetOf({"pod-sources 10.244.9.0", "pod-sources 10.244.10.0 end"}));
  EXPECT_THAT(sync(Removal(Kind::kNode, "n1")), ::testing::SizeIs(2)) << "S-71";
}

TEST_F(ReconcilerNodeTest, S105ServiceCidrsAreTheUnionOfAllObjects) {
  Settle({AServiceCidr("a", {"10.96.0.0/16", "fd00:96::/112"}),
          AServiceCidr("b", {"10.96.0.0/16", "10.97.0.0/16"})});
  EXPECT_THAT(Contents(kernel_),
              ElementsAre("service-cidrs 10.96.0.0", "service-cidrs 10.98.0.0 end",
                          "service-cidrs fd00:96::", "service-cidrs fd00:96::1:0 end"));
  Settle({Removal(Kind::kServiceCidr, "b")});
  EXPECT_THAT(Contents(kernel_),
              ElementsAre("service-cidrs 10.96.0.0", "service-cidrs 10.97.0.0 end",
                          "service-cidrs fd00:96::", "service-cidrs fd00:96::1:0 end"));
}

}  // namespace
}  // namespace svcmap::proxy::test
