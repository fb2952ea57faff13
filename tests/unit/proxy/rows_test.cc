#include "proxy/desired/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/unit/proxy/objects.h"
#include "tests/unit/proxy/row_text.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

EndpointAddress EndpointAt(std::string_view ip, uint16_t port) { return {Ip(ip), port}; }

TEST(ServiceCommentTest, IsTheNameOfTheServicePort) {
  EXPECT_EQ(ServiceComment("shop/web", "http"), "shop/web:http");
  EXPECT_EQ(ServiceComment("shop/web", ""), "shop/web:");
}

TEST(ServiceCommentTest, LongOnesKeepTheirStartAndEndInAHash) {
  const std::string service = std::string(63, 'n') + "/" + std::string(63, 's');
  const std::string comment = ServiceComment(service, "http");
  EXPECT_EQ(comment.size(), nft::Transaction::kMaxComment);
  EXPECT_THAT(comment, StartsWith(service.substr(0, 110) + "~"));
}

TEST(ServiceCommentTest, FitsAndIsUniqueForEveryLength) {
  std::set<std::string> comments;
  for (size_t service = 1; service <= 63; ++service) {
    for (size_t port = 0; port <= 15; ++port) {
      const std::string comment = ServiceComment(
          std::string(63, 'n') + "/" + std::string(service, 's'), std::string(port, 'p'));
      EXPECT_LE(comment.size(), nft::Transaction::kMaxComment);
      EXPECT_TRUE(comments.insert(comment).second) << comment;
    }
  }
}

TEST(ServiceCommentTest, IsCutOnlyWhereItMustBe) {
  const std::string service = std::string(63, 'n') + "/" + std::string(58, 's');
  EXPECT_EQ(ServiceComment(service, "http"), service + ":http");  // The comment has 127 bytes.
  EXPECT_NE(ServiceComment(service, "https"), service + ":https");
}

PortRows WebPort(Family family) {
  const bool v4 = family == Family::kIpv4;
  return {.family = family,
          .name = "http",
          .port = 80,
          .addresses = {{Ip(v4 ? "10.96.0.1" : "fd00:96::1"), 80, DispatchKind::kInternal},
                        {Ip(v4 ? "192.0.2.1" : "2001:db8::1"), 80, DispatchKind::kExternal},
                        {Ip(v4 ? "192.0.2.9" : "2001:db8::9"), 30080, DispatchKind::kExternal,
                         /*firewalled=*/false, /*node_port=*/true}}};
}

TEST(OwnRowsTest, APortWithEndpointsMapsEachAddressToADescriptor) {
  PortRows port = WebPort(Family::kIpv4);
  port.any = true;
  port.cluster = {0x010203, {EndpointAt("10.0.0.1", 8080), EndpointAt("10.0.0.2", 8080)}};
  EXPECT_THAT(Texts(OwnRows("shop/web", {.ports = {port}})),
              ElementsAre("service-ips 10.96.0.1 . tcp . 80 : 2.1.2.3 \"shop/web:http\"",
                          "service-ips 192.0.2.1 . tcp . 80 : 66.1.2.3 \"shop/web:http\"",
                          "service-ips 192.0.2.9 . tcp . 30080 : 66.1.2.3 \"shop/web:http\""));
}

TEST(OwnRowsTest, APortWithoutEndpointsIsRejectedAtEachAddress) {
  EXPECT_THAT(Texts(OwnRows("shop/web", {.ports = {WebPort(Family::kIpv4)}})),
              ElementsAre("no-endpoint-services 10.96.0.1 . tcp . 80 \"shop/web:http\"",
                          "no-endpoint-services 192.0.2.1 . tcp . 80 \"shop/web:http\"",
                          "no-endpoint-nodeports 192.0.2.9 . tcp . 30080 \"shop/web:http\""));
}

TEST(OwnRowsTest, ProtocolsAreReported) {
  PortRows port = WebPort(Family::kIpv4);
  port.addresses.resize(1);
  port.protocol = Protocol::kSctp;
  EXPECT_THAT(Texts(OwnRows("a", {.ports = {port}})),
              ElementsAre("no-endpoint-services 10.96.0.1 . sctp . 80 \"a:http\""));
}

uint32_t FoldedSum(std::span<const uint8_t> bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i < bytes.size(); i += 2) sum += bytes[i] << 8 | bytes[i + 1];
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum == 0xffff ? 0 : sum;
}

TEST(OwnRowsTest, Ipv6DescriptorsAreChecksumNeutral) {
  PortRows port = WebPort(Family::kIpv6);
  port.any = true;
  for (const uint32_t group : {1u, 0xffffu, 0x10000u, kMaxGroup}) {
    port.cluster = {group, {EndpointAt("fd00::1", 8080)}};
    const std::vector<Row> rows = OwnRows("shop/web", {.ports = {port}});
    ASSERT_EQ(rows.size(), 3u);
    for (const Row& row : rows) {
      EXPECT_EQ(FoldedSum(row.key.bytes().first(16)), FoldedSum(row.data.bytes()))
          << Text(row.view());
    }
  }
}

TEST(SharedRowsTest, AreClusterIpsPingAddressesAndHairpins) {
  PortRows port = WebPort(Family::kIpv4);
  port.protocol = Protocol::kUdp;
  port.cluster = {1, {EndpointAt("10.0.0.1", 53), EndpointAt("10.0.0.2", 53)}};
  port.hairpins = {EndpointAt("10.0.0.2", 53)};
  const ServiceRows rows{.cluster_ips = Ips({"10.96.0.1", "fd00:96::1"}),
                         .ping_addresses = Ips({"10.96.0.1", "2001:db8::1"}),
                         .ports = {port}};
  EXPECT_THAT(Texts(SharedRows(rows)),
              UnorderedElementsAre("cluster-ips 10.96.0.1", "cluster-ips fd00:96::1",
                                   "ping-addresses 10.96.0.1", "ping-addresses 2001:db8::1",
                                   "hairpin-connections 10.0.0.2 . 10.0.0.2 . udp . 53"));
  EXPECT_THAT(SharedRows({}), IsEmpty());
}

TEST(SharedRowsTest, SelfEndpointsAreDestinationsWithTheAddressAndPortOfAnEndpoint) {
  const auto self_endpoints = [](const PortRows& port) {
    return Texts(SharedRows({.ports = {port}}));
  };
  const EndpointAddress self = EndpointAt("192.0.2.1", 80);
  PortRows port{.family = Family::kIpv4,
                .port = 80,
                .addresses = {{Ip("10.96.0.1"), 80, DispatchKind::kInternal},
                              {Ip("192.0.2.1"), 80, DispatchKind::kExternal},
                              {Ip("192.0.2.9"), 30080, DispatchKind::kExternal, false, true}}};
  port.cluster = {1, {EndpointAt("192.0.2.1", 81), EndpointAt("192.0.2.9", 80)}};
  EXPECT_THAT(self_endpoints(port), IsEmpty()) << "other ports";
  port.cluster = {1, {EndpointAt("10.96.0.1", 80)}};
  EXPECT_THAT(self_endpoints(port), IsEmpty()) << "a clusterIP";
  port.cluster = {1, {self, EndpointAt("192.0.2.9", 30080), self}};  // Two slots of `self`.
  port.local = {2, {self}};
  EXPECT_THAT(self_endpoints(port), UnorderedElementsAre("self-endpoints 192.0.2.1 . tcp",
                                                         "self-endpoints 192.0.2.9 . tcp"));
  port.end_port = 90;
  port.cluster = {};
  port.local = {2, {EndpointAt("192.0.2.1", 0)}};
  EXPECT_THAT(self_endpoints(port), ElementsAre("self-endpoints 192.0.2.1 . tcp"));
}

TEST(SharedRowsTest, ResetServicesAreTheDestinationsOfTcpPorts) {
  PortRows tcp = WebPort(Family::kIpv4);
  PortRows udp = WebPort(Family::kIpv6);
  udp.protocol = Protocol::kUdp;
  const ServiceRows rows{.tcp_resets = TcpResets::kStrict, .ports = {tcp, udp}};
  EXPECT_THAT(Texts(SharedRows(rows)),
              UnorderedElementsAre("reset-services 10.96.0.1 . tcp . 80",
                                   "reset-services 192.0.2.1 . tcp . 80",
                                   "reset-services 192.0.2.9 . tcp . 30080"));
  EXPECT_THAT(SharedRows({.tcp_resets = TcpResets::kLoose, .ports = {tcp, udp}}), IsEmpty());
}

TEST(EndpointRowTest, IsNamedByGroupAndSlot) {
  EXPECT_EQ(
      Text(
          EndpointRow({Family::kIpv4, kEndpoints}, 0x010203, 7, EndpointAt("10.0.0.1", 80)).view()),
      "endpoints 0x10203 . 7 : 10.0.0.1 . 80");
  EXPECT_EQ(Text(EndpointRow({Family::kIpv6, kEndpoints}, kMaxGroup, kMaxEndpoints - 1,
                             EndpointAt("fd00::1", 80))
                     .view()),
            "endpoints 0xffffff . 65534 : fd00::1 . 80");
}

}  // namespace
}  // namespace svcmap::proxy
