#include "proxy/reconcile/reconciler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "tests/unit/proxy/reconciler_world.h"

namespace svcmap::proxy::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(ReconcilerTest, WithNothingToWriteTheKernelIsNotAsked) {
  Settle({Web(), Slice("shop/web", 2)});
  Apply({ANode("n2", {"192.0.2.2"}), ASlice("shop/none-1", "shop/none")});
  EXPECT_TRUE(reconciler_.Pending());
  EXPECT_EQ(Sync().outcome, Outcome::kNothing);
  EXPECT_FALSE(reconciler_.Pending());
  EXPECT_THAT(sent_, IsEmpty());
  EXPECT_EQ(reconciler_.revision(), 1u);
}

TEST_F(ReconcilerTest, AReplacedEndpointCostsTwoElements) {
  Settle({Web(), Slice("shop/web", 3)});
  ASlice slice("shop/web-1", "shop/web");
  Apply({slice.Port(8080).Ready("10.1.0.0").Ready("10.9.9.9").Ready("10.1.0.2")});
  EXPECT_EQ(Sync().elements, 2 + kMarkerElements);
  ExpectConverged();
}

TEST_F(ReconcilerTest, OneEndpointMoreCostsThreeElements) {
  Settle({Web(), Slice("shop/web", 3)});
  Apply({Slice("shop/web", 4)});
  EXPECT_EQ(Sync().elements, 3 + kMarkerElements);
  ExpectConverged();
}

// The cleaner lists handshakes after the commit that makes them stale, and not before.
TEST_F(ReconcilerTest, MovesAreReportedWhenTheyAreInTheKernel) {
  Settle({Web(), Slice("shop/web", 2)});
  reconciler_.store().KeepMoves();
  Apply({ASlice("shop/web-1", "shop/web").Port(8080).Ready("10.1.0.0").Ready("10.9.9.9")});
  EXPECT_FALSE(Sync(SIZE_MAX, Fault::kReject).endpoints.any);
  const EndpointChanges changes = Sync().endpoints;
  EXPECT_TRUE(changes.any);
  EXPECT_THAT(changes.added, ElementsAre(std::pair(HashOfService("shop/web"), Ip("10.9.9.9"))));
  EXPECT_THAT(changes.left, IsEmpty()) << "connections are not reset";
  Apply({ASlice("shop/web-1", "shop/web").Port(8080).Ready("10.9.9.9")});
  EXPECT_TRUE(Sync().endpoints.any);
  Apply({ANode("n1", {"192.0.2.9"})});
  EXPECT_TRUE(Sync().endpoints.any) << "node ports at another address";
  Apply({Slice("shop/other", 2)});
  EXPECT_FALSE(Sync().endpoints.any);
}

TEST_F(ReconcilerTest, ARejectedBatchLeavesTheAppliedViewAsItWas) {
  Settle({Web(), Slice("shop/web", 2)});
  const Lines applied = Additions(AppliedRows(reconciler_));
  Apply({Slice("shop/web", 5), AService("shop/new").At("10.96.0.2").Port(80)});
  const SyncResult result = Sync(SIZE_MAX, Fault::kReject);
  EXPECT_EQ(result.outcome, Outcome::kFailed);
  EXPECT_EQ(result.error.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Additions(AppliedRows(reconciler_)), applied);
  EXPECT_EQ(reconciler_.revision(), 1u);
  EXPECT_EQ(reconciler_.store().dirty().size(), 2u);

  EXPECT_FALSE(Sync().recreated);
  EXPECT_EQ(reconciler_.revision(), 2u);
  ExpectConverged();
}

TEST_F(ReconcilerTest, TheLimitCutsBetweenServices) {
  Settle({});
  for (int i = 1; i <= 9; ++i) {
    const std::string key = "shop/s" + std::to_string(i);
    Apply({AService(key).At("10.96.0." + std::to_string(i)).Port(80), Slice(key, 3, i)});
  }
  // Elements per Service: three endpoints, a mapping and a clusterIP.
  constexpr size_t kService = 5;
  std::vector<size_t> left;
  while (reconciler_.Pending()) {
    EXPECT_LE(Sync(8).elements, 8 + kService + kMarkerElements);
    left.push_back(reconciler_.store().dirty().size());
  }
  EXPECT_THAT(left, ElementsAre(7, 5, 3, 1, 0));
  ExpectConverged();
}

// A group of which many slots change is replaced, because new groups are added before the switch.
TEST_F(ReconcilerTest, ManyEndpointsOfAServiceAreReplacedInBoundedCommits) {
  constexpr int kEndpoints = 12000;
  Settle({Web(), Slice("shop/web", kEndpoints)});
  for (const int count : {kEndpoints, 1, kEndpoints}) {
    Apply({Slice("shop/web", count, 2 + count % 2)});
    EXPECT_EQ(SyncAll().outcome, Outcome::kCommitted);
    for (const nft::Transaction& transaction : sent_) {
      EXPECT_LE(transaction.element_count(), 10000 + kMarkerElements);
    }
    sent_.clear();
    ExpectConverged();
  }
}

// Packets pick a new slot of a group in use as soon as it exists.
TEST_F(ReconcilerTest, ALargePlanAddsSlotsOfAffinityGroupsAfterTheirEndpoints) {
  constexpr int kServices = 150;
  const auto service = [](int i) { return "shop/s" + std::to_string(i); };
  for (int i = 0; i < kServices; ++i) {
    const std::string ip = "10.97.0." + std::to_string(1 + i);
    Apply({AService(service(i)).At(ip).Port(80).Affinity(60), Slice(service(i), 2)});
  }
  Settle({});
  std::set<std::string> endpoints;  // Numbers of the endpoints in the kernel.
  const auto learn = [&](const std::string& row) {
    const std::vector<std::string> words = absl::StrSplit(row, ' ');
    if (words[0] == "affinity-endpoints") endpoints.insert(words[1]);
  };
  std::ranges::for_each(Contents(kernel_), learn);
  EXPECT_THAT(endpoints, SizeIs(2 * kServices));

  Apply({Web(), Slice("shop/web", kMaxElementsTogether + 1, 2)});
  for (int i = 0; i < kServices; ++i) Apply({Slice(service(i), 6)});
  ASSERT_EQ(Sync().outcome, Outcome::kCommitted);
  int ahead = 0;
  for (const nft::Transaction& transaction : sent_) {
    const Lines operations = Operations(transaction);
    for (const std::string& operation : operations) {
      if (operation[0] == '+') learn(operation.substr(2));
    }
    bool slots = false, ports = false;
    for (const std::string& operation : operations) {
      ports |= operation.starts_with("+ service-ips");
      if (!operation.starts_with("+ affinity-slots")) continue;
      slots = true;
      const std::string number = operation.substr(operation.rfind(' ') + 1);
      EXPECT_TRUE(endpoints.contains(number)) << operation;
    }
    ahead += slots && !ports ? 1 : 0;
  }
  EXPECT_GT(ahead, 1) << "commits with slots before the change";
  ExpectConverged();
}

TEST_F(ReconcilerTest, FindingsOfTheNodeStandUntilTheirCauseIsGone) {
  const auto standing = [&] {
    Lines lines;
    for (const Finding& finding : *StatusOf(reconciler_).findings) {
      lines.push_back(finding.ToString());
    }
    return lines;
  };
  NodeAddresses node;
  node.interfaces = {{Ip("10.96.50.1"), 24, "lan0"}};
  reconciler_.node().SetInterfaceAddresses(node);
  Settle({Web()});
  Apply({AServiceCidr("kubernetes", {"10.96.0.0/16"})});
  SyncResult result = Sync();
  ASSERT_THAT(result.findings, SizeIs(1));
  EXPECT_EQ(result.findings[0].sequence, sequence_);
  EXPECT_FALSE(result.findings[0].known);
  EXPECT_THAT(standing(), ElementsAre(HasSubstr("overlaps 10.96.50.0/24 of interface lan0")));
  // Other changes do not report the finding again.
  Apply({AService("shop/other").At("10.96.0.2").Port(80)});
  EXPECT_THAT(Sync().findings, IsEmpty());
  EXPECT_THAT(standing(), SizeIs(1));
  // A clusterIP becomes an address of the node.
  node.interfaces.push_back({Ip("10.96.0.2"), 32, "eth0"});
  reconciler_.node().SetInterfaceAddresses(node);
  result = Sync();
  ASSERT_THAT(result.findings, SizeIs(1));
  EXPECT_EQ(result.findings[0].sequence, 0u);
  EXPECT_EQ(result.findings[0].finding.key, "shop/other");
  EXPECT_THAT(standing(), SizeIs(2));
  reconciler_.node().SetInterfaceAddresses(Ips({"192.0.2.1"}));
  EXPECT_THAT(Sync().findings, IsEmpty());
  EXPECT_THAT(standing(), IsEmpty());
  // The first Service with a nodePort makes the missing primary address a problem.
  Apply({ANode("n1", {"192.0.2.77"})});
  EXPECT_THAT(Sync().findings, IsEmpty());
  EXPECT_THAT(standing(), IsEmpty());
  Apply({Web().NodePort(30080)});
  EXPECT_THAT(Sync().findings, SizeIs(1));
  EXPECT_THAT(standing(), ElementsAre(HasSubstr("Node n1: status.addresses: Invalid value: ")));
  Apply({Web()});
  EXPECT_THAT(Sync().findings, IsEmpty());
  EXPECT_THAT(standing(), IsEmpty());
}

TEST_F(ReconcilerTest, AnAddressThatIsNoClusterIpChangesNoService) {
  Settle({Web()});
  reconciler_.node().SetInterfaceAddresses(Ips({"10.96.0.3", "192.0.2.1"}));
  EXPECT_EQ(Sync().udp.size(), 0u) << "no Service was planned";
}

// Tests that a change of a node property rewrites only the Services that depend on the property.
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
