// Tests of loadBalancerSourceRanges, which restrict the sources that may connect to a LoadBalancer
// IP.
#include "absl/strings/str_cat.h"
#include "tests/netns/flow.h"
#include "tests/support/transfer.h"

namespace svcmap::testing {
namespace {

AService WithRanges(AService service, const Names& ranges) {
  for (const std::string& range : ranges) service.SourceRange(range);
  return service;
}

Objects Ranges(const Names& ranges) { return {WithRanges(ExternalWeb("shop/web", kV), ranges)}; }

// The ranges in kClientRanges contain the client address X, but not B.
const Names kClientRanges = {"203.0.113.0/25", "2001:db8:203::/121"};
const Names kPods = {"10.244.1.0/24", "fd00:10:244:1::/64"};
const Names kNowhere = {"192.0.2.0/24", "2001:db8:2::/64"};
const Names kNodeAndClients = {"192.168.77.0/24", "198.18.7.0/24",  "fd00:77::/64",
                               "fd00:78::/64",    "203.0.113.0/25", "2001:db8:203::/121"};

Objects TwoAddresses(const Names& ranges) {
  return {WithRanges(ExternalWeb("shop/web", kV)
                         .LoadBalancerIp(kSecondLoadBalancerIp.v4)
                         .LoadBalancerIp(kSecondLoadBalancerIp.v6),
                     ranges)};
}

class SourceRanges : public FlowRowTest {};

TEST_P(SourceRanges, Row) { Check(); }

INSTANTIATE_ROWS(
    SourceRanges,
    std::vector<Row>{
        {"S116", "EveryProtocol", Ranges(kClientRanges), "L1",
         Each({"X"}, {"VIP:80", "VIP:80/udp", "VIP:80/sctp"}, "L1 m") +
             Each({"B"}, {"VIP:80", "VIP:80/udp", "VIP:80/sctp"}, "DROP")},
        {"S87_S117", "EverySource", Ranges(kNowhere), "L1",
         Each({"P", "L1", "Q", "R1", "N", "X", "B"}, {"VIP:80"}, "DROP")},
        {"S117", "PodsToo", Ranges(kPods), "L1",
         Each({"P"}, {"VIP:80"}, "L1 m") + Each({"Q", "N", "X"}, {"VIP:80"}, "DROP")},
        {"S117_S163_S164", "NotForOtherAddressesAndPorts", Ranges(kNowhere), "L1",
         Each({"P", "N", "X"}, {"EIP:80", "N:NP"}, "L1 m") + Each({"P"}, {"V:80"}, "L1 -") +
             Each({"N", "X"}, {"V:80"}, "L1 m") + Each({"P", "N", "X"}, {"VIP:81"}, "untouched")},
        {"S165_S166_S167", "TwoAddresses", TwoAddresses(kNodeAndClients), "L1",
         Each({"X", "N"}, {"VIP:80", "VIP2:80"}, "L1 m") +
             Each({"B", "P"}, {"VIP:80", "VIP2:80"}, "DROP")},
        {"S119_S148",
         "NoEndpoints",
         Ranges(kClientRanges),
         "",
         {{"X -> VIP:80", "REJECT"}, {"B -> VIP:80", "DROP"}, {"B -> EIP:80", "REJECT"}}},
        {"S121",
         "ExternalLocal",
         {WithRanges(ExternalWeb("shop/web", kV).ExternalPolicy("Local"), kClientRanges + kPods)},
         "L1 R1",
         {{"X -> VIP:80", "L1 -"},
          {"P -> VIP:80", "L1,R1 -"},
          {"B -> VIP:80", "DROP"},
          {"N -> VIP:80", "DROP"},
          {"B -> EIP:80", "L1 -"}}},
        {"S121",
         "ExternalLocalWithRemoteEndpointsOnly",
         {WithRanges(ExternalWeb("shop/web", kV).ExternalPolicy("Local"), kClientRanges + kPods)},
         "R1",
         {{"X -> VIP:80", "DROP"}, {"P -> VIP:80", "R1 -"}, {"B -> VIP:80", "DROP"}}},
        {"S120",
         "OverlappingRepeatedAndWithTheAddress",
         Ranges({"203.0.113.0/25", "203.0.113.0/24", "203.0.113.9/32", "203.0.113.0/25",
                 "198.51.100.20/32", "198.51.100.0/24", "2001:db8:203::/121", "2001:db8:203::/64",
                 "2001:db8:203::9/128", "2001:db8:203::/121", "2001:db8:51::20/128",
                 "2001:db8:51::/64"}),
         "L1",
         {{"X -> VIP:80", "L1 m"}, {"B -> VIP:80", "L1 m"}, {"P -> VIP:80", "DROP"}}},
        {"S11", "AnEntryForAllOpens", Ranges(kNowhere + Names{"0.0.0.0/0", "::/0"}), "L1",
         Each({"P", "N", "X", "B"}, {"VIP:80"}, "L1 m")},
    });

class SourceRangesTest : public FlowFamilyTest {
 protected:
  absl::Status Serve(const Names& ranges) {
    return agent().Apply(Ranges(ranges) + Slices(*world(), "shop/web", "L1"));
  }
};
INSTANTIATE_FAMILIES(SourceRangesTest);

TEST_P(SourceRangesTest, S116_RangesThatChangeTakeEffectAtOnce) {
  const struct {
    Names ranges;
    const char* client;
    const char* pod;
  } steps[] = {{{}, "L1 m", "L1 m"},       {kClientRanges, "L1 m", "DROP"},
               {kPods, "DROP", "L1 m"},    {kClientRanges + kPods, "L1 m", "L1 m"},
               {kNowhere, "DROP", "DROP"}, {kNowhere + kClientRanges, "L1 m", "DROP"},
               {{}, "L1 m", "L1 m"}};
  for (const auto& step : steps) {
    ASSERT_OK(Serve(step.ranges));
    Expect({"X -> VIP:80", step.client});
    Expect({"P -> VIP:80", step.pod});
  }
  // The next Service with the same address does not inherit the ranges.
  ASSERT_OK(Serve(kNowhere));
  ASSERT_OK(agent().Remove({ServiceRef("shop/web")}));
  Expect({"X -> VIP:80", "untouched"});
  Expect({"N -> VIP:80", "untouched"});
}

TEST_P(SourceRangesTest, S101_S116_OpenConnectionsStay) {
  ASSERT_OK(Serve(kClientRanges));
  ASSERT_OK_AND_ASSIGN(
      TcpFlow flow,
      TcpFlow::Open(client().netns(), {.destination = kLoadBalancerIp.in(v6()), .port = 80}));
  ASSERT_OK(Serve(kNowhere));
  Expect({"X -> VIP:80", "DROP"});
  EXPECT_OK(flow.Exchange(100'000));
}

// The LoadBalancer IP is an address of the node, as with load balancers that forward packets
// without translation.
TEST_P(SourceRangesTest, S118_S168_TheLoadBalancerIpAsSource) {
  ASSERT_OK(ChangeNodeAddress("add", kLoadBalancerIp.in(v6())));
  ASSERT_OK(agent().Apply(TwoAddresses(kNodeAndClients) + Slices(*world(), "shop/web", "L1")));
  Expect({"VIP -> VIP:80", "L1 m"});
  Expect({"VIP -> VIP2:80", "L1 m"});
  // S-118: the packet is accepted only because a range contains the node's own address.
  ASSERT_OK(agent().Apply(TwoAddresses(kClientRanges)));
  Expect({"VIP -> VIP:80", "DROP"});
  Expect({"VIP -> VIP2:80", "DROP"});
  Expect({"X -> VIP:80", "L1 m"});
  ASSERT_OK(ChangeNodeAddress("del", kLoadBalancerIp.in(v6())));
}

// Ranges of one family do not restrict the other family.
TEST_P(SourceRangesTest, S12_RangesOfTheOtherFamilyLeaveThisOneOpen) {
  ASSERT_OK(Serve({kNowhere[v6() ? 0 : 1]}));
  for (const char* from : {"P", "N", "X", "B"}) Expect({absl::StrCat(from, " -> VIP:80"), "L1 m"});
  ASSERT_OK(Serve({kNowhere[v6() ? 1 : 0]}));
  for (const char* from : {"P", "N", "X", "B"}) Expect({absl::StrCat(from, " -> VIP:80"), "DROP"});
}

}  // namespace
}  // namespace svcmap::testing
