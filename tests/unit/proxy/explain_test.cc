// Tests of Explain with the decisions and flows from docs/specification.md, sections 3.2, 3.9 and
// 3.10.
#include "proxy/explain/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/proxy/objects.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr char kPod[] = "10.64.1.77";
constexpr char kNode[] = "192.0.2.10";
constexpr char kOutside[] = "203.0.113.9";
constexpr char kBlocked[] = "203.0.113.200";
constexpr char kVip[] = "198.51.100.20";
constexpr char kExternal[] = "198.51.100.40";
constexpr char kClusterIp[] = "10.96.3.1";
constexpr char kL1[] = "10.64.1.11";
constexpr char kL2[] = "10.64.1.12";
constexpr char kR1[] = "10.64.2.21";
constexpr char kR2[] = "10.64.3.22";
constexpr uint16_t kExplainedNodePort = 31001;

// Formats an explanation. "c -" means the cluster endpoint set without masquerading. "l m" means
// the local endpoint set with masquerading.
std::string Outcome(const Explanation& explanation) {
  switch (explanation.verdict) {
    case Verdict::kReject:
      return "REJECT";
    case Verdict::kDrop:
      return "DROP";
    case Verdict::kUntouched:
      return "untouched";
    case Verdict::kDnat:
      break;
  }
  std::string text = explanation.set == ChosenSet::kCluster ? "c" : "l";
  for (const ExplainedEndpoint& endpoint : explanation.endpoints) {
    const char* mark = endpoint.masquerade ? " m" : " -";
    // Append a mark only if the mark differs from the previous endpoint's mark.
    if (!text.ends_with(mark)) text += mark;
  }
  return text;
}

std::vector<std::string> EndpointTexts(const Explanation& explanation) {
  std::vector<std::string> texts;
  for (const auto& endpoint : explanation.endpoints)
    texts.push_back(endpoint.address.ip.ToString());
  return texts;
}

std::string StepOf(const Explanation& explanation, const std::string& what) {
  std::string text;
  for (const Step& step : explanation.steps) {
    if (step.what == what) text += step.text + " (" + step.rules + ")";
  }
  return text;
}

class ExplainTest : public ::testing::Test {
 protected:
  ExplainTest() { Apply({AServiceCidr("kubernetes", {"10.96.0.0/16"})}); }

  void Apply(const std::vector<Change>& changes) {
    for (const Change& change : changes) store_.Apply(change, 1);
  }

  // Stores a Service with clusterIP, external IP, load balancer IP and nodePort.
  void Web(
      const std::function<void(AService&)>& edit = [](AService&) {},
      const std::string& port_name = "http") {
    AService service("shop/web");
    service.At(kClusterIp).External(kExternal).LoadBalancer(kVip).Port(80, port_name);
    service.NodePort(kExplainedNodePort);
    edit(service);
    Apply({service});
  }
  void Slice(const std::function<void(ASlice&)>& add) {
    ASlice slice("shop/web-1", "shop/web");
    slice.Port(8080, "http");
    add(slice);
    Apply({slice});
  }
  void LocalAndRemote() {
    Slice([](ASlice& slice) { slice.Local(kL1).Ready(kR1); });
  }

  Explained Ask(const std::string& to, uint16_t port, const std::string& from,
                const std::string& in_interface = "", Protocol protocol = Protocol::kTcp) {
    Question question{
        .in_interface = in_interface, .destination = Ip(to), .protocol = protocol, .port = port};
    if (from == "node") {
      question.from = Question::From::kNode;
    } else if (!from.empty()) {
      question.from = Question::From::kAddress;
      question.source = Ip(from);
    }
    NodeFacts node{{"n1", "za"}, node_port_addresses_, {Ip(kNode), Ip("2001:db8:5::10")}};
    node.tcp_resets = tcp_resets_;
    node.reset_stale_tcp = reset_stale_tcp_;
    node.port_ranges = ruleset_.port_ranges;
    const std::vector<IpAddress> interfaces = Ips({"127.0.0.1", kNode, "198.18.7.10"});
    return Explain(
        {store_, ruleset_, this_node_.get(), node, interfaces, localhost_node_ports_, findings_},
        question);
  }
  Explanation One(const std::string& to, uint16_t port, const std::string& from,
                  Protocol protocol = Protocol::kTcp) {
    const Explained explained = Ask(to, port, from, "", protocol);
    EXPECT_THAT(explained.cases, SizeIs(1)) << from;
    return explained.cases.at(0);
  }
  // Returns the outcomes for a pod, for the node and for an external client, in this order.
  std::string Row(const std::string& to, uint16_t port, Protocol protocol = Protocol::kTcp) {
    return Outcome(One(to, port, kPod, protocol)) + ", " + Outcome(One(to, port, kNode, protocol)) +
           ", " + Outcome(One(to, port, kOutside, protocol));
  }
  // Adds a standing finding of a Service. With an empty key, adds a finding of the node.
  void Find(const std::string& service, Finding finding) {
    standing_.push_back({.service = service, .finding = std::move(finding)});
    findings_.Replace({}, standing_);
  }

  Store store_;
  std::vector<PlanFinding> standing_;
  StandingFindings findings_;
  RulesetOptions ruleset_{.cluster_cidr = {Cidr("10.64.0.0/14"), Cidr("fd64::/64")}};
  std::shared_ptr<const Node> this_node_;
  std::vector<IpAddress> node_port_addresses_ = Ips({kNode});
  TcpResets tcp_resets_ = TcpResets::kOff;
  bool reset_stale_tcp_ = false;
  bool localhost_node_ports_[2] = {};
};

void ExternalLocal(AService& service) { service.ExternalLocal(); }
void Ranges(AService& service) {
  service.SourceRange("192.0.2.0/24").SourceRange("203.0.113.0/25");
}

TEST_F(ExplainTest, APortOfARangeLeadsToTheSamePort) {
  Apply({AService("shop/ranged")
             .At("10.96.3.9")
             .External(kExternal)
             .Port(1000, "range")
             .EndPort(2000),
         ASlice("shop/ranged-1", "shop/ranged").Port(1, "range").Local(kL1).Ready(kR1)});
  EXPECT_EQ(Row(kExternal, 1500), "untouched, untouched, untouched") << "without --port-ranges";
  const Explanation unused = One(kExternal, 1500, kPod);
  EXPECT_TRUE(std::ranges::any_of(unused.steps, [](const Step& step) {
    return step.text.find("1000-2000 of shop/ranged: not programmed") != std::string::npos;
  }));
  ruleset_.port_ranges = true;
  EXPECT_EQ(Row(kExternal, 1500), "c m, c m, c m");
  for (const uint16_t port : {1000, 2000}) EXPECT_EQ(Row("10.96.3.9", port), "c -, c m, c m");
  for (const uint16_t port : {999, 2001}) {
    EXPECT_EQ(Row(kExternal, port), "untouched, untouched, untouched") << port;
  }
  const Explanation explanation = One("10.96.3.9", 1500, kPod);
  ASSERT_THAT(explanation.endpoints, SizeIs(2));
  EXPECT_EQ(explanation.endpoints[0].address.port, 1500);
  const auto is_range = [](const Step& step) { return step.what == "range"; };
  EXPECT_TRUE(std::any_of(explanation.steps.begin(), explanation.steps.end(), is_range));
}

TEST_F(ExplainTest, S12_S32_S33_S34_S82_S84_S100_S122_TheStepNamesTheReason) {
  const auto none = [](ASlice&) {};
  const auto both = [](ASlice& slice) { slice.Local(kL1).Ready(kR1); };
  const auto plain = [](AService&) {};
  const auto hinted = [](const EndpointHints& local, const EndpointHints& remote) {
    return [=](ASlice& slice) { slice.Local(kL1).Hinted(local).Ready(kR1).Hinted(remote); };
  };
  const struct {
    const char* what;
    std::function<void(AService&)> service;
    std::function<void(ASlice&)> slice;
    const char* to;
    uint16_t port;
    const char* text;
    const char* from = kPod;
    Protocol protocol = Protocol::kTcp;
  } cases[] = {
      {"filter", plain, none, kClusterIp, 80, "rejected with a TCP reset"},
      {"filter", plain, none, kClusterIp, 443, "rejected with a TCP reset"},
      {"filter", plain, none, kClusterIp, 80, "rejected with ICMP port unreachable", kPod,
       Protocol::kUdp},
      {"service", plain, both, kClusterIp, 443,
       "clusterIP of shop/web, which does not have this port (S-82)"},
      {"service", plain, none, kVip, 443, "address of shop/web"},
      {"firewall", [](AService& service) { service.SourceRange("2001:db8::/32"); }, both, kVip, 80,
       "all sources are allowed", kBlocked},
      {"policy", [](AService& service) { service.ExternalLocal().RouteWithoutLocal(); },
       [](ASlice& slice) { slice.Ready(kR1).Ready(kR2); }, kExternal, 80,
       "svcmap/no-local-endpoint"},
      {"endpoints", plain, hinted({.zones = {"za"}}, {.zones = {"zb"}}), kClusterIp, 80,
       "topology hints: endpoints for zone za"},
      {"endpoints", plain, hinted({.nodes = {"n1"}}, {.nodes = {"n2"}}), kClusterIp, 80,
       "topology hints: endpoints for node n1"},
      {"endpoints", plain, both, kClusterIp, 80,
       "all ready endpoints; topology hints do not apply"},
      {"endpoints", ExternalLocal,
       [](ASlice& slice) { slice.Endpoint(kL1, kServingTerminating, true).Ready(kR1); }, kVip, 80,
       "no endpoint on this node is ready: terminating endpoints that are still serving (S-34)",
       kOutside},
      {"endpoints", plain, [](ASlice& slice) { slice.Endpoint(kR1, kServingTerminating); },
       kClusterIp, 80,
       "no endpoint is ready: all terminating endpoints that are still serving (S-33)"},
      {"affinity", [](AService& service) { service.Affinity(10800); }, both, kClusterIp, 80,
       "keeps its endpoint for 10800 s"},
      {"pick", [](AService& service) { service.Pick(PickBy::kClient, 251); }, both, kClusterIp, 80,
       "from a table with 251 slots"},
  };
  for (const auto& c : cases) {
    Web(c.service);
    Slice(c.slice);
    EXPECT_THAT(StepOf(One(c.to, c.port, c.from, c.protocol), c.what), HasSubstr(c.text));
  }
}

TEST_F(ExplainTest, S18_S28_SlicesThatBelongToNoServiceAreNamed) {
  const auto slices = [&] { return StepOf(One(kClusterIp, 80, kPod), "slices"); };
  Web();
  EXPECT_EQ(slices(),
            "no IPv4 EndpointSlice has the label kubernetes.io/service-name: web (S-18, S-28)");
  Apply({AService("shop/api").At("10.96.7.8").Port(80), ASlice("shop/api-1", "shop/api"),
         ASlice("shop/a", "shop/wbe"), ASlice("shop/b", ""), ASlice("mail/c", "mail/web")});
  EXPECT_EQ(slices(),
            "no IPv4 EndpointSlice has the label kubernetes.io/service-name: web; EndpointSlice "
            "shop/a names Service shop/wbe, which is not stored; EndpointSlice shop/b has no such "
            "label (S-18, S-28)");
  Apply({ASlice("shop/0", ""), ASlice("shop/c", "")});
  EXPECT_THAT(slices(), AllOf(HasSubstr("shop/0"), HasSubstr("shop/a"), HasSubstr("shop/b"),
                              Not(HasSubstr("shop/c"))));
  Slice([](ASlice&) {});
  EXPECT_EQ(slices(), "");
}

TEST_F(ExplainTest, S104WhatComesInForTheNodeItselfPassesNeitherForwardNorOutput) {
  const std::string bound = kNode;  // The clusterIP is also an address of the node.
  Apply({AService("shop/bound").At(bound).Port(53)});
  EXPECT_EQ(Row(bound, 80), "untouched, REJECT, untouched");
  Apply({NoService("shop/bound"), AServiceCidr("more", {"192.0.2.0/24"})});
  EXPECT_EQ(Row(bound, 80), "untouched, DROP, untouched");
}

TEST_F(ExplainTest, S86NodePortsAreNotModifiedWhereTheyAreNotAccepted) {
  Web();
  LocalAndRemote();
  EXPECT_EQ(Row("198.18.7.10", kExplainedNodePort), "untouched, untouched, untouched");  // S-171
  EXPECT_THAT(StepOf(One("198.18.7.10", kExplainedNodePort, kPod), "service"),
              HasSubstr("nodePort of shop/web, but the address does not accept nodePorts"));
  EXPECT_THAT(StepOf(One("127.0.0.1", kExplainedNodePort, "node"), "service"), HasSubstr("S-113"));
  node_port_addresses_.push_back(Ip("198.18.7.10"));
  EXPECT_EQ(Row("198.18.7.10", kExplainedNodePort), "c m, c m, c m");  // S-172
}

TEST_F(ExplainTest, S113NodePortsOnLocalhostAreForwarded) {
  Web();
  LocalAndRemote();
  localhost_node_ports_[Index(Family::kIpv4)] = true;
  const Explained explained = Ask("127.0.0.1", kExplainedNodePort, "");
  ASSERT_THAT(explained.cases, SizeIs(1));  // Only this node can reach the address.
  EXPECT_EQ(StepOf(explained.cases[0], "localhost"),
            "nodePort of shop/web: svcmapd accepts the connection and forwards it to an endpoint "
            "(S-113)");
  EXPECT_THAT(EndpointTexts(explained.cases[0]), UnorderedElementsAre(kL1, kR1));
  for (const ExplainedEndpoint& endpoint : explained.cases[0].endpoints) {
    EXPECT_EQ(endpoint.local, endpoint.address.ip == Ip(kL1)) << endpoint.address.ip.ToString();
  }
  const auto no_node_port =
      HasSubstr("nodePort of shop/web, but the address does not accept nodePorts");
  EXPECT_THAT(StepOf(One("127.0.0.2", kExplainedNodePort, "node"), "service"), no_node_port);
  EXPECT_THAT(StepOf(One("127.0.0.1", kExplainedNodePort, "node", Protocol::kUdp), "service"),
              HasSubstr("no Service has this address"));
  Slice([](ASlice&) {});
  EXPECT_EQ(StepOf(One("127.0.0.1", kExplainedNodePort, "node"), "localhost"),
            "nodePort of shop/web without endpoints: svcmapd resets connections (S-113)");
  localhost_node_ports_[Index(Family::kIpv4)] = false;
  EXPECT_THAT(StepOf(One("127.0.0.1", kExplainedNodePort, "node"), "service"), no_node_port);
}

TEST_F(ExplainTest, S116WithoutASourceTheRangesAreNamedAndPodsOutsideOfThemDropped) {
  Web(Ranges);
  LocalAndRemote();
  const Explained explained = Ask(kVip, 80, "");
  ASSERT_THAT(explained.cases, SizeIs(3));
  // No pod has an address in 192.0.2.0/24, so the packet is dropped.
  EXPECT_EQ(Outcome(explained.cases[0]), "DROP");
  EXPECT_EQ(Outcome(explained.cases[1]), "c m");
  EXPECT_THAT(StepOf(explained.cases[2], "firewall"),
              HasSubstr("only sources in loadBalancerSourceRanges 192.0.2.0/24, 203.0.113.0/25"));
}

TEST_F(ExplainTest, S97OnlyTheEndpointThatReachesItselfIsMasqueraded) {
  Web();
  LocalAndRemote();
  EXPECT_EQ(Outcome(One(kClusterIp, 80, kL1)), "c m -");
  EXPECT_THAT(StepOf(One(kClusterIp, 80, kL1), "hairpin"), HasSubstr("S-97"));
  EXPECT_EQ(Outcome(One(kClusterIp, 80, kR1)), "c -") << "not an endpoint of this node";
  EXPECT_THAT(StepOf(Ask(kClusterIp, 80, "").cases[0], "hairpin"),
              HasSubstr("an endpoint on this node that connects to itself"));
}

TEST_F(ExplainTest, S98AnEndpointThatIsAClusterIpIsReported) {
  Web();
  Slice([](ASlice& slice) { slice.Ready("10.96.3.9"); });
  EXPECT_EQ(StepOf(One(kClusterIp, 80, kPod), "filter"), "");
  Apply({AService("shop/chained").At("10.96.3.9").Port(8080)});
  EXPECT_THAT(StepOf(One(kClusterIp, 80, kPod), "filter"), HasSubstr("S-98"));
}

TEST_F(ExplainTest, ResetsOfStaleConnectionsAreReported) {
  Web([](AService& service) { service.ResetStaleTcp(true); });
  LocalAndRemote();
  EXPECT_EQ(StepOf(One(kClusterIp, 80, kPod), "resets"), "");
  tcp_resets_ = TcpResets::kLoose;
  EXPECT_THAT(StepOf(One(kClusterIp, 80, kPod), "resets"), HasSubstr("connection is reset if"));
  Web([](AService& service) { service.ResetStaleTcp(false); });
  EXPECT_THAT(StepOf(One(kClusterIp, 80, kPod), "resets"), HasSubstr("connection is not reset if"));
  reset_stale_tcp_ = true;
  Web([](AService&) {});
  EXPECT_THAT(StepOf(One(kClusterIp, 80, kPod), "resets"), HasSubstr("connection is reset if"));
}

TEST_F(ExplainTest, S66AndS67AnInterfaceThatIsNotNamedIsExplainedBothWays) {
  Web(ExternalLocal);
  LocalAndRemote();
  for (const bool prefix : {false, true}) {
    const std::string name = prefix ? "cni0*" : "cni0";
    ruleset_ = {.detect_local = DetectLocal::kInterface, .interface = name};
    const Explained both = Ask(kVip, 80, kPod);
    ASSERT_THAT(both.cases, SizeIs(2));
    EXPECT_EQ(Outcome(both.cases[0]), "c -");
    EXPECT_THAT(both.cases[0].source, HasSubstr("a pod if the packet arrives on " + name));
    EXPECT_EQ(Outcome(both.cases[1]), "l -");
    EXPECT_THAT(both.cases[1].source, HasSubstr("if the packet arrives on another interface"));

    EXPECT_EQ(Outcome(Ask(kVip, 80, kOutside, "cni0").cases[0]), "c -");
    EXPECT_EQ(Outcome(Ask(kVip, 80, kOutside, "cni01").cases[0]), prefix ? "c -" : "l -");
    EXPECT_THAT(Ask(kVip, 80, kOutside, "eth0").cases, SizeIs(1));
    EXPECT_EQ(Outcome(Ask(kVip, 80, "", "eth0").cases[0]), "l -");
  }
}

TEST_F(ExplainTest, S71WithoutADetectorPodsAreLikeAllOtherSources) {
  Web();
  LocalAndRemote();
  ruleset_ = {};
  const Explained explained = Ask(kClusterIp, 80, "");
  ASSERT_THAT(explained.cases, SizeIs(2));
  EXPECT_EQ(explained.cases[0].kind, SourceKind::kNode);
  EXPECT_EQ(explained.cases[1].source, "other sources, including pods");
  EXPECT_THAT(StepOf(explained.cases[1], "source"), HasSubstr("no IPv4 pod CIDR is known"));
}

TEST_F(ExplainTest, WithoutASourceEachColumnIsExplained) {
  Web();
  LocalAndRemote();
  const Explained explained = Ask(kClusterIp, 80, "");
  ASSERT_THAT(explained.cases, SizeIs(3));
  EXPECT_EQ(explained.cases[0].source, "a pod");
  EXPECT_EQ(explained.cases[1].source, "192.0.2.10, this node");
  EXPECT_EQ(explained.cases[2].source, "other sources");
  EXPECT_EQ(Outcome(explained.cases[0]), "c -");
  EXPECT_EQ(Outcome(explained.cases[1]), "c m");
  EXPECT_EQ(Outcome(explained.cases[2]), "c m");
}

TEST_F(ExplainTest, S203TheChainsOfIptablesModeAreNamedInTheOrderOfThePacket) {
  Apply({AService("shop/web").At(kClusterIp).Port(80),
         ASlice("shop/web-1", "shop/web").Port(8080).Ready("10.64.1.5")});
  Explanation explanation = One(kClusterIp, 80, kPod);
  EXPECT_THAT(explanation.kube_chains, ElementsAre("KUBE-SVC-E3PXEPMWAWIUT6ZV"));
  ASSERT_THAT(explanation.endpoints, SizeIs(1));
  EXPECT_EQ(explanation.endpoints[0].kube_sep, "KUBE-SEP-REGSAMVERWV4AOOM");

  const auto local_with_ranges = [](AService& service) {
    ExternalLocal(service);
    Ranges(service);
  };
  Web(local_with_ranges, /*port_name=*/"");
  Apply({ASlice("shop/web-1", "shop/web").Port(8080).Local(kL2)});
  EXPECT_THAT(One(kVip, 80, kOutside).kube_chains,
              ElementsAre("KUBE-FW-E3PXEPMWAWIUT6ZV", "KUBE-EXT-E3PXEPMWAWIUT6ZV",
                          "KUBE-SVL-E3PXEPMWAWIUT6ZV"));
}

TEST_F(ExplainTest, S38_EndpointsHaveTheSlotsOfTheirWeights) {
  Web();
  Slice([](ASlice& slice) {
    slice.Local(kL1).Weight(30).Ready(kR1).Weight(10).Ready(kR2).Weight(0);
  });
  const Explanation explanation = One(kClusterIp, 80, kPod);
  ASSERT_THAT(explanation.endpoints, SizeIs(2));
  EXPECT_EQ(explanation.endpoints[0].slots, 3u);
  EXPECT_EQ(explanation.endpoints[1].slots, 1u);
  EXPECT_THAT(StepOf(explanation, "endpoints"), HasSubstr("1 endpoint is drained (weight 0)"));

  Slice([](ASlice& slice) { slice.Local(kL1).Weight(0).Ready(kR1).Weight(0); });
  EXPECT_EQ(Outcome(One(kClusterIp, 80, kPod)), "REJECT");
  EXPECT_THAT(StepOf(One(kVip, 80, kOutside), "endpoints"),
              HasSubstr("2 endpoints are drained (weight 0) and receive no new connections"));
}

TEST_F(ExplainTest, APickByHashNamesTheEndpointOfAKnownClient) {
  const auto make = [&](PickBy pick_by) {
    Apply({AService("shop/hash").At("10.96.7.7").Port(80).Pick(pick_by),
           ASlice("shop/hash-1", "shop/hash").Port(8080).Local(kL1).Ready(kR1).Ready(kR2)});
  };
  make(PickBy::kClient);
  const Explanation known = One("10.96.7.7", 80, kPod);
  EXPECT_THAT(StepOf(known, "pick"), HasSubstr("selects endpoint 10.64."));
  ASSERT_THAT(known.endpoints, SizeIs(3));
  EXPECT_EQ(known.endpoints[0].slots + known.endpoints[1].slots + known.endpoints[2].slots, 251u);
  make(PickBy::kClientAndPort);
  EXPECT_THAT(StepOf(One("10.96.7.7", 80, kPod), "pick"),
              HasSubstr("a hash of client address and port selects the endpoint from a table"));
}

TEST_F(ExplainTest, EveryExplanationBeginsWithItsSourceAndEveryStepIsOneSentence) {
  Web(Ranges);
  LocalAndRemote();
  for (const auto& [to, port] :
       std::vector<std::pair<const char*, uint16_t>>{{kClusterIp, 80},
                                                     {kVip, 80},
                                                     {kNode, kExplainedNodePort},
                                                     {"10.96.200.1", 1},
                                                     {kNode, 22}}) {
    for (const Explanation& explanation : Ask(to, port, "").cases) {
      EXPECT_EQ(explanation.steps.at(0).what, "source");
      for (const Step& step : explanation.steps) {
        EXPECT_THAT(step.text, ::testing::Not(HasSubstr("\n")));
        EXPECT_THAT(step.text, ::testing::Not(HasSubstr("S-"))) << "belongs into `rules`";
        EXPECT_FALSE(step.text.empty());
      }
    }
  }
}

TEST_F(ExplainTest, FindingsThatConcernTheDestinationAreSteps) {
  Web();
  Apply({AService("shop/lb").At("10.96.3.2").Port(80).HealthCheck(kExplainedNodePort)});
  const auto finding = [](Kind kind, std::string key, std::string field, std::string value) {
    return Finding{.severity = Finding::Severity::kWarning,
                   .kind = kind,
                   .key = std::move(key),
                   .field = std::move(field),
                   .value = std::move(value),
                   .reason = "is bad"};
  };
  const auto steps = [&](const std::string& to, uint16_t port) {
    return StepOf(One(to, port, kOutside), "finding");
  };
  EXPECT_EQ(steps(kClusterIp, 80), "");
  Find("shop/web", finding(Kind::kEndpointSlice, "shop/web-1", "ports", "p"));
  Find("shop/lb", finding(Kind::kService, "shop/lb", "spec.clusterIP", "10.96.3.2"));
  Find("shop/lb", finding(Kind::kService, "shop/lb", "spec.healthCheckNodePort", "31001"));
  Find("", finding(Kind::kServiceCidr, "kubernetes", "spec.cidrs[0]", "10.96.0.0/16"));
  Find("", finding(Kind::kNode, "n1", "status.addresses", "192.0.2.1"));
  EXPECT_EQ(steps(kClusterIp, 80), "EndpointSlice shop/web-1: ports: Invalid value: p: is bad ()");
  EXPECT_EQ(steps(kClusterIp, 81), steps(kClusterIp, 80))
      << "a port that the Service does not have";
  EXPECT_EQ(steps("10.96.77.1", 80),
            "ServiceCIDR kubernetes: spec.cidrs[0]: Invalid value: 10.96.0.0/16: is bad ()");
  EXPECT_EQ(steps(kNode, kExplainedNodePort),
            steps(kClusterIp, 80) +
                "Node n1: status.addresses: Invalid value: 192.0.2.1: is bad ()"
                "Service shop/lb: spec.healthCheckNodePort: Invalid value: 31001: is bad ()");
  EXPECT_EQ(steps("203.0.113.77", 80), "") << "not an address of a Service";
  EXPECT_EQ(steps("203.0.113.77", kExplainedNodePort), "") << "not an address of this node";
  Node node;
  node.addresses = Ips({"203.0.113.77"});
  this_node_ = std::make_shared<const Node>(node);
  EXPECT_THAT(steps("203.0.113.77", kExplainedNodePort), HasSubstr("Node n1: status.addresses"))
      << "an address of the Node object that no interface has";
  for (int i = 0; i < 4; ++i) Find("shop/web", finding(Kind::kService, "shop/web", "f", "v"));
  EXPECT_THAT(steps(kClusterIp, 80), HasSubstr("2 more, see svcmapctl status"));
}

}  // namespace
}  // namespace svcmap::proxy
