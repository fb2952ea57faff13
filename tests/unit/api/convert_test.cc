#include "api/convert/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/stubs/logging.h"
#include "tests/support/encoded.h"
#include "tests/unit/api/convert_objects.h"

namespace svcmap::api {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(ConvertServiceTest, S3_S4_S6_S7_CarriesAddressesAndPortsOfBothFamilies) {
  const auto [service, findings] = Web(R"(
spec:
  clusterIP: fd00::10
  clusterIPs: ["fd00::10", 10.96.0.10]
  ipFamilies: [IPv6, IPv4]
  ports:
  - {name: dns, port: 53, protocol: UDP, nodePort: 30053, targetPort: dns}
  - {name: dns-tcp, port: 53, protocol: TCP}
  - {name: sig, port: 53, protocol: SCTP}
  externalIPs: [192.0.2.7, "fd01::7", 192.0.2.7]
status:
  loadBalancer:
    ingress: [{ip: 192.0.2.8}, {hostname: lb.example}, {ip: 192.0.2.9, ipMode: Proxy},
              {ip: "fd01::8", ipMode: VIP}]
)");
  ASSERT_NE(service, nullptr);
  EXPECT_THAT(findings, IsEmpty());
  EXPECT_EQ(service->key, "shop/web");
  EXPECT_TRUE(service->proxied);
  EXPECT_EQ(service->cluster_ip[Index(Family::kIpv4)], IpAddress::Parse("10.96.0.10"));
  EXPECT_EQ(service->cluster_ip[Index(Family::kIpv6)], IpAddress::Parse("fd00::10"));
  EXPECT_THAT(Texts(service->external_ips), ElementsAre("192.0.2.7", "fd01::7"));
  EXPECT_THAT(Texts(service->load_balancer_ips), ElementsAre("192.0.2.8", "fd01::8"));
  EXPECT_THAT(service->ports,
              ElementsAre(proxy::ServicePort{"dns", proxy::Protocol::kUdp, 53, 30053},
                          proxy::ServicePort{"dns-tcp", proxy::Protocol::kTcp, 53, 0},
                          proxy::ServicePort{"sig", proxy::Protocol::kSctp, 53, 0}));
}

TEST(ConvertServiceTest, PortRanges) {
  const auto [service, findings] = Web(R"(
spec:
  clusterIP: 10.96.0.10
  ports:
  - {name: media, port: 10000, endPort: 20000, protocol: UDP}
  - {name: more, port: 20001, endPort: 20001, protocol: UDP}
  - {name: control, port: 15000, endPort: 16000}
  - {name: one, port: 15000, protocol: UDP}
)");
  ASSERT_NE(service, nullptr);
  EXPECT_THAT(findings, IsEmpty());
  ASSERT_THAT(service->ports, SizeIs(4));
  EXPECT_EQ(service->ports[0].end_port, 20000);
  EXPECT_TRUE(service->ports[1].is_range());
  EXPECT_FALSE(service->ports[3].is_range());
}

TEST(ConvertServiceTest, TheAnnotationEndPortsMakesPortsRanges) {
  const auto with = [](const std::string& value, const std::string& fields) {
    return Service(
        absl::StrCat("metadata: {namespace: shop, name: web, annotations: {svcmap/end-ports: '",
                     value, "'}}\nspec: {clusterIP: 10.96.0.10, ", fields, "}\n"));
  };
  const std::string ports =
      "ports: [{name: a, port: 1000}, {name: b, port: 2000}, {name: c, port: 3000, nodePort: "
      "30000},"
      " {name: d, port: 1000, protocol: UDP}, {name: e, port: 9000, endPort: 9999}]";
  const std::string prefix = "Service shop/web: metadata.annotations[\"svcmap/end-ports\"]: ";
  const struct {
    const char* value;
    std::vector<uint16_t> end_ports;  // Of a, b, c, d and e.
    std::vector<std::string> findings;
  } cases[] = {
      {"a=1999", {1999, 0, 0, 0, 9999}, {}},
      {" a=1999, b=2000 ,d=65535", {1999, 2000, 0, 65535, 9999}, {}},
      {"", {0, 0, 0, 0, 9999}, {"\"\": must have the form PORT-NAME=LAST-PORT"}},
      {"a:5000,d=x,b=3000",
       {0, 3000, 0, 0, 9999},
       {"\"a:5000\": must have the form PORT-NAME=LAST-PORT",
        "\"d=x\": must have the form PORT-NAME=LAST-PORT"}},
      {"f=5000,=5000,b=3000",
       {0, 3000, 0, 0, 9999},
       {"\"f=5000\": must contain the name of a port of the Service",
        "\"=5000\": must contain the name of a port of the Service"}},
      {"a=999,d=65536,b=-3",
       {0, 0, 0, 0, 9999},
       {"\"a=999\": must be between 1000 and 65535, inclusive",
        "\"d=65536\": must be between 1000 and 65535, inclusive",
        "\"b=-3\": must be between 2000 and 65535, inclusive"}},
      {"c=4000,a=1001",
       {1001, 0, 0, 0, 9999},
       {"\"c=4000\": must not name a port with a nodePort, but spec.ports[2] has nodePort 30000"}},
  };
  for (const auto& c : cases) {
    const auto [service, findings] = with(c.value, ports);
    ASSERT_NE(service, nullptr) << c.value;
    std::vector<uint16_t> end_ports;
    for (const proxy::ServicePort& port : service->ports) end_ports.push_back(port.end_port);
    EXPECT_EQ(end_ports, c.end_ports) << c.value;
    std::vector<std::string> expected;
    for (const std::string& finding : c.findings) {
      expected.push_back(
          absl::StrCat(prefix, "Invalid value: ", finding, "; the entry is ignored"));
    }
    EXPECT_EQ(Texts(findings), expected) << c.value;
  }
  const auto [overlapping, overlaps] = with("a=2500,b=9000,b=3000,e=9100", ports);
  ASSERT_NE(overlapping, nullptr);
  EXPECT_EQ(overlapping->ports[0].end_port, 2500);
  EXPECT_EQ(overlapping->ports[1].end_port, 0);
  EXPECT_EQ(overlapping->ports[4].end_port, 9999);
  EXPECT_THAT(Texts(overlaps),
              ElementsAre(absl::StrCat(prefix,
                                       "Duplicate value: \"b=9000\": the range 2000-9000 overlaps "
                                       "the range of spec.ports[4]; the entry is ignored"),
                          HasSubstr("\"b=3000\""), HasSubstr("spec.ports[4]")));
  const auto [unnamed, none] = with("=65535", "ports: [{port: 1}]");
  ASSERT_NE(unnamed, nullptr);
  EXPECT_EQ(unnamed->ports[0].end_port, 65535);
  EXPECT_THAT(none, IsEmpty());
}

// A whole address has 256 map elements, so 257 external IPs exceed the limit of 65,536.
TEST(ConvertServiceTest, EndPortsThatExceedTheLimitLeaveTheOtherPorts) {
  std::string ips;
  for (int i = 0; i < 257; ++i) absl::StrAppend(&ips, "10.1.", i / 250, ".", i % 250 + 1, ", ");
  const auto [service, findings] = Service(absl::StrCat(
      "metadata: {namespace: shop, name: web, annotations: {svcmap/end-ports: all=65535}}\n"
      "spec: {clusterIP: 10.96.0.10, externalIPs: [",
      ips, "], ports: [{name: all, port: 1}, {name: dns, port: 53, protocol: UDP}]}\n"));
  ASSERT_NE(service, nullptr);
  EXPECT_THAT(service->ports, ElementsAre(proxy::ServicePort{"all", proxy::Protocol::kTcp, 1},
                                          proxy::ServicePort{"dns", proxy::Protocol::kUdp, 53}));
  EXPECT_THAT(
      Texts(findings),
      ElementsAre(
          "Service shop/web: metadata.annotations[\"svcmap/end-ports\"]: Too many: "
          "\"all=65535\": the number of map elements of the ports (257) times the number of "
          "IPv4 addresses (258) exceeds svcmap's limit of 65536; the annotation is ignored"));
}

TEST(ConvertEndpointSliceTest, TheAnnotationWeightAppliesToEndpointsWithoutWeight) {
  const std::string finding =
      "EndpointSlice shop/web-1: metadata.annotations[\"svcmap/weight\"]: Invalid value: ";
  const std::string expected = ": must be a number between 0 and 1000; the weight 1 is used";
  const struct {
    const char* value;
    std::vector<uint16_t> weights;
    std::vector<std::string> findings;
  } cases[] = {
      {"0", {0, 7}, {}},
      {"25", {25, 7}, {}},
      {"1000", {1000, 7}, {}},
      {"1001", {1, 7}, {finding + "\"1001\"" + expected}},
      {"-1", {1, 7}, {finding + "\"-1\"" + expected}},
      {"heavy", {1, 7}, {finding + "\"heavy\"" + expected}},
      {"", {1, 7}, {finding + "\"\"" + expected}},
  };
  for (const auto& c : cases) {
    const auto [slice, findings] = Slice(absl::StrCat(
        "metadata: {namespace: shop, name: web-1, labels: {kubernetes.io/service-name: web},\n"
        "           annotations: {svcmap/weight: '",
        c.value,
        "'}}\naddressType: IPv4\n"
        "endpoints: [{addresses: [10.1.0.1]}, {addresses: [10.1.0.2], weight: 7}]\n"));
    ASSERT_NE(slice, nullptr) << c.value;
    std::vector<uint16_t> weights;
    for (const proxy::Endpoint& endpoint : slice->endpoints) weights.push_back(endpoint.weight);
    EXPECT_EQ(weights, c.weights) << c.value;
    EXPECT_EQ(Texts(findings), c.findings) << c.value;
  }
}

// Leading zeros in IPv6 addresses, and single zeros in IPv4 addresses, are unambiguous.
TEST(ConvertServiceTest, S5_UnambiguousZerosCauseNoWarning) {
  const auto [service, findings] = Web(
      "spec: {clusterIP: '2001:0db8::0010', externalIPs: ['2001:db8:0::1', 10.0.0.0], "
      "loadBalancerSourceRanges: [0.0.0.0/0, '::/0', '2001:0db8::/32'], ports: [{port: 80}]}\n");
  ASSERT_NE(service, nullptr);
  EXPECT_THAT(findings, IsEmpty());
}

// S-3: combinations of clusterIP, clusterIPs and ipFamilies.
TEST(ConvertServiceTest, S3_EachFamilyHasTheClusterIpOfItsPlace) {
  const struct {
    const char* fields;
    const char* v4;
    const char* v6;
  } cases[] = {
      {"clusterIP: 10.96.0.1", "10.96.0.1", ""},
      {"clusterIP: 'fd00::1'", "", "fd00::1"},
      {"clusterIP: 10.96.0.1, ipFamilies: [IPv4]", "10.96.0.1", ""},
      {"clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], ipFamilies: [IPv4, IPv6]", "10.96.0.1", ""},
      {"clusterIP: 'fd00::1', clusterIPs: ['fd00::1', 10.96.0.1], ipFamilies: [IPv6, IPv4]",
       "10.96.0.1", "fd00::1"},
      {"clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, 'fd00::1'], ipFamilies: [IPv4]", "10.96.0.1",
       ""},
      {"clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, 'fd00::1']", "10.96.0.1", ""},
  };
  const auto text = [](const std::optional<IpAddress>& ip) { return ip ? ip->ToString() : ""; };
  for (const auto& c : cases) {
    const auto [service, findings] =
        Web(absl::StrCat("spec: {", c.fields, ", ports: [{port: 80}]}"));
    ASSERT_NE(service, nullptr) << c.fields;
    EXPECT_EQ(text(service->cluster_ip[Index(Family::kIpv4)]), c.v4) << c.fields;
    EXPECT_EQ(text(service->cluster_ip[Index(Family::kIpv6)]), c.v6) << c.fields;
  }
}

TEST(ConvertServiceTest, S6_ExternalIpsAreNotModifiedWhereTheDaemonIsReportedSo) {
  const v1::Service message = Read(R"(
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: web}
spec: {clusterIP: 10.96.0.1, ports: [{port: 80}], externalIPs: [192.0.2.7],
       externalTrafficPolicy: Local}
)")
                                  .service();
  const auto [service, findings] =
      ConvertService(message, {.node_name = "n1", .external_ips = false});
  ASSERT_NE(service, nullptr);
  EXPECT_THAT(service->external_ips, IsEmpty());
  EXPECT_FALSE(ExternallyAccessible(*service, Family::kIpv4, service->ports[0]));
  EXPECT_THAT(Texts(findings),
              ElementsAre("Service shop/web: spec.externalIPs: Forbidden: svcmapd runs with "
                          "--no-external-ips or without the feature gate AllowServiceExternalIPs; "
                          "the external IPs are not programmed"));
}

// S-7: load balancer IPs depend neither on the Service type nor on spec.loadBalancerIP. S-8:
// nodePorts do not depend on the Service type.
TEST(ConvertServiceTest, S7_S8_VipsAndNodePortsCountWhateverTheType) {
  const auto [service, findings] =
      Web("spec: {type: ClusterIP, clusterIP: 10.96.0.1, loadBalancerIP: 192.0.2.1,\n"
          "       ports: [{port: 80, nodePort: 30080}]}\n"
          "status: {loadBalancer: {ingress: [{ip: 192.0.2.008}, {ip: 'fd01::8'}]}}\n");
  ASSERT_NE(service, nullptr);
  EXPECT_THAT(Texts(findings),
              ElementsAre(HasSubstr("status.loadBalancer.ingress[0].ip: Invalid "
                                    "value: \"192.0.2.008\": must not have leading "
                                    "0s; 192.0.2.8 is used")));
  EXPECT_THAT(Texts(service->load_balancer_ips), ElementsAre("192.0.2.8", "fd01::8"));
  EXPECT_EQ(service->ports[0].node_port, 30080);
}

TEST(ConvertServiceTest, S9_ExternallyAccessibleIsDecidedPerFamilyAndPort) {
  const auto [service, findings] =
      Web("spec: {clusterIP: 10.96.0.1, externalIPs: [192.0.2.7],\n"
          "       ports: [{name: a, port: 80}, {name: b, port: 81, nodePort: 30081}]}\n");
  ASSERT_NE(service, nullptr);
  EXPECT_TRUE(ExternallyAccessible(*service, Family::kIpv4, service->ports[0]));
  EXPECT_FALSE(ExternallyAccessible(*service, Family::kIpv6, service->ports[0]));
  EXPECT_TRUE(ExternallyAccessible(*service, Family::kIpv6, service->ports[1]));
}

// S-15: settings that affect a proxy only through EndpointSlices are ignored.
TEST(ConvertServiceTest, S15_FieldsThatAProxyDoesNotReadChangeNothing) {
  const auto [service, findings] = Service(
      "metadata: {namespace: shop, name: web,\n"
      "           annotations: {service.kubernetes.io/topology-mode: Auto}}\n"
      "spec: {clusterIP: 10.96.0.1, ports: [{port: 80, targetPort: http}], selector: {app: web},\n"
      "       trafficDistribution: PreferSameNode, publishNotReadyAddresses: true,\n"
      "       allocateLoadBalancerNodePorts: false}\n");
  ASSERT_NE(service, nullptr);
  EXPECT_THAT(findings, IsEmpty());
  EXPECT_EQ(service->internal_policy, proxy::TrafficPolicy::kCluster);
  EXPECT_EQ(service->ports, std::vector<proxy::ServicePort>({{.port = 80}}));
}

TEST(ConvertServiceTest, S1_S2_WhatIsNotProxiedIsStoredWhateverElseItSays) {
  const char* const kSpecs[] = {
      "spec: {clusterIP: None, ports: [{port: 70000}]}",
      "spec: {type: ExternalName, clusterIP: 10.96.0.10, externalName: a.example}",
      "spec: {}",
  };
  for (const char* spec : kSpecs) {
    const auto [service, findings] = Web(spec);
    ASSERT_NE(service, nullptr) << spec;
    EXPECT_FALSE(service->proxied) << spec;
  }
  // A service-proxy-name label excludes the Service even if the label value is empty. svcmapd must
  // handle the Service like a deleted Service (S-1).
  const auto [labelled, findings] = Service(
      "metadata: {namespace: shop, name: web, labels: {service.kubernetes.io/service-proxy-name: "
      "''}}\n"
      "spec: {clusterIP: 10.96.0.10, ports: [{port: 70000}]}");
  ASSERT_NE(labelled, nullptr);
  EXPECT_FALSE(labelled->proxied);
  EXPECT_THAT(findings, IsEmpty());
}

TEST(ConvertServiceTest, S16_CreationTimeIsKeptAndBounded) {
  v1::Service message;
  message.mutable_metadata()->set_namespace_("shop");
  message.mutable_metadata()->set_name("web");
  EXPECT_EQ(ConvertService(message, kContext).value->created_unix_nanos, 0);
  auto* time = message.mutable_metadata()->mutable_creation_timestamp();
  EXPECT_EQ(ConvertService(message, kContext).value->created_unix_nanos, 1);
  time->set_seconds(1'700'000'000);
  time->set_nanos(5);
  EXPECT_EQ(ConvertService(message, kContext).value->created_unix_nanos, 1'700'000'000'000'000'005);
  time->set_seconds(std::numeric_limits<int64_t>::max());
  time->set_nanos(-1);
  EXPECT_GT(ConvertService(message, kContext).value->created_unix_nanos, 9'000'000'000'000'000'000);
}

TEST(ConvertServiceTest, WarningsAreBoundedAndCounted) {
  v1::Service message =
      Read(
          "apiVersion: v1\nkind: Service\nmetadata: {namespace: shop, name: web}\n"
          "spec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}")
          .service();
  for (int i = 0; i < 100'000; ++i) message.mutable_spec()->add_external_ips("bad");
  const auto [service, findings] = ConvertService(message, kContext);
  ASSERT_NE(service, nullptr);
  ASSERT_THAT(findings, SizeIs(kMaxWarnings + 1));
  EXPECT_EQ(findings.back().ToString(), "Service shop/web: 99984 more warnings omitted");
}

// Number of ports and addresses of a Service in addition to the clusterIPs.
struct ServiceSize {
  int ports = 1;
  int external_ips = 0;
  int load_balancer_ips = 0;
  const char* external_prefix = "198.18";
  const char* load_balancer_prefix = "198.19";
};

// Returns an IPv4 address if `prefix` is for example "198.18", or an IPv6 address if `prefix` is
// for example "fd01:".
std::string NumberedAddress(std::string_view prefix, int number) {
  const char* separator = prefix.back() == ':' ? ":" : ".";
  return absl::StrCat(std::string(prefix), separator, number / 256, separator, number % 256);
}

// Returns Service shop/web of the given size, with a clusterIP for each IP family. Ports beyond
// 65,535 are UDP ports. TCP ports also have a nodePort.
v1::Service ServiceOfSize(const ServiceSize& size) {
  v1::Service service =
      Read(
          "apiVersion: v1\nkind: Service\nmetadata: {namespace: shop, name: web}\n"
          "spec: {clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10, 'fd00::10'],\n"
          "       ipFamilies: [IPv4, IPv6]}\n")
          .service();
  v1::ServiceSpec& spec = *service.mutable_spec();
  for (int i = 0; i < size.ports; ++i) {
    v1::ServicePort& port = *spec.add_ports();
    port.set_name(absl::StrCat("p", i));
    port.set_port(i % 65535 + 1);
    if (i < 65535) port.set_node_port(port.port());
    port.set_protocol(i < 65535 ? "TCP" : "UDP");
  }
  for (int i = 0; i < size.external_ips; ++i) {
    spec.add_external_ips(NumberedAddress(size.external_prefix, i));
  }
  for (int i = 0; i < size.load_balancer_ips; ++i) {
    service.mutable_status()->mutable_load_balancer()->add_ingress()->set_ip(
        NumberedAddress(size.load_balancer_prefix, i));
  }
  return service;
}

TEST(ServiceSizeTest, PortsTimesAddressesAreAcceptedUpToTheLimit) {
  const ServiceSize sizes[] = {
      {.ports = 65535},
      {.ports = 256, .external_ips = 255},
      {.ports = 256, .load_balancer_ips = 255},
      {.ports = 256, .external_ips = 100, .load_balancer_ips = 155},
      {.ports = 1, .external_ips = 65535},
      // Each IP family has its own limit.
      {.ports = 256,
       .external_ips = 255,
       .load_balancer_ips = 255,
       .load_balancer_prefix = "fd01:"},
      // An address that is an external IP and a load balancer IP counts once.
      {.ports = 256,
       .external_ips = 255,
       .load_balancer_ips = 255,
       .load_balancer_prefix = "198.18"},
  };
  for (const ServiceSize& size : sizes) {
    const auto [service, findings] = ConvertService(ServiceOfSize(size), kContext);
    EXPECT_NE(service, nullptr) << size.ports << " ports";
    EXPECT_THAT(Texts(findings), IsEmpty()) << size.ports << " ports";
  }
}

TEST(ServiceSizeTest, ServiceAboveTheLimitIsRejectedWithTheFieldThatHasMost) {
  const std::pair<ServiceSize, const char*> cases[] = {
      {{.ports = 65537},
       "spec.ports: Too many: 65537: the number of ports (65537) times the number of IPv4 "
       "addresses (1) exceeds svcmap's limit of 65536"},
      {{.ports = 65535, .external_ips = 1},
       "spec.ports: Too many: 65535: the number of ports (65535) times the number of IPv4 "
       "addresses (2) exceeds svcmap's limit of 65536"},
      {{.ports = 256, .external_ips = 256},
       "spec.externalIPs: Too many: 256: the number of ports (256) times the number of IPv4 "
       "addresses (257) exceeds svcmap's limit of 65536"},
      {{.ports = 256, .external_ips = 100, .load_balancer_ips = 156},
       "status.loadBalancer.ingress: Too many: 156: the number of ports (256) times the number of "
       "IPv4 addresses (257) exceeds svcmap's limit of 65536"},
      {{.ports = 256, .external_ips = 256, .external_prefix = "fd01:"},
       "spec.externalIPs: Too many: 256: the number of ports (256) times the number of IPv6 "
       "addresses (257) exceeds svcmap's limit of 65536"},
  };
  for (const auto& [size, reason] : cases) {
    const auto [service, findings] = ConvertService(ServiceOfSize(size), kContext);
    EXPECT_EQ(service, nullptr) << reason;
    EXPECT_THAT(Texts(findings),
                ElementsAre(absl::StrCat("Service shop/web rejected: ", reason,
                                         "; the previously accepted version, if any, stays in "
                                         "effect")));
  }
}

TEST(ServiceSizeTest, AddressesThatAreNotProgrammedDoNotCount) {
  const v1::Service message = ServiceOfSize({.ports = 1000, .external_ips = 5000});
  EXPECT_NE(ConvertService(message, {.node_name = "n1", .external_ips = false}).value, nullptr);

  v1::Service headless = message;
  headless.mutable_spec()->set_cluster_ip("None");
  EXPECT_NE(ConvertService(headless, kContext).value, nullptr);

  // The Service has no IPv4 clusterIP, so the IPv4 addresses have no effect.
  v1::Service single_stack = message;
  single_stack.mutable_spec()->set_cluster_ip("fd00::10");
  single_stack.mutable_spec()->clear_cluster_ips();
  single_stack.mutable_spec()->clear_ip_families();
  EXPECT_NE(ConvertService(single_stack, kContext).value, nullptr);
}

TEST(ConvertSliceTest, S22_S23_S24_CarriesEndpointsAndPorts) {
  const auto [slice, findings] = WebSlice(R"(
addressType: IPv4
ports: [{name: "", port: 8080}, {name: dns, port: 53, protocol: UDP}]
endpoints:
- {addresses: [10.1.0.001, 10.1.0.9], nodeName: n1}
- {addresses: [10.1.0.2], nodeName: n2, conditions: {ready: false, terminating: true}}
- {addresses: [10.1.0.3], conditions: {ready: true, serving: false}}
)");
  ASSERT_NE(slice, nullptr);
  EXPECT_THAT(Texts(findings), ElementsAre(HasSubstr("endpoints[0].addresses[0]: Invalid value: "
                                                     "\"10.1.0.001\": must not have leading 0s")));
  EXPECT_EQ(slice->key, "shop/web-1");
  EXPECT_EQ(slice->service_key, "shop/web");
  ASSERT_THAT(slice->ports, SizeIs(2));
  EXPECT_EQ(slice->ports[0].name, "");
  EXPECT_EQ(slice->ports[1].protocol, proxy::Protocol::kUdp);
  ASSERT_THAT(slice->endpoints, SizeIs(3));
  EXPECT_EQ(slice->endpoints[0].address.ToString(), "10.1.0.1");
  EXPECT_TRUE(slice->endpoints[0].local);
  EXPECT_FALSE(slice->endpoints[1].local);
  EXPECT_FALSE(slice->endpoints[2].local);
  EXPECT_EQ(slice->endpoints[0].conditions, (proxy::EndpointConditions{true, true, false}));
  EXPECT_EQ(slice->endpoints[1].conditions, (proxy::EndpointConditions{false, true, true}));
  EXPECT_EQ(slice->endpoints[2].conditions, (proxy::EndpointConditions{true, false, false}));
}

TEST(ConvertSliceTest, S23_NothingIsLocalWithoutANodeName) {
  v1::EndpointSlice message;
  message.mutable_metadata()->set_namespace_("shop");
  message.mutable_metadata()->set_name("web-1");
  message.set_address_type("IPv4");
  v1::Endpoint* endpoint = message.add_endpoints();
  endpoint->add_addresses("10.1.0.1");
  endpoint->set_node_name("");
  EXPECT_FALSE(ConvertEndpointSlice(message, {}).value->endpoints[0].local);
}

// S-24: an absent condition has its default value.
TEST(ConvertSliceTest, S24_AbsentConditionsHaveTheirDefaults) {
  const struct {
    const char* conditions;
    proxy::EndpointConditions wanted;  // Expected conditions ready, serving and terminating.
  } cases[] = {
      {"{}", {true, true, false}},
      {"{ready: false}", {false, true, false}},
      {"{serving: false}", {true, false, false}},
      {"{terminating: true}", {true, true, true}},
      {"{ready: false, serving: null, terminating: true}", {false, true, true}},
      {"{ready: true, serving: true, terminating: true}", {true, true, true}},
      {"{ready: false, serving: false, terminating: false}", {false, false, false}},
  };
  for (const auto& c : cases) {
    const auto [slice, findings] = WebSlice(absl::StrCat(
        "addressType: IPv4\nendpoints: [{addresses: [10.1.0.1], conditions: ", c.conditions, "}]"));
    ASSERT_NE(slice, nullptr) << c.conditions;
    EXPECT_EQ(slice->endpoints.at(0).conditions, c.wanted) << c.conditions;
  }
}

TEST(ConvertSliceTest, WeightsAre1UnlessTheySaySo) {
  const auto [slice, findings] = WebSlice(R"(
addressType: IPv4
endpoints:
- {addresses: [10.1.0.1]}
- {addresses: [10.1.0.2], weight: 0}
- {addresses: [10.1.0.3], weight: 1000}
)");
  ASSERT_NE(slice, nullptr);
  EXPECT_THAT(findings, IsEmpty());
  EXPECT_EQ(slice->endpoints.at(0).weight, 1);
  EXPECT_EQ(slice->endpoints.at(1).weight, 0);
  EXPECT_EQ(slice->endpoints.at(2).weight, 1000);
  // svcmapd stores the message in memory and on disk, and includes the message in the
  // state token.
  const v1::EndpointSlice kept =
      ToObject(proxy::Kind::kEndpointSlice, slice->message).endpoint_slice();
  EXPECT_FALSE(kept.endpoints(0).has_weight());
  EXPECT_TRUE(kept.endpoints(1).has_weight());
  EXPECT_EQ(kept.endpoints(2).weight(), 1000u);
}

TEST(ConvertSliceTest, S23_LocalIsTheExactNameOfTheNodeAndNotItsZone) {
  const auto [slice, findings] = WebSlice(R"(
addressType: IPv4
endpoints:
- {addresses: [10.1.0.1], nodeName: n1}
- {addresses: [10.1.0.2], nodeName: N1}
- {addresses: [10.1.0.3], nodeName: n1.example}
- {addresses: [10.1.0.4], zone: n1}
)");
  ASSERT_NE(slice, nullptr);
  std::vector<bool> local;
  for (const proxy::Endpoint& endpoint : slice->endpoints) local.push_back(endpoint.local);
  EXPECT_THAT(local, ElementsAre(true, false, false, false));
}

// S-18: the label contains the name of the Service, which is in the namespace of the slice. Owner
// references are ignored.
TEST(ConvertSliceTest, S18_TheLabelNamesTheService) {
  const struct {
    const char* labels;
    const char* service_key;
  } cases[] = {{"{kubernetes.io/service-name: web}", "shop/web"},
               {"{kubernetes.io/service-name: ''}", ""},
               {"{kubernetes.io/service-name: other/web}", ""},
               {"{app: web}", ""}};
  for (const auto& c : cases) {
    const auto [slice, findings] = Slice(absl::StrCat(
        "metadata: {namespace: shop, name: web-1, ownerReferences: [{kind: Service, name: own}],\n"
        "           labels: ",
        c.labels, "}\naddressType: IPv4\n"));
    ASSERT_NE(slice, nullptr) << c.labels;
    EXPECT_EQ(slice->service_key, c.service_key) << c.labels;
  }
}

TEST(ConvertSliceTest, S20_APortWithoutNumberLeavesTheOthers) {
  const auto [slice, findings] = WebSlice(
      "addressType: IPv4\n"
      "ports: [{name: a}, {name: b, port: 0}, {name: c, port: 8080}, {name: d, port: 65536},\n"
      "        {name: e, port: -1}]\n");
  ASSERT_NE(slice, nullptr);
  ASSERT_THAT(slice->ports, SizeIs(1));
  EXPECT_EQ(slice->ports[0].name, "c");
  EXPECT_THAT(findings, SizeIs(4));
}

TEST(ConvertSliceTest, S19_FqdnSlicesAreStoredAndNotUsed) {
  const auto [slice, findings] = WebSlice("addressType: FQDN\nendpoints: [{addresses: [a.b]}]\n");
  ASSERT_NE(slice, nullptr);
  EXPECT_EQ(slice->service_key, "");
  EXPECT_THAT(slice->endpoints, IsEmpty());
}

TEST(ConvertSliceTest, S26_OfARepeatedAddressTheOneNotTerminatingCounts) {
  const auto [slice, findings] = WebSlice(R"(
addressType: IPv4
endpoints:
- {addresses: [10.1.0.1], conditions: {ready: false, terminating: true}}
- {addresses: [10.1.0.1], nodeName: n1}
- {addresses: [10.1.0.1], conditions: {ready: false}}
)");
  ASSERT_NE(slice, nullptr);
  ASSERT_THAT(slice->endpoints, SizeIs(1));
  EXPECT_TRUE(slice->endpoints[0].conditions.ready);
  EXPECT_TRUE(slice->endpoints[0].local);
  EXPECT_THAT(findings, SizeIs(2));
}

TEST(ConvertSliceTest, S17_HeadlessSlicesBelongToNoService) {
  const auto [slice, findings] = Slice(
      "metadata: {namespace: shop, name: web-1, labels: {kubernetes.io/service-name: web,\n"
      "           service.kubernetes.io/headless: ''}}\n"
      "addressType: IPv4\nendpoints: [{addresses: [127.0.0.1]}]\n");
  ASSERT_NE(slice, nullptr);
  EXPECT_EQ(slice->service_key, "");
  EXPECT_THAT(slice->endpoints, IsEmpty());
  EXPECT_THAT(findings, IsEmpty());
}

TEST(ConvertNodeTest, S109_InternalAddressesComeBeforeExternalOnes) {
  const auto [node, findings] = Node(R"(
metadata: {name: n1}
status:
  addresses: [{type: ExternalIP, address: 192.0.2.1}, {type: Hostname, address: n1},
              {type: InternalIP, address: 10.0.0.1}, {type: InternalIP, address: "fd00::1"}]
)");
  ASSERT_NE(node, nullptr);
  EXPECT_EQ(node->name, "n1");
  EXPECT_THAT(Texts(node->addresses), ElementsAre("10.0.0.1", "fd00::1", "192.0.2.1"));
}

TEST(ConvertNodeTest, S253_ANodeThatGoesIsNotEligible) {
  const struct {
    const char* name;
    const char* yaml;
    bool eligible;
  } cases[] = {
      {"an ordinary node", "metadata: {name: n1}\n", true},
      {"being deleted", "metadata: {name: n1, deletionTimestamp: '2026-03-01T10:00:00Z'}\n", false},
      {"about to be",
       "metadata: {name: n1}\nspec: {taints: [{key: ToBeDeletedByClusterAutoscaler}]}\n", false},
      {"any value and effect",
       "metadata: {name: n1}\nspec: {taints: [{key: a, effect: NoSchedule}, "
       "{key: ToBeDeletedByClusterAutoscaler, value: '1709287200', effect: NoExecute}]}\n",
       false},
      {"other taints",
       "metadata: {name: n1}\nspec: {taints: [{key: node.kubernetes.io/unschedulable, effect: "
       "NoSchedule}, {key: x/ToBeDeletedByClusterAutoscaler}]}\n",
       true},
  };
  for (const auto& c : cases) {
    const auto [node, findings] = Node(c.yaml);
    ASSERT_NE(node, nullptr) << c.name;
    EXPECT_EQ(node->eligible, c.eligible) << c.name;
    EXPECT_THAT(findings, IsEmpty()) << c.name;
  }
}

TEST(ConvertChangeTest, RejectedObjectsAreStillNamed) {
  v1::Change change;
  change.mutable_service()->mutable_metadata()->set_namespace_("shop");
  change.mutable_service()->mutable_metadata()->set_name("web");
  change.mutable_service()->mutable_spec()->set_cluster_ip("nonsense");
  const auto converted = ConvertChange(testing::Encoded(change), kContext);
  ASSERT_TRUE(converted.ok());
  EXPECT_FALSE(converted->change.has_value());
  EXPECT_EQ(converted->key, "shop/web");
  ASSERT_THAT(converted->findings, SizeIs(1));
  const v1::ObjectResult result = ToProto(converted->findings[0]);
  EXPECT_EQ(result.kind(), v1::KIND_SERVICE);
  EXPECT_EQ(result.namespace_(), "shop");
  EXPECT_EQ(result.name(), "web");
  EXPECT_EQ(result.severity(), v1::REFUSED);
  EXPECT_EQ(result.code(), v1::INVALID);
  EXPECT_EQ(result.field(), "spec.clusterIP");
  EXPECT_EQ(result.value(), "\"nonsense\"");
  EXPECT_EQ(result.reason(), "Invalid value: must be a valid IP address");
}

TEST(ConvertChangeTest, NothingAndUnknownKindsAreProtocolErrors) {
  EXPECT_EQ(ConvertChange({}, kContext).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ConvertObject(v1::Object(), kContext).status().code(),
            absl::StatusCode::kInvalidArgument);
  v1::ObjectRef ref;
  ref.set_name("web");
  EXPECT_EQ(ConvertRemoval(ref).status().code(), absl::StatusCode::kInvalidArgument);
  ref.set_kind(static_cast<v1::Kind>(77));
  EXPECT_EQ(ConvertRemoval(ref).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ConvertChangeTest, RemovalsNameTheirObject) {
  v1::Change change;
  change.mutable_remove()->set_kind(v1::KIND_SERVICE);
  change.mutable_remove()->set_name("web");
  auto converted = ConvertChange(testing::Encoded(change), kContext);
  ASSERT_TRUE(converted.ok());
  EXPECT_FALSE(converted->change.has_value());
  EXPECT_EQ(
      converted->findings[0].ToString(),
      "Service (no namespace)/web rejected: namespace: Required value; the previously accepted "
      "version, if any, stays in effect");
  change.mutable_remove()->set_namespace_("shop");
  converted = ConvertChange(testing::Encoded(change), kContext);
  ASSERT_TRUE(converted.ok() && converted->change.has_value());
  EXPECT_TRUE(converted->change->removal());
  EXPECT_EQ(converted->change->key, "shop/web");
}

// A port without a name in a manifest gets the API server's default, an empty name. Controllers
// must set the port name (S-20).
TEST(ConvertSliceTest, S20_PortWithoutNameIsSkippedWithAWarning) {
  v1::EndpointSlice slice;
  slice.mutable_metadata()->set_namespace_("shop");
  slice.mutable_metadata()->set_name("web-1");
  (*slice.mutable_metadata()->mutable_labels())["kubernetes.io/service-name"] = "web";
  slice.set_address_type("IPv4");
  slice.add_ports()->set_port(80);
  const Converted<proxy::EndpointSlice> converted = ConvertEndpointSlice(slice, {});
  ASSERT_NE(converted.value, nullptr);
  EXPECT_THAT(converted.value->ports, IsEmpty());
  ASSERT_EQ(converted.findings.size(), 1u);
  EXPECT_EQ(
      converted.findings[0].ToString(),
      "EndpointSlice shop/web-1: ports[0].name: Required value: the port is ignored; the name "
      "of an unnamed port is \"\"");
}

}  // namespace
}  // namespace svcmap::api
