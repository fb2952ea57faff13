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
using ::testing::HasSubstr;
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
      {"S-109: also where no interface has it",
       "primary",
       {"203.0.113.1", "fd00::7"},
       {"203.0.113.1", "fd00::7"}},
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

TEST(NodePortAddressesTest, S108_S143_PrimaryIsTheDefault) {
  const Node node{.name = "n1", .addresses = Ips({"192.0.2.7", "fd00::7"})};
  const std::vector<std::string> interfaces = {"192.0.2.7", "198.51.100.7", "fd00::7"};
  for (const char* setting : {"", "primary"}) {
    EXPECT_THAT(Accepted(setting, &node, interfaces), ElementsAre("192.0.2.7", "fd00::7"));
  }
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
      {"link-local IPv6 needs an interface", "10.0.0.0/8,fe80::/10", {}, {"10.0.0.7"}},
  };
  for (const auto& c : cases) {
    const Node node{.name = "n1", .addresses = Ips(c.node)};
    EXPECT_EQ(HealthCheckAddresses(*NodePortAddresses::Parse(c.setting), &node, Ips(interfaces)),
              Ips(c.listen))
        << c.name;
  }
}

TEST(NodePortAddressesTest, WhatIsNoAddressBlockIsNamed) {
  for (const std::string text : {"10.0.0.1", "primary,10.0.0.0/8", "10.0.0.0/8,,fd00::/8",
                                 "10.0.0.0/33", " 10.0.0.0/8", ","}) {
    const absl::StatusOr<NodePortAddresses> parsed = NodePortAddresses::Parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(parsed.status().message()),
                HasSubstr("must be \"primary\" or a comma-separated list of CIDRs"));
  }
}

}  // namespace
}  // namespace svcmap::proxy
