// Tests of the conversion of policies, source ranges, picks, topology hints and Nodes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/api/convert_objects.h"

namespace svcmap::api {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using proxy::TrafficPolicy;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr TrafficPolicy kCluster = TrafficPolicy::kCluster;
constexpr TrafficPolicy kLocal = TrafficPolicy::kLocal;

// Returns a Service with the given spec fields and with an IPv4 load balancer IP.
Converted<proxy::Service> With(const std::string& fields) {
  return Web(absl::StrCat("spec: {clusterIP: 10.96.0.10, ports: [{port: 80}], ", fields, "}\n",
                          "status: {loadBalancer: {ingress: [{ip: 192.0.2.8}]}}\n"));
}

TEST(ConvertPoliciesTest, S10_ExternalLocalCountsOnlyWhereTrafficComesFromOutside) {
  const struct {
    const char* fields;
    TrafficPolicy wanted;
    bool warned;
  } cases[] = {
      {"type: LoadBalancer", kCluster, false},
      {"type: LoadBalancer, externalTrafficPolicy: ''", kCluster, false},
      {"type: LoadBalancer, externalTrafficPolicy: Cluster", kCluster, false},
      {"type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 1", kLocal, false},
      {"type: NodePort, externalTrafficPolicy: Local", kLocal, false},
      {"type: ClusterIP, externalTrafficPolicy: Local, externalIPs: [192.0.2.7]", kLocal, false},
      {"externalTrafficPolicy: Local, externalIPs: [192.0.2.7]", kLocal, false},
      {"type: ClusterIP, externalTrafficPolicy: Local", kCluster, true},
      {"externalTrafficPolicy: Local", kCluster, true},
  };
  for (const auto& c : cases) {
    const auto [service, findings] = With(c.fields);
    ASSERT_NE(service, nullptr) << c.fields;
    EXPECT_EQ(service->external_policy, c.wanted) << c.fields;
    EXPECT_EQ(service->internal_policy, kCluster) << c.fields;
    EXPECT_EQ(!findings.empty(), c.warned) << c.fields;
  }
}

TEST(ConvertPoliciesTest, TheAnnotationNoLocalEndpointNeedsExternalLocal) {
  const std::string prefix =
      "Service shop/web: metadata.annotations[\"svcmap/no-local-endpoint\"]: ";
  const std::string forbidden =
      prefix + "Forbidden: has no effect without spec.externalTrafficPolicy \"Local\"";
  const struct {
    const char* value;
    const char* spec;
    bool routes;
    std::vector<std::string> findings;
  } cases[] = {
      {"route", "type: NodePort, externalTrafficPolicy: Local", true, {}},
      {"route", "type: NodePort", true, {forbidden}},
      {"route", "internalTrafficPolicy: Local", true, {forbidden}},
      {"drop",
       "type: NodePort, externalTrafficPolicy: Local",
       false,
       {prefix + "Invalid value: \"drop\": must be \"route\"; the annotation is ignored"}},
  };
  for (const auto& c : cases) {
    const auto [service, findings] = Service(absl::StrCat(
        "metadata: {namespace: shop, name: web, annotations: {svcmap/no-local-endpoint: ", c.value,
        "}}\nspec: {clusterIP: 10.96.0.10, ports: [{port: 80}], ", c.spec, "}\n"));
    ASSERT_NE(service, nullptr) << c.spec;
    EXPECT_EQ(service->route_without_local, c.routes) << c.value << c.spec;
    EXPECT_EQ(Texts(findings), c.findings) << c.value << c.spec;
  }
}

TEST(ConvertPoliciesTest, S10_InternalLocalCountsWhateverTheType) {
  const std::pair<const char*, TrafficPolicy> cases[] = {
      {"type: ClusterIP", kCluster},
      {"internalTrafficPolicy: null", kCluster},
      {"internalTrafficPolicy: Cluster", kCluster},
      {"internalTrafficPolicy: Local", kLocal},
      {"type: NodePort, internalTrafficPolicy: Local", kLocal},
  };
  for (const auto& [fields, wanted] : cases) {
    const auto [service, findings] = With(fields);
    ASSERT_NE(service, nullptr) << fields;
    EXPECT_EQ(service->internal_policy, wanted) << fields;
    EXPECT_EQ(service->external_policy, kCluster) << fields;
    EXPECT_THAT(findings, IsEmpty()) << fields;
  }
}

TEST(ConvertPoliciesTest, S13_TheHealthCheckPortCountsForLoadBalancersWithExternalLocal) {
  const struct {
    const char* fields;
    uint16_t wanted;
    std::vector<std::string> findings;
  } cases[] = {
      {"type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 32000", 32000, {}},
      {"type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 65535", 65535, {}},
      {"type: LoadBalancer, externalTrafficPolicy: Cluster, healthCheckNodePort: 32000", 0, {}},
      {"type: LoadBalancer, healthCheckNodePort: 32000", 0, {}},
      {"type: NodePort, externalTrafficPolicy: Local, healthCheckNodePort: 32000", 0, {}},
      {"type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 0",
       0,
       {"Service shop/web: spec.healthCheckNodePort: Required value: without this port, load "
        "balancers cannot check whether this node has endpoints"}},
  };
  for (const auto& c : cases) {
    const auto [service, findings] = With(c.fields);
    ASSERT_NE(service, nullptr) << c.fields;
    EXPECT_EQ(service->health_check_node_port, c.wanted) << c.fields;
    EXPECT_EQ(Texts(findings), c.findings) << c.fields;
  }
}

TEST(ConvertPoliciesTest, S14_AffinityLastsThreeHoursUnlessItSaysOtherwise) {
  const std::pair<const char*, uint32_t> cases[] = {
      {"type: ClusterIP", 0},
      {"sessionAffinity: None", 0},
      {"sessionAffinity: None, sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}", 0},
      {"sessionAffinity: ClientIP", 10800},
      {"sessionAffinity: ClientIP, sessionAffinityConfig: {}", 10800},
      {"sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {}}", 10800},
      {"sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 1}}", 1},
      {"sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 86400}}",
       86400},
  };
  for (const auto& [fields, wanted] : cases) {
    const auto [service, findings] = With(fields);
    ASSERT_NE(service, nullptr) << fields;
    EXPECT_EQ(service->affinity_seconds, wanted) << fields;
    EXPECT_THAT(findings, IsEmpty()) << fields;
  }
}

TEST(ConvertEndpointPickTest, TheFieldCountsBeforeTheAnnotation) {
  using proxy::PickBy;
  const struct {
    const char* annotations;
    const char* fields;
    PickBy pick_by;
    uint32_t size;
    std::vector<std::string> findings;
  } cases[] = {
      {"", "type: ClusterIP", PickBy::kRandom, 0, {}},
      {"", "endpointPick: Random", PickBy::kRandom, 0, {}},
      {"", "endpointPick: ClientIP", PickBy::kClient, 0, {}},
      {"", "endpointPick: ClientIPAndPort, pickTableSize: 4093", PickBy::kClientAndPort, 4093, {}},
      {"svcmap/endpoint-pick: ClientIP, svcmap/pick-table-size: '1021'",
       "type: ClusterIP",
       PickBy::kClient,
       1021,
       {}},
      {"svcmap/endpoint-pick: ClientIP, svcmap/pick-table-size: '1021'",
       "endpointPick: Random, pickTableSize: 251",
       PickBy::kRandom,
       251,
       {"Service shop/web: spec.pickTableSize: Forbidden: has no effect with spec.endpointPick "
        "\"Random\""}},
      {"svcmap/pick-table-size: '1021'",
       "type: ClusterIP",
       PickBy::kRandom,
       1021,
       {"Service shop/web: metadata.annotations[\"svcmap/pick-table-size\"]: Forbidden: has no "
        "effect with spec.endpointPick \"Random\""}},
      {"svcmap/endpoint-pick: clientip, svcmap/pick-table-size: '1000'",
       "type: ClusterIP",
       PickBy::kRandom,
       0,
       {"Service shop/web: metadata.annotations[\"svcmap/endpoint-pick\"]: Invalid value: "
        "\"clientip\": must be \"Random\", \"ClientIP\" or \"ClientIPAndPort\"; endpoints are "
        "picked at random",
        "Service shop/web: metadata.annotations[\"svcmap/pick-table-size\"]: Invalid value: "
        "\"1000\": must be 251, 1021 or 4093; the default is used"}},
      {"svcmap/endpoint-pik: ClientIP, svcmap/weight: '7', other/endpoint-pick: ClientIP",
       "type: ClusterIP",
       PickBy::kRandom,
       0,
       {"Service shop/web: metadata.annotations[\"svcmap/endpoint-pik\"]: Forbidden: unknown "
        "annotation, must "
        "be one of svcmap/end-ports, svcmap/endpoint-pick, svcmap/no-local-endpoint, "
        "svcmap/pick-table-size, svcmap/reset-stale-tcp; the annotation is ignored",
        "Service shop/web: metadata.annotations[\"svcmap/weight\"]: Forbidden: unknown annotation, "
        "must be "
        "one of svcmap/end-ports, svcmap/endpoint-pick, svcmap/no-local-endpoint, "
        "svcmap/pick-table-size, svcmap/reset-stale-tcp; the annotation is ignored"}},
      {"",
       "endpointPick: ClientIP, sessionAffinity: ClientIP",
       PickBy::kRandom,
       0,
       {"Service shop/web: spec.endpointPick: Forbidden: has no effect with spec.sessionAffinity "
        "\"ClientIP\""}},
  };
  for (const auto& c : cases) {
    const auto [service, findings] = Service(
        absl::StrCat("metadata: {name: web, namespace: shop, annotations: {", c.annotations,
                     "}}\nspec: {clusterIP: 10.96.0.10, ports: [{port: 80}], ", c.fields, "}\n"));
    ASSERT_NE(service, nullptr) << c.fields;
    EXPECT_EQ(service->pick_by, c.pick_by) << c.fields;
    EXPECT_EQ(service->pick_table_size, c.size) << c.fields;
    EXPECT_EQ(Texts(findings), c.findings) << c.fields;
  }
}

TEST(ConvertEndpointPickTest, TheTablesOfAServiceAreLimited) {
  const auto with_ports = [](int count, const char* size) {
    std::string ports;
    for (int i = 1; i <= count; ++i) absl::StrAppend(&ports, "{name: p", i, ", port: ", i, "},");
    return Web(absl::StrCat("spec: {clusterIP: 10.96.0.10, endpointPick: ClientIP, pickTableSize: ",
                            size, ", ports: [", ports, "]}\n"));
  };
  EXPECT_NE(with_ports(64, "4093").value, nullptr);
  EXPECT_EQ(with_ports(65, "4093").value, nullptr);
  EXPECT_EQ(with_ports(257, "0").value, nullptr);
  EXPECT_NE(with_ports(257, "251").value, nullptr);
}

// Returns a dual-stack Service with the given source ranges and one load balancer IP per family.
Converted<proxy::Service> Ranges(const std::string& ranges,
                                 const std::string& ingress = "{ip: 192.0.2.8}, {ip: 'fd01::8'}") {
  return Web(absl::StrCat(
      "spec: {type: LoadBalancer, clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10, 'fd00::10'],\n"
      "       ipFamilies: [IPv4, IPv6], ports: [{port: 80}], loadBalancerSourceRanges: [",
      ranges, "]}\nstatus: {loadBalancer: {ingress: [", ingress, "]}}\n"));
}

const char kOpen4[] =
    "Service shop/web: spec.loadBalancerSourceRanges: Invalid value: contains no valid IPv4 CIDR; "
    "the IPv4 load "
    "balancer IPs accept traffic from all sources";
const char kOpen6[] =
    "Service shop/web: spec.loadBalancerSourceRanges: Invalid value: contains no valid IPv6 CIDR; "
    "the IPv6 load "
    "balancer IPs accept traffic from all sources";

TEST(ConvertSourceRangesTest, S11_RangesAreTrimmedAndCanonical) {
  const auto [service, findings] =
      Ranges("' 203.0.113.000/025\t', 10.1.2.3/8, '\n2001:DB8::1/32', 192.0.2.1/32");
  ASSERT_NE(service, nullptr);
  EXPECT_THAT(
      Texts(findings),
      ElementsAre(HasSubstr("[0]: Invalid value: \"203.0.113.000/025\": must not have leading "
                            "0s in IP or prefix length; 203.0.113.0/25 is used"),
                  HasSubstr("[1]: Invalid value: \"10.1.2.3/8\": must not have bits set "
                            "beyond the prefix length; 10.0.0.0/8 is used"),
                  HasSubstr("[2]")));
  EXPECT_THAT(Texts(service->source_ranges),
              ElementsAre("203.0.113.0/25", "10.0.0.0/8", "2001:db8::/32", "192.0.2.1/32"));
}

TEST(ConvertSourceRangesTest, S11_ARangeOfEverythingOpensItsFamilyAlone) {
  const struct {
    const char* ranges;
    std::vector<std::string> wanted;
  } cases[] = {
      {"0.0.0.0/0, 10.0.0.0/8, 'fd00::/8'", {"fd00::/8"}},
      {"10.0.0.0/8, 'fd00::/8', '::/0'", {"10.0.0.0/8"}},
      {"10.0.0.0/8, 0.0.0.0/0, 'fd00::/8', '::/0'", {}},
  };
  for (const auto& c : cases) {
    const auto [service, findings] = Ranges(c.ranges);
    ASSERT_NE(service, nullptr) << c.ranges;
    EXPECT_EQ(Texts(service->source_ranges), c.wanted) << c.ranges;
    // A range that contains all addresses is valid, so there is no finding.
    EXPECT_THAT(findings, IsEmpty()) << c.ranges;
  }
}

TEST(ConvertSourceRangesTest, S11_TheOldAnnotationIsNotRead) {
  const auto [service, findings] = Service(
      "metadata: {namespace: shop, name: web, annotations:\n"
      "  {service.beta.kubernetes.io/load-balancer-source-ranges: 10.0.0.0/8}}\n"
      "spec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}\n");
  ASSERT_NE(service, nullptr);
  EXPECT_THAT(service->source_ranges, IsEmpty());
}

TEST(ConvertSourceRangesTest, S12_AFamilyThatStaysOpenIsWarnedAbout) {
  const struct {
    const char* name;
    const char* ranges;
    const char* ingress;
    std::vector<std::string> open;
  } cases[] = {
      {"both", "10.0.0.0/8, 'fd00::/8'", "{ip: 192.0.2.8}, {ip: 'fd01::8'}", {}},
      {"no ranges", "", "{ip: 192.0.2.8}, {ip: 'fd01::8'}", {}},
      {"IPv4 ranges", "10.0.0.0/8", "{ip: 192.0.2.8}, {ip: 'fd01::8'}", {kOpen6}},
      {"IPv6 ranges", "'fd00::/8'", "{ip: 192.0.2.8}, {ip: 'fd01::8'}", {kOpen4}},
      {"IPv4 for everybody", "0.0.0.0/0", "{ip: 192.0.2.8}, {ip: 'fd01::8'}", {kOpen6}},
      {"nothing of that family to open", "10.0.0.0/8", "{ip: 192.0.2.8}", {}},
      {"captured by nobody", "10.0.0.0/8", "{ip: 'fd01::8', ipMode: Proxy}", {}},
      {"no address yet", "10.0.0.0/8", "", {}},
  };
  for (const auto& c : cases) {
    const auto [service, findings] = Ranges(c.ranges, c.ingress);
    ASSERT_NE(service, nullptr) << c.name;
    EXPECT_EQ(Texts(findings), c.open) << c.name;
  }
}

TEST(ConvertSourceRangesTest, S12_AFamilyWithoutClusterIpIsNotOpen) {
  const auto [service, findings] = With("loadBalancerSourceRanges: [10.0.0.0/8]");
  EXPECT_THAT(findings, IsEmpty());
  const auto [other, other_findings] = Web(
      "spec: {clusterIP: 10.96.0.10, ports: [{port: 80}], loadBalancerSourceRanges: [10.0.0.0/8]}\n"
      "status: {loadBalancer: {ingress: [{ip: 192.0.2.8}, {ip: 'fd01::8'}]}}\n");
  EXPECT_THAT(other_findings, IsEmpty());
}

TEST(ConvertPoliciesTest, StaleConnectionsFollowTheFieldThenTheAnnotation) {
  const struct {
    const char* annotations;
    const char* spec;
    std::optional<bool> wanted;
  } cases[] = {
      {"{}", "", std::nullopt},
      {"{svcmap/reset-stale-tcp: 'true'}", "", true},
      {"{svcmap/reset-stale-tcp: 'false'}", "", false},
      {"{}", ", resetStaleTCP: true", true},
      {"{}", ", resetStaleTCP: false", false},
      {"{svcmap/reset-stale-tcp: 'true'}", ", resetStaleTCP: false", false},
      {"{svcmap/reset-stale-tcp: invalid}", ", resetStaleTCP: true", true},
  };
  for (const auto& c : cases) {
    const auto [service, findings] = Service(
        absl::StrCat("metadata: {namespace: shop, name: web, annotations: ", c.annotations,
                     "}\nspec: {clusterIP: 10.96.0.10, ports: [{port: 80}]", c.spec, "}\n"));
    ASSERT_NE(service, nullptr) << c.annotations << c.spec;
    EXPECT_EQ(service->reset_stale_tcp, c.wanted) << c.annotations << c.spec;
    EXPECT_THAT(findings, IsEmpty());
  }
}

// Tests of topology fields: hints of endpoints, and the zone and pod CIDRs of nodes.

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
