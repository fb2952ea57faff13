#include "proxy/desired/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/unit/proxy/objects.h"
#include "tests/unit/proxy/row_text.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

EndpointAddress EndpointAt(std::string_view ip, uint16_t port) { return {Ip(ip), port}; }

TEST(ServiceCommentTest, IsTheNameOfTheServicePort) {
  EXPECT_EQ(ServiceComment("shop/web", "http"), "shop/web:http");
  EXPECT_EQ(ServiceComment("shop/web", ""), "shop/web:");
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

}  // namespace
}  // namespace svcmap::proxy
