// Tests findings about ServiceCIDRs, the node's networks and the addresses that accept nodePorts.
#include "proxy/node/node_findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proxy/node/nodeport_addresses.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/proxy/objects.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using AddressList = std::vector<std::string>;

class NodeFindingsTest : public ::testing::Test {
 protected:
  void Apply(const std::vector<Change>& changes) {
    for (const Change& change : changes) store_.Apply(change, 1);
  }
  void AddInterface(const std::string& name, const std::string& address, uint8_t length) {
    addresses_.interfaces.push_back({Ip(address), length, name});
  }
  std::vector<std::string> Findings() {
    std::vector<IpAddress> interfaces;
    for (const InterfaceAddress& address : addresses_.interfaces) {
      interfaces.push_back(address.address);
    }
    const auto node = store_.nodes().find("n1");
    const std::vector<IpAddress> accepted = AcceptedNodePortAddresses(
        setting_, node == store_.nodes().end() ? nullptr : node->second.get(), interfaces);
    std::vector<std::string> texts;
    const std::string name = "n1";
    for (const Finding& finding : NodeFindings({.store = store_,
                                  .node_name = name,
                                  .addresses = addresses_,
                                  .node_port_addresses = setting_,
                                  .accepted = accepted,
                                  .pod_cidrs = pod_cidrs_,
                                  .max_elements = max_elements_})) {
      texts.push_back(finding.ToString());
    }
    return texts;
  }

  Store store_;
  NodeAddresses addresses_;
  NodePortAddresses setting_;
  std::vector<IpPrefix> pod_cidrs_;
  uint64_t max_elements_ = UINT64_MAX;
};

TEST_F(NodeFindingsTest, AServiceCidrMustNotOverlapTheNetworksOfTheNode) {
  const struct {
    const char* name;
    const char* address;
    uint8_t length;
    const char* cidr;
    const char* overlap;  // Empty if there is no finding.
  } cases[] = {
      {"apart", "192.0.2.1", 24, "10.96.0.0/16", ""},
      {"LAN inside", "10.96.50.1", 24, "10.96.0.0/16", "10.96.50.0/24 of interface eth0"},
      {"LAN around", "10.1.2.3", 8, "10.96.0.0/16", "10.0.0.0/8 of interface eth0"},
      {"IPv6", "fd00:96::1:1", 64, "fd00:96::/112", "fd00:96::/64 of interface eth0"},
      {"a single address", "10.96.50.1", 32, "10.96.0.0/16", ""},
      {"loopback", "127.0.0.1", 8, "127.0.0.0/16", ""},
      {"link-local", "169.254.1.1", 16, "169.254.0.0/16", ""},
  };
  for (const auto& c : cases) {
    addresses_ = {};
    AddInterface("eth0", c.address, c.length);
    Apply({AServiceCidr("kubernetes", {"10.5.0.0/16", c.cidr})});
    if (*c.overlap == 0) {
      EXPECT_THAT(Findings(), IsEmpty()) << c.name;
      continue;
    }
    const std::vector<std::string> findings = Findings();
    ASSERT_FALSE(findings.empty()) << c.name;
    EXPECT_THAT(
        findings.back(),
        HasSubstr("ServiceCIDR kubernetes: spec.cidrs[1]: Invalid value: " + std::string(c.cidr) +
                  ": must not overlap a network of the node or of "
                  "pods, but overlaps " +
                  c.overlap + ";"))
        << c.name;
  }
}

TEST_F(NodeFindingsTest, AServiceCidrMustNotContainPodsOrTheAddressOfTheNode) {
  AddInterface("eth0", "10.96.50.1", 32);
  pod_cidrs_ = {Cidr("10.96.0.0/20"), Cidr("10.96.0.0/20"), Cidr("10.244.0.0/16")};
  Apply({ANode("n1", {"10.96.50.1"}), AServiceCidr("kubernetes", {"10.96.0.0/16"})});
  EXPECT_THAT(Findings(),
              ElementsAre(HasSubstr("overlaps 10.96.0.0/20 of pods, 10.96.50.1 of this node; ")));
  for (int i = 1; i <= 3; ++i) {
    AddInterface("br" + std::to_string(i), "10.96.10" + std::to_string(i) + ".1", 24);
  }
  EXPECT_THAT(Findings(), ElementsAre(HasSubstr(" of interface br3 and 2 more; ")));
}

TEST_F(NodeFindingsTest, NodePortsNeedAnAddressOfTheNode) {
  const struct {
    const char* name;
    const char* setting;
    std::vector<std::string> node;  // Addresses of the Node object.
    std::vector<std::string> interfaces;
    std::vector<std::string> findings;
  } cases[] = {
      {"primary", "", {"192.0.2.1", "2001:db8::1"}, {"192.0.2.1", "2001:db8::1"}, {}},
      {"the primary address is on no interface",
       "",
       {"192.0.2.1", "2001:db8::1"},
       {"192.0.2.9", "2001:db8::1"},
       {"Node n1: status.addresses: Invalid value: 192.0.2.1: must be an address of an interface "
        "of this node; no address accepts connections to IPv4 nodePorts"}},
      {"no primary address: all addresses accept nodePorts", "", {}, {"192.0.2.9"}, {}},
      {"interfaces are not known", "", {"192.0.2.1"}, {}, {}},
      {"a CIDR with an address", "192.0.2.0/24", {}, {"192.0.2.9"}, {}},
      {"CIDRs without an address",
       "198.51.100.0/24,203.0.113.0/24,localhost",
       {"192.0.2.1"},
       {"192.0.2.1"},
       {"Node n1: nodePortAddresses: Invalid value: 198.51.100.0/24,203.0.113.0/24: must contain "
        "an address of an interface of this node; no address accepts connections to IPv4 "
        "nodePorts"}},
      {"only loopback addresses, on purpose", "localhost", {"192.0.2.1"}, {"192.0.2.1"}, {}},
  };
  for (const auto& c : cases) {
    store_ = Store();
    addresses_ = c.interfaces.empty() ? NodeAddresses() : NodeAddresses(Ips(c.interfaces));
    setting_ = *NodePortAddresses::Parse(c.setting);
    Apply({ANode("n1", c.node)});
    EXPECT_THAT(Findings(), IsEmpty()) << c.name << ": no Service has a nodePort";
    Apply({Web().At("fd00:96::1").NodePort(30080)});
    EXPECT_EQ(Findings(), c.findings) << c.name;
  }
}

TEST_F(NodeFindingsTest, NodePortsAtManyAddressesAreComparedWithTheMaximumOfElements) {
  setting_ = *NodePortAddresses::Parse("all");
  for (int i = 1; i <= 100; ++i) AddInterface("eth0", "192.0.2." + std::to_string(i), 32);
  AService service = AService("shop/web").At("10.96.0.1");
  for (uint16_t i = 0; i < 10; ++i) {
    service.Port(static_cast<uint16_t>(80 + i), "p" + std::to_string(i));
    service.NodePort(static_cast<uint16_t>(30000 + i));
  }
  Apply({service});
  const uint64_t elements = 4 * 10 * (100 + 1);
  max_elements_ = elements;
  EXPECT_THAT(Findings(), IsEmpty());
  --max_elements_;
  EXPECT_THAT(Findings(),
              ElementsAre("Node n1: nodePortAddresses: Too many: 100: addresses accept nodePorts, "
                          "so all Services and nodePorts together have more than --max-elements "
                          "4039 elements; --max-elements does not limit nodePorts"));
}

TEST_F(NodeFindingsTest, TheNodeMustExistIfOtherNodesDo) {
  AddInterface("eth0", "192.0.2.1", 24);
  EXPECT_THAT(Findings(), IsEmpty()) << "no Node at all";
  Apply({ANode("N1.example", {"192.0.2.1"})});
  EXPECT_THAT(Findings(), ElementsAre(HasSubstr(
                              "Node n1: metadata.name: Required value: no Node object has the "
                              "name of this node (--node-name), but other Node objects exist")));
  Apply({ANode("n1", {"192.0.2.1"})});
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(NodeFindingsTest, ReservedAddressesAreThoseOfTheNodeAndItsGateways) {
  AddInterface("lo", "127.0.0.1", 8);
  AddInterface("eth0", "192.0.2.2", 24);
  AddInterface("eth0", "fe80::1", 64);
  AddInterface("eth1", "192.0.2.2", 24);
  AddInterface("kube-ipvs0", "10.96.0.1", 32);
  AddInterface("nodelocaldns", "10.96.0.10", 32);
  addresses_.gateways = Ips({"192.0.2.1", "fe80::2"});
  const ReservedAddresses reserved = ReservedAddressesOf(addresses_);
  EXPECT_EQ(reserved.of_node, Ips({"192.0.2.2"}));
  EXPECT_EQ(reserved.of_gateways, Ips({"192.0.2.1"}));
}

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
