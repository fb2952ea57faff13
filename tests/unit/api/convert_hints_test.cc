// Tests of topology fields: hints of endpoints, and the zone and pod CIDRs of nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/api/convert_objects.h"

namespace svcmap::api {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Converted<proxy::EndpointSlice> Endpoints(const std::string& endpoints) {
  return WebSlice(absl::StrCat("addressType: IPv4\nendpoints:\n", endpoints));
}

const proxy::EndpointHints* HintsOf(const proxy::EndpointSlice& slice, size_t index) {
  const uint16_t hints = slice.endpoints.at(index).hints;
  return hints == 0 ? nullptr : &slice.hints.at(hints - 1u);
}

TEST(ConvertHintsTest, S25_ZonesAndNodesAreCarried) {
  const auto [slice, findings] = Endpoints(R"(
- {addresses: [10.1.0.1], hints: {forZones: [{name: zb}, {name: za}]}}
- {addresses: [10.1.0.2], hints: {forNodes: [{name: n1}]}}
- {addresses: [10.1.0.3], hints: {forZones: [{name: za}], forNodes: [{name: n2}]}}
)");
  ASSERT_NE(slice, nullptr);
  EXPECT_THAT(findings, IsEmpty());
  ASSERT_NE(HintsOf(*slice, 0), nullptr);
  EXPECT_THAT(HintsOf(*slice, 0)->zones, ElementsAre("za", "zb"));
  EXPECT_THAT(HintsOf(*slice, 0)->nodes, IsEmpty());
  EXPECT_THAT(HintsOf(*slice, 1)->zones, IsEmpty());
  EXPECT_THAT(HintsOf(*slice, 1)->nodes, ElementsAre("n1"));
  EXPECT_EQ(*HintsOf(*slice, 2), (proxy::EndpointHints{{"za"}, {"n2"}}));
}

TEST(ConvertHintsTest, S25_EmptyListsAreNoHint) {
  const auto [slice, findings] = Endpoints(R"(
- {addresses: [10.1.0.1]}
- {addresses: [10.1.0.2], hints: {}}
- {addresses: [10.1.0.3], hints: {forZones: [], forNodes: null}}
- {addresses: [10.1.0.4], hints: {forZones: [], forNodes: [{name: n1}]}}
)");
  ASSERT_NE(slice, nullptr);
  for (const size_t i : {0, 1, 2}) EXPECT_EQ(HintsOf(*slice, i), nullptr) << i;
  EXPECT_EQ(*HintsOf(*slice, 3), (proxy::EndpointHints{{}, {"n1"}}));
  EXPECT_THAT(slice->hints, SizeIs(1));
}

TEST(ConvertHintsTest, S25_EqualHintsAreKeptOnce) {
  const auto [slice, findings] = Endpoints(R"(
- {addresses: [10.1.0.1], hints: {forZones: [{name: za}, {name: zb}]}}
- {addresses: [10.1.0.2], hints: {forZones: [{name: zc}]}}
- {addresses: [10.1.0.3], hints: {forZones: [{name: zb}, {name: za}, {name: za}]}}
- {addresses: [10.1.0.4], hints: {forNodes: [{name: zc}]}}
)");
  ASSERT_NE(slice, nullptr);
  EXPECT_THAT(slice->hints, SizeIs(3));
  EXPECT_EQ(slice->endpoints[2].hints, slice->endpoints[0].hints);
  EXPECT_NE(slice->endpoints[3].hints, slice->endpoints[1].hints);
}

// S-26: if several endpoints have the same address, svcmapd uses only one endpoint, including its
// hints.
TEST(ConvertHintsTest, S26_HintsBelongToTheEndpointThatCounts) {
  const auto [slice, findings] = Endpoints(R"(
- {addresses: [10.1.0.1], hints: {forZones: [{name: za}]}, conditions: {terminating: true}}
- {addresses: [10.1.0.1], hints: {forZones: [{name: zb}]}, nodeName: n1}
- {addresses: [10.1.0.1], hints: {forZones: [{name: zc}]}}
)");
  ASSERT_NE(slice, nullptr);
  ASSERT_THAT(slice->endpoints, SizeIs(1));
  ASSERT_THAT(slice->hints, SizeIs(1));
  EXPECT_THAT(HintsOf(*slice, 0)->zones, ElementsAre("zb"));
}

TEST(ConvertHintsTest, S25_AThousandEndpointsMayHaveHintsOfTheirOwn) {
  v1::EndpointSlice message;
  message.mutable_metadata()->set_namespace_("shop");
  message.mutable_metadata()->set_name("web-1");
  message.set_address_type("IPv6");
  for (int i = 1; i <= 1000; ++i) {
    v1::Endpoint* endpoint = message.add_endpoints();
    endpoint->add_addresses(absl::StrCat("fd00::", i));
    endpoint->mutable_hints()->add_for_nodes()->set_name(absl::StrCat("n", i));
  }
  const auto [slice, findings] = ConvertEndpointSlice(message, kContext);
  ASSERT_NE(slice, nullptr);
  EXPECT_THAT(slice->hints, SizeIs(1000));
  EXPECT_THAT(HintsOf(*slice, 999)->nodes, ElementsAre("n1000"));
}

TEST(ConvertNodeTest, S29_TheZoneIsALabel) {
  EXPECT_EQ(Node("metadata: {name: n1, labels: {topology.kubernetes.io/zone: za}}").value->zone,
            "za");
  EXPECT_EQ(Node("metadata: {name: n1, labels: {topology.kubernetes.io/zone: ''}}").value->zone,
            "");
  EXPECT_EQ(Node("metadata: {name: n1, labels: {topology.kubernetes.io/region: za}}").value->zone,
            "");
}

TEST(ConvertNodeTest, S65_TheFirstPodCidrOfEachFamilyCounts) {
  const auto [node, findings] = Node(
      "metadata: {name: n1}\n"
      "spec: {podCIDRs: [010.001.0.0/024, 10.2.0.0/24, 'fd00:1::5/64', 'fd00:2::/64']}\n");
  ASSERT_NE(node, nullptr);
  EXPECT_THAT(Texts(findings),
              ElementsAre(HasSubstr("spec.podCIDRs[0]: Invalid value: \"010.001.0.0/024\""),
                          HasSubstr("spec.podCIDRs[2]: Invalid value: \"fd00:1::5/64\"")));
  EXPECT_EQ(node->pod_cidr[Index(Family::kIpv4)], IpPrefix::Parse("10.1.0.0/24"));
  EXPECT_EQ(node->pod_cidr[Index(Family::kIpv6)], IpPrefix::Parse("fd00:1::/64"));
}

}  // namespace
}  // namespace svcmap::api
