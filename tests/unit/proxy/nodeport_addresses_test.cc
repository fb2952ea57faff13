#include "proxy/node/nodeport_addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/unit/proxy/objects.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using AddressList = std::vector<std::string>;

AddressList Accepted(const std::string& setting, const Node* node, const AddressList& interfaces) {
  const absl::StatusOr<NodePortAddresses> wanted = NodePortAddresses::Parse(setting);
  EXPECT_OK(wanted);
  AddressList texts;
  for (const IpAddress& a : AcceptedNodePortAddresses(*wanted, node, Ips(interfaces))) {
    texts.push_back(a.ToString());
  }
  return texts;
}

const AddressList kInterfaces = {"127.0.0.1", "::1",     "192.0.2.7", "10.0.0.7",
                                 "fd00::7",   "fe80::7", "127.1.2.3"};

TEST(NodePortAddressesTest, Accepted) {
  const struct {
    const char* name;
    const char* setting;
    AddressList node;
    AddressList accepted;
  } cases[] = {
      {"S-109: the first of each family",
       "primary",
       {"192.0.2.7", "fd00::7", "10.0.0.7"},
       {"192.0.2.7", "fd00::7"}},
      {"S-108: primary when empty", "", {"10.0.0.7", "fd00::7"}, {"10.0.0.7", "fd00::7"}},
      {"S-109: the order of the families does not matter",
       "primary",
       {"fd00::7", "192.0.2.7", "10.0.0.7"},
       {"192.0.2.7", "fd00::7"}},
      {"S-109: not if no interface has the address",
       "primary",
       {"203.0.113.1", "fd00::7"},
       {"fd00::7"}},
      {"S-110: all of a family without a primary one",
       "primary",
       {"192.0.2.7"},
       {"192.0.2.7", "fd00::7", "fe80::7"}},
      {"S-110: a loopback address is no primary one",
       "primary",
       {"127.0.0.1", "fd00::7"},
       {"10.0.0.7", "192.0.2.7", "fd00::7"}},
      {"S-111: those inside the blocks",
       "10.0.0.0/8,fd00::/64",
       {"192.0.2.7"},
       {"10.0.0.7", "fd00::7"}},
      {"S-111: none inside", "172.16.0.0/12,fd99::/64", {}, {}},
      {"S-110: a family without block accepts all",
       "10.0.0.0/8",
       {},
       {"10.0.0.7", "fd00::7", "fe80::7"}},
      {"S-110: /0 cancels the others",
       "10.0.0.0/8,0.0.0.0/0,fd00::/64",
       {},
       {"10.0.0.7", "192.0.2.7", "fd00::7"}},
      {"S-112: all but loopback",
       "0.0.0.0/0,::/0",
       {},
       {"10.0.0.7", "192.0.2.7", "fd00::7", "fe80::7"}},
      {"S-113: loopback is never accepted", "127.0.0.0/8,::1/128", {}, {}},
      {"S-108: localhost accepts no other address", "localhost", {"192.0.2.7", "fd00::7"}, {}},
      {"S-112: all is every address but loopback",
       "all",
       {},
       {"10.0.0.7", "192.0.2.7", "fd00::7", "fe80::7"}},
      {"S-108: localhost and all",
       "localhost,all",
       {},
       {"10.0.0.7", "192.0.2.7", "fd00::7", "fe80::7"}},
      {"S-108: primary and localhost",
       "primary,localhost",
       {"192.0.2.7", "fd00::7"},
       {"192.0.2.7", "fd00::7"}},
      {"S-108: localhost contains both families, so an unknown primary address has no effect",
       "localhost,primary",
       {"192.0.2.7"},
       {"192.0.2.7"}},
      {"S-108: primary and CIDRs",
       "10.0.0.0/8,primary",
       {"192.0.2.7", "fd00::7"},
       {"10.0.0.7", "192.0.2.7", "fd00::7"}},
      {"S-110: primary without an address, and a CIDR of one family",
       "primary,10.0.0.0/8",
       {},
       {"10.0.0.7", "fd00::7", "fe80::7"}},
      {"S-110: a /0 CIDR also cancels primary",
       "primary,0.0.0.0/0",
       {"192.0.2.7", "fd00::7"},
       {"10.0.0.7", "192.0.2.7", "fd00::7"}},
  };
  for (const auto& c : cases) {
    const Node node{.name = "n1", .addresses = Ips(c.node)};
    EXPECT_EQ(Accepted(c.setting, &node, kInterfaces), c.accepted) << c.name;
  }
}

TEST(NodePortAddressesTest, WithoutANodeObjectAllAddressesAreAccepted) {
  EXPECT_THAT(Accepted("primary", nullptr, {"192.0.2.7", "127.0.0.1"}), ElementsAre("192.0.2.7"));
  EXPECT_THAT(Accepted("primary", nullptr, {}), IsEmpty());
}

TEST(NodePortAddressesTest, AreAscendingAndEachOnce) {
  EXPECT_THAT(Accepted("0.0.0.0/0", nullptr, {"10.0.0.9", "10.0.0.1", "10.0.0.9"}),
              ElementsAre("10.0.0.1", "10.0.0.9"));
}

TEST(HealthCheckAddressesTest, S260_AreTheAcceptedOnesOrTheWildcardWhereAllAreAccepted) {
  const std::vector<std::string> interfaces = {"127.0.0.1", "192.0.2.7", "10.0.0.7",
                                               "::1",       "fd00::7",   "fe80::7"};
  const struct {
    const char* name;
    std::string setting;
    std::vector<std::string> node;
    std::vector<std::string> listen;
  } cases[] = {
      {"primary", "primary", {"192.0.2.7", "fd00::7"}, {"192.0.2.7", "fd00::7"}},
      {"no primary of a family", "primary", {"192.0.2.7"}, {"192.0.2.7", "::"}},
      {"those inside the blocks", "10.0.0.0/8,fd00::/64", {}, {"10.0.0.7", "fd00::7"}},
      {"none inside", "172.16.0.0/12,fd99::/64", {}, {}},
      {"no block of a family", "192.0.2.0/24", {}, {"192.0.2.7", "::"}},
      {"/0 cancels the others", "10.0.0.0/8,0.0.0.0/0,::/0", {}, {"0.0.0.0", "::"}},
      {"all", "all", {"192.0.2.7"}, {"0.0.0.0", "::"}},
      {"localhost", "localhost", {"192.0.2.7"}, {}},
      {"primary and a CIDR",
       "primary,10.0.0.0/8,localhost",
       {"192.0.2.7", "fd00::7"},
       {"10.0.0.7", "192.0.2.7", "fd00::7"}},
      {"link-local IPv6 needs an interface", "10.0.0.0/8,fe80::/10", {}, {"10.0.0.7"}},
  };
  for (const auto& c : cases) {
    const Node node{.name = "n1", .addresses = Ips(c.node)};
    EXPECT_EQ(HealthCheckAddresses(*NodePortAddresses::Parse(c.setting), &node, Ips(interfaces)),
              Ips(c.listen))
        << c.name;
  }
}

TEST(NodePortAddressesTest, S113_OnlyExplicitLoopbackAddressesAreListed) {
  const struct {
    const char* setting;
    AddressList listed;
  } cases[] = {
      {"localhost", {"127.0.0.1", "::1"}},
      {"primary,localhost", {"127.0.0.1", "::1"}},
      {"127.0.0.0/8", {"127.0.0.1"}},
      {"0.0.0.0/0,127.0.0.1/32", {"127.0.0.1"}},
      {"::1/128", {"::1"}},
      {"127.0.0.2/32", {}},
      {"all", {}},
      {"0.0.0.0/0,::/0", {}},
      {"126.0.0.0/7,::/127", {}},
      {"primary", {}},
      {"", {}},
  };
  for (const auto& c : cases) {
    const absl::StatusOr<NodePortAddresses> wanted = NodePortAddresses::Parse(c.setting);
    ASSERT_OK(wanted) << c.setting;
    EXPECT_EQ(ListedLoopbackAddresses(*wanted), Ips(c.listed)) << c.setting;
  }
}

TEST(NodePortAddressesTest, AnInvalidItemIsNamed) {
  const struct {
    const char* text;
    const char* item;
  } cases[] = {{"10.0.0.1", "10.0.0.1"},
               {"10.0.0.0/8,,fd00::/8", ""},
               {"10.0.0.0/33", "10.0.0.0/33"},
               {" 10.0.0.0/8", " 10.0.0.0/8"},
               {",", ""},
               {"primary,Localhost", "Localhost"},
               {"all, localhost", " localhost"}};
  for (const auto& c : cases) {
    const absl::StatusOr<NodePortAddresses> parsed = NodePortAddresses::Parse(c.text);
    ASSERT_FALSE(parsed.ok()) << c.text;
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(parsed.status().message()),
              std::string("Invalid value: \"") + c.item +
                  "\": must be \"primary\", \"localhost\", \"all\" or a CIDR, such as "
                  "\"192.0.2.0/24\"");
  }
}

TEST(PingTargetTest, IsTheNodesAddressIfAnInterfaceHasIt) {
  const auto target = [](const AddressList& node, const AddressList& interfaces, Family family) {
    const Change object = ANode("n1", node);
    const auto found = PingTarget(object.node.get(), Ips(interfaces), family);
    return found ? found->ToString() : "none";
  };
  const AddressList node = {"192.0.2.7", "fd00::7"};
  EXPECT_EQ(target(node, kInterfaces, Family::kIpv4), "192.0.2.7");
  EXPECT_EQ(target(node, kInterfaces, Family::kIpv6), "fd00::7");
  EXPECT_EQ(target({"198.51.100.1"}, kInterfaces, Family::kIpv4), "10.0.0.7");
  EXPECT_EQ(target({"198.51.100.1"}, kInterfaces, Family::kIpv6), "fd00::7");
  EXPECT_EQ(target(node, {"127.0.0.1", "::1", "fe80::7", "169.254.1.1"}, Family::kIpv4), "none");
  EXPECT_EQ(target(node, {"127.0.0.1", "::1", "fe80::7"}, Family::kIpv6), "none");
  EXPECT_EQ(PingTarget(nullptr, Ips({"10.0.0.9", "10.0.0.7"}), Family::kIpv4),
            IpAddress::Parse("10.0.0.7"));
}

}  // namespace
}  // namespace svcmap::proxy
