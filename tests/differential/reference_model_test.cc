// Tests the reference model with the tables in docs/specification.md.
#include "tests/differential/reference_model.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/differential/affinity_memory.h"
#include "tests/support/builders.h"

namespace svcmap::testing {
namespace {

// Both families use the common setting of section 3.9, with the same names for their addresses.
constexpr bool kBothFamilies[] = {false, true};

struct Names {
  const char* name;
  const char* v4;
  const char* v6;
};
constexpr Names kNames[] = {
    {"L1", "10.64.1.11", "fd64::1:11"},
    {"L2", "10.64.1.12", "fd64::1:12"},
    {"L3", "10.64.1.13", "fd64::1:13"},
    {"L4", "10.64.1.14", "fd64::1:14"},
    {"R1", "10.64.2.21", "fd64::2:21"},
    {"R2", "10.64.3.22", "fd64::3:22"},
    {"R3", "10.64.3.23", "fd64::3:23"},
    {"P", "10.64.1.77", "fd64::1:77"},
    {"P2", "10.64.1.78", "fd64::1:78"},
    {"PR", "10.64.2.79", "fd64::2:79"},  // A pod on another node whose packets are not masqueraded.
    {"N", "192.0.2.10", "2001:db8:5::10"},
    {"NS", "198.18.7.10", "2001:db8:6::10"},
    {"X", "203.0.113.9", "2001:db8:203::9"},
    {"B", "203.0.113.200", "2001:db8:204::200"},
    {"V", "10.96.3.1", "fd96::3:1"},
    {"W", "10.96.3.2", "fd96::3:2"},
    {"U", "10.96.200.1", "fd96::200:1"},
    {"EIP", "198.51.100.40", "2001:db8:51::40"},
    {"VIP", "198.51.100.20", "2001:db8:51::20"},
    {"VIP2", "198.51.100.21", "2001:db8:51::21"},
};
constexpr int kNp = 31001;

std::string At(const std::string& name, bool v6) {
  for (const Names& entry : kNames) {
    if (name == entry.name) return v6 ? entry.v6 : entry.v4;
  }
  ADD_FAILURE() << "no address is called " << name;
  return "";
}

std::string NameOf(const std::string& address) {
  for (const Names& entry : kNames) {
    if (address == entry.v4 || address == entry.v6) return entry.name;
  }
  return address;
}

bool OnThisNode(const std::string& name) { return name[0] == 'L'; }

ProxySettings Settings() {
  ProxySettings settings;
  settings.cluster_cidr = "10.64.0.0/14,fd64::/64";
  return settings;
}

ProxySettings NoDetector(ProxySettings settings = Settings()) {
  settings.cluster_cidr = "";
  return settings;
}

ProxySettings MasqueradeAll(ProxySettings settings = Settings()) {
  settings.masquerade_all = true;
  return settings;
}

ProxySettings WithNodePorts(const std::string& addresses) {
  ProxySettings settings = Settings();
  settings.nodeport_addresses = addresses;
  return settings;
}

ProxySettings WithDetector(ProxySettings::Detector detector, const std::string& interface) {
  ProxySettings settings = NoDetector();
  settings.detector = detector;
  settings.pod_interface = interface;
  return settings;
}

v1::Object TheNode() {
  return ANode("n1")
      .InternalIp("192.0.2.10")
      .InternalIp("2001:db8:5::10")
      .PodCidr("10.64.1.0/24")
      .PodCidr("fd64::1:0/112")
      .Zone("za");
}

// Returns a dual-stack Service without ports. The clusterIPs are the addresses that `name` denotes.
AService At(const std::string& name) {
  AService service("ns/" + std::string(name == "V" ? "svc" : "other"));
  service.ClusterIps(At(name, false), At(name, true));
  return service;
}

AService External(AService service, const std::string& type = "LoadBalancer") {
  service.NodePort(kNp);
  for (const bool v6 : kBothFamilies) service.ExternalIp(At("EIP", v6));
  for (const bool v6 : kBothFamilies) service.LoadBalancerIp(At("VIP", v6));
  return service.Type(type);
}

// Parses endpoints such as "L1 R1st L2x". A name without a suffix denotes a ready endpoint. The
// suffix "st" means serving and terminating, and "x" means neither ready nor serving.
Objects Slices(const std::vector<std::string>& endpoints, int port = 8080,
               const std::string& port_name = "", Protocol protocol = Protocol::kTcp,
               const std::string& service = "ns/svc") {
  Objects slices;
  for (const bool v6 : kBothFamilies) {
    ASlice slice(service);
    slice.Named(absl::StrCat("slice-", port_name, v6 ? "-v6" : "-v4"));
    for (const std::string& endpoint : endpoints) {
      const std::string name = endpoint.substr(0, 2);
      slice.Endpoint(At(name, v6), OnThisNode(name) ? "n1" : "n2");
      if (endpoint.substr(2) == "st") slice.Terminating();
      if (endpoint.substr(2) == "x") slice.NotReady();
      if (endpoint.substr(2) == "xt") slice.Terminating(/*serving=*/false);
    }
    slice.Port(port_name, port, protocol);
    slices.push_back(slice);
  }
  return slices;
}

Objects operator+(Objects left, const Objects& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

Objects Cluster(const Objects& objects) {
  return Objects{TheNode(), AServiceCidr("kubernetes", {"10.96.0.0/16", "fd96::/96"})} + objects;
}

class Model {
 public:
  explicit Model(const Objects& objects, const ProxySettings& settings = Settings(),
                 const FirstSeen& first_seen = {})
      : model_(settings,
               {"127.0.0.1", "::1", At("N", false), At("N", true), At("NS", false), At("NS", true)},
               objects, first_seen) {}

  // Returns the result of a flow such as "P -> V:80/udp": "L1 R1m", "L1:8443", "REJECT", "DROP" or
  // "untouched". The result must be the same for each family.
  std::string operator()(const std::string& from, const std::string& to, int port = 80,
                         Protocol protocol = Protocol::kTcp) const {
    const std::string v4 = One(from, to, port, protocol, false);
    const std::string v6 = One(from, to, port, protocol, true);
    return v4 == v6 ? v4 : absl::StrCat("IPv4 ", v4, ", IPv6 ", v6);
  }

  std::string One(const std::string& from, const std::string& to, int port, Protocol protocol,
                  bool v6) const {
    Packet packet{At(from, v6), InterfaceOf(from), protocol, At(to, v6),
                  static_cast<uint16_t>(port)};
    const Prediction prediction = model_.Predict(packet);
    switch (prediction.verdict) {
      case Verdict::kRejected:
        return "REJECT";
      case Verdict::kDropped:
        return "DROP";
      case Verdict::kUntouched:
        return "untouched";
      case Verdict::kDelivered:
        break;
    }
    std::set<std::string> texts;  // Use a set, because IPv6 addresses have a different order.
    for (const Choice& choice : prediction.choices) {
      texts.insert(absl::StrCat(NameOf(choice.ip),
                                choice.port == 8080 ? "" : absl::StrCat(":", choice.port),
                                choice.masqueraded ? "m" : ""));
    }
    std::string text;
    for (const std::string& part : texts) absl::StrAppend(&text, text.empty() ? "" : " ", part);
    return text;
  }

  // Returns the result of an echo request, which must be the same for each family.
  Outcome Ping(const std::string& from, const std::string& to) const {
    const auto one = [&](bool v6) {
      return model_.PredictPing({At(from, v6), InterfaceOf(from), Protocol::kTcp, At(to, v6), 0});
    };
    EXPECT_EQ(one(false), one(true)) << from << " -> " << to;
    return one(false);
  }
  const ReferenceModel& model() const { return model_; }

 private:
  static std::string InterfaceOf(const std::string& from) {
    if (from[0] == 'N' || from[0] == 'V') return "";
    return from[0] == 'P' && from != "PR" ? "cni0" : from[0] == 'L' ? "cni0" : "eth0";
  }

  ReferenceModel model_;
};

// ---- Section 3.9 ----

TEST(ReferenceModelTest, S152_To_S154_NoEndpoints) {
  const Model model(Cluster({External(At("V").Port("", 80))}));
  for (const char* to : {"V", "EIP", "VIP"}) {
    for (const char* from : {"P", "X", "N"}) EXPECT_EQ(model(from, to), "REJECT") << from << to;
  }
  for (const char* from : {"P", "X", "N"}) EXPECT_EQ(model(from, "N", kNp), "REJECT") << from;
}

TEST(ReferenceModelTest, S155_S156_ClusterIpAndHairpin) {
  const Model model(Cluster(Objects{At("V").Port("", 80)} + Slices({"L1"})));
  EXPECT_EQ(model("P2", "V"), "L1");
  EXPECT_EQ(model("L1", "V"), "L1m");
  EXPECT_EQ(model("X", "V"), "L1m");
}

TEST(ReferenceModelTest, S157_To_S162_PortsAndProtocols) {
  AService service = At("V")
                         .Port("http", 80)
                         .Port("https", 443)
                         .Port("dns-udp", 53, Protocol::kUdp)
                         .Port("dns-tcp", 53)
                         .Port("dns-sctp", 53, Protocol::kSctp);
  const std::vector<std::string> both = {"L1", "R1"};
  const Model model(
      Cluster(Objects{service, At("W").Port("", 80)} + Slices(both, 8080, "http") +
              Slices(both, 8443, "https") + Slices(both, 53, "dns-udp", Protocol::kUdp) +
              Slices(both, 5353, "dns-tcp") + Slices(both, 53, "dns-sctp", Protocol::kSctp) +
              Slices(both, 8080, "", Protocol::kTcp, "ns/other")));
  EXPECT_EQ(model("P", "V", 80), "L1 R1");
  EXPECT_EQ(model("P", "V", 443), "L1:8443 R1:8443");
  EXPECT_EQ(model("P", "V", 53), "L1:5353 R1:5353");
  EXPECT_EQ(model("P", "V", 53, Protocol::kUdp), "L1:53 R1:53");
  EXPECT_EQ(model("P", "V", 53, Protocol::kSctp), "L1:53 R1:53");
  EXPECT_EQ(model("P", "V", 80, Protocol::kUdp), "REJECT");
  EXPECT_EQ(model("P", "W", 443), "REJECT");
  EXPECT_EQ(model("P", "U", 80), "DROP");
}

TEST(ReferenceModelTest, S163_To_S168_SourceRanges) {
  AService service = At("V").Port("", 80).NodePort(kNp);
  for (const char* vip : {"VIP", "VIP2"}) {
    for (const bool v6 : kBothFamilies) service.LoadBalancerIp(At(vip, v6));
  }
  for (const char* range :
       {"192.0.2.0/24", " 203.0.113.0/25", "2001:db8:5::/64", " 2001:db8:203::/64", "nonsense"}) {
    service.SourceRange(range);
  }
  const Objects objects = Cluster(Objects{service} + Slices({"L1"}));
  const Model model(objects);
  EXPECT_EQ(model("P", "V"), "L1");
  EXPECT_EQ(model("X", "N", kNp), "L1m");
  EXPECT_EQ(model("B", "N", kNp), "L1m");
  for (const char* vip : {"VIP", "VIP2"}) {
    EXPECT_EQ(model("X", vip), "L1m");
    EXPECT_EQ(model("B", vip), "DROP");
    EXPECT_EQ(model("P", vip), "DROP");
    EXPECT_EQ(model("N", vip), "L1m");
    EXPECT_EQ(model("VIP", vip), "L1m");  // S-118
  }
  // S-118 does not apply if no range contains the node's own address.
  AService narrow = service;
  v1::Object object = narrow;
  object.mutable_service()->mutable_spec()->clear_load_balancer_source_ranges();
  object.mutable_service()->mutable_spec()->add_load_balancer_source_ranges("203.0.113.0/25");
  object.mutable_service()->mutable_spec()->add_load_balancer_source_ranges("2001:db8:203::/64");
  EXPECT_EQ(Model(Cluster(Objects{object} + Slices({"L1"})))("VIP", "VIP"), "DROP");
  EXPECT_EQ(Model(Cluster(Objects{object} + Slices({"L1"})))("N", "VIP"), "DROP");
}

TEST(ReferenceModelTest, S11_S12_RangesThatRestrictNothing) {
  const auto with = [](const std::vector<std::string>& ranges) {
    AService service = External(At("V").Port("", 80));
    for (const std::string& range : ranges) service.SourceRange(range);
    return Model(Cluster(Objects{service} + Slices({"L1"})));
  };
  EXPECT_EQ(with({"203.0.113.0/25", "0.0.0.0/0"}).One("B", "VIP", 80, Protocol::kTcp, false),
            "L1m");
  EXPECT_EQ(with({"203.0.113.0/25"})("B", "VIP"), "IPv4 DROP, IPv6 L1m");
  EXPECT_EQ(with({"203.0.113.9"})("B", "VIP"), "L1m");
  EXPECT_EQ(with({"203.0.113.000/025"})("X", "VIP"), "L1m");  // S-5
  EXPECT_EQ(with({"203.0.113.000/025"})("B", "VIP"), "IPv4 DROP, IPv6 L1m");
}

TEST(ReferenceModelTest, S119_RangesOfAServiceWithoutEndpoints) {
  AService service = External(At("V").Port("", 80));
  service.SourceRange("203.0.113.0/25").SourceRange("2001:db8:203::/64");
  const Model model(Cluster({service}));
  EXPECT_EQ(model("X", "VIP"), "REJECT");
  EXPECT_EQ(model("B", "VIP"), "DROP");
  EXPECT_EQ(model("B", "EIP"), "REJECT");  // S-117
}

TEST(ReferenceModelTest, S169_To_S172_NodePorts) {
  const Objects objects =
      Cluster(Objects{At("V").Port("", 80).NodePort(kNp)} + Slices({"L1", "R1"}));
  const Model primary(objects);
  EXPECT_EQ(primary("P", "V"), "L1 R1");
  EXPECT_EQ(primary("X", "N", kNp), "L1m R1m");
  EXPECT_EQ(primary("N", "N", kNp), "L1m R1m");
  EXPECT_EQ(primary("X", "NS", kNp), "untouched");
  const Model blocks(objects, WithNodePorts("192.0.2.0/24,198.18.7.0/24,2001:db8:5::/64,"
                                            "2001:db8:6::10/128"));
  EXPECT_EQ(blocks("X", "NS", kNp), "L1m R1m");
  EXPECT_EQ(blocks("X", "N", kNp), "L1m R1m");
}

TEST(ReferenceModelTest, S108_KeywordsOfNodePortAddresses) {
  const Objects objects =
      Cluster(Objects{At("V").Port("", 80).NodePort(kNp)} + Slices({"L1", "R1"}));
  const auto answer = [&](const std::string& setting, const char* to) {
    return Model(objects, WithNodePorts(setting))("X", to, kNp);
  };
  for (const char* to : {"N", "NS"}) {
    EXPECT_EQ(answer("localhost", to), "untouched") << to;
    EXPECT_EQ(answer("all", to), "L1m R1m") << to;
    EXPECT_EQ(answer("localhost,all", to), "L1m R1m") << to;
  }
  EXPECT_EQ(answer("primary,localhost", "N"), "L1m R1m");
  EXPECT_EQ(answer("primary,localhost", "NS"), "untouched");
  EXPECT_EQ(answer("198.18.7.0/24,primary", "N"), "L1m R1m");
  EXPECT_EQ(answer("198.18.7.0/24,primary", "NS"), "IPv4 L1m R1m, IPv6 untouched");
}

TEST(ReferenceModelTest, S110_S112_AllAddresses) {
  const Objects objects =
      Cluster(Objects{At("V").Port("", 80).NodePort(kNp)} + Slices({"L1", "R1"}));
  EXPECT_EQ(Model(objects, WithNodePorts("0.0.0.0/0,::/0"))("X", "NS", kNp), "L1m R1m");
  EXPECT_EQ(Model(objects, WithNodePorts("198.18.7.0/24"))("X", "N", kNp),
            "IPv4 untouched, IPv6 L1m R1m");
  const Objects nobody = Objects{At("V").Port("", 80).NodePort(kNp)} + Slices({"L1"});
  EXPECT_EQ(Model(nobody)("X", "NS", kNp), "L1m");
}

TEST(ReferenceModelTest, S173_S174_ExternalPolicyLocal) {
  const Model model(Cluster(Objects{External(At("V").Port("", 80)).ExternalPolicy("Local")} +
                            Slices({"L1", "R1"})));
  for (const char* to : {"V", "EIP", "VIP"}) EXPECT_EQ(model("P", to), "L1 R1") << to;
  EXPECT_EQ(model("P", "N", kNp), "L1 R1");
  for (const char* to : {"EIP", "VIP"}) EXPECT_EQ(model("X", to), "L1") << to;
  EXPECT_EQ(model("X", "N", kNp), "L1");
}

TEST(ReferenceModelTest, S175_S176_ExternalPolicyCluster) {
  const Model model(Cluster(Objects{External(At("V").Port("", 80))} + Slices({"L1", "R1"})));
  EXPECT_EQ(model("P", "V"), "L1 R1");
  for (const char* from : {"P", "X"}) {
    for (const char* to : {"EIP", "VIP"}) EXPECT_EQ(model(from, to), "L1m R1m") << from << to;
    EXPECT_EQ(model(from, "N", kNp), "L1m R1m") << from;
  }
}

TEST(ReferenceModelTest, S177_To_S181_InternalPolicy) {
  const auto with = [](const char* policy, const std::vector<std::string>& endpoints) {
    AService service = At("V").Port("", 80).InternalPolicy(policy);
    return Model(Cluster(Objects{service} + Slices(endpoints)))("P", "V");
  };
  EXPECT_EQ(with("Cluster", {"L1", "R1", "R2"}), "L1 R1 R2");
  EXPECT_EQ(with("Local", {"L1", "R1", "R2"}), "L1");
  EXPECT_EQ(with("Local", {"L1", "L2", "R1"}), "L1 L2");
  EXPECT_EQ(with("Local", {"R1", "R2"}), "DROP");
  EXPECT_EQ(with("Local", {}), "REJECT");
  EXPECT_EQ(with("Cluster", {}), "REJECT");
}

TEST(ReferenceModelTest, S182_To_S189_TerminatingEndpoints) {
  struct Row {
    const char* number;
    const char* policy;
    std::vector<std::string> endpoints;
    const char* pod_to_cluster_ip;
    const char* client_to_vip;
  };
  const Row rows[] = {
      {"S-182", "Local", {"L1", "L2", "L3st", "L4x", "R1"}, "L1 L2 R1", "L1 L2"},
      {"S-183", "Local", {"L1st", "L2st", "L3x", "R1"}, "R1", "L1 L2"},
      {"S-184", "Local", {"R1st"}, "R1", "DROP"},
      {"S-185", "Local", {"L1x", "R1x"}, "REJECT", "REJECT"},
      {"S-186", "Cluster", {"L1", "L2", "R1", "R2st", "R3x"}, "L1 L2 R1", "L1m L2m R1m"},
      {"S-187", "Cluster", {"L1st", "L2st", "R1st", "R2xt"}, "L1 L2 R1", "L1m L2m R1m"},
      {"S-188", "Cluster", {"R1st"}, "R1", "R1m"},
      {"S-189", "Cluster", {"L1x", "R1xt"}, "REJECT", "REJECT"},
  };
  for (const Row& row : rows) {
    AService service = External(At("V").Port("", 80)).ExternalPolicy(row.policy);
    const Model model(Cluster(Objects{service} + Slices(row.endpoints)));
    EXPECT_EQ(model("P", "V"), row.pod_to_cluster_ip) << row.number;
    EXPECT_EQ(model("X", "VIP"), row.client_to_vip) << row.number;
  }
}

TEST(ReferenceModelTest, S88_S190_IpModes) {
  AService service = At("V").Port("", 80);
  for (const bool v6 : kBothFamilies) {
    service.LoadBalancerIpWithMode(At("VIP", v6), "Proxy")
        .LoadBalancerIpWithMode(At("VIP2", v6), "VIP")
        .LoadBalancerIp(At("EIP", v6));
  }
  const Model model(Cluster(Objects{service} + Slices({"L1"})));
  EXPECT_EQ(model("X", "VIP"), "untouched");
  EXPECT_EQ(model("X", "VIP2"), "L1m");
  EXPECT_EQ(model("X", "EIP"), "L1m");
}

TEST(ReferenceModelTest, S191_To_S202_MasqueradeMatrix) {
  struct Row {
    const char* number;
    char service;
    std::vector<const char*> from;
    bool external;  // True for nodePort and VIP, false for the clusterIP.
    const char* results[4];
  };
  const Row rows[] = {
      {"S-191", 'A', {"P"}, false, {"L1 R1", "L1 R1", "L1m R1m", "L1m R1m"}},
      {"S-192", 'A', {"P"}, true, {"L1m R1m", "L1m R1m", "L1m R1m", "L1m R1m"}},
      {"S-193", 'A', {"N", "X"}, false, {"L1m R1m", "L1 R1", "L1m R1m", "L1m R1m"}},
      {"S-194", 'A', {"N", "X"}, true, {"L1m R1m", "L1m R1m", "L1m R1m", "L1m R1m"}},
      {"S-195", 'B', {"P"}, false, {"L1 R1", "L1 R1", "L1m R1m", "L1m R1m"}},
      {"S-196", 'B', {"P"}, true, {"L1 R1", "L1", "L1 R1", "L1"}},
      {"S-197", 'B', {"N", "X"}, false, {"L1m R1m", "L1 R1", "L1m R1m", "L1m R1m"}},
      {"S-198", 'B', {"N"}, true, {"L1m R1m", "L1m R1m", "L1m R1m", "L1m R1m"}},
      {"S-199", 'B', {"X"}, true, {"L1", "L1", "L1", "L1"}},
      {"S-200", 'C', {"P"}, false, {"L1", "L1", "L1m", "L1m"}},
      {"S-201", 'C', {"N", "X"}, false, {"L1m", "L1", "L1m", "L1m"}},
      {"S-202", 'C', {"P", "N", "X"}, true, {"L1m R1m", "L1m R1m", "L1m R1m", "L1m R1m"}},
  };
  const ProxySettings settings[] = {Settings(), NoDetector(), MasqueradeAll(),
                                    MasqueradeAll(NoDetector())};
  for (const Row& row : rows) {
    AService service = External(At("V").Port("", 80));
    if (row.service == 'B') service.ExternalPolicy("Local");
    if (row.service == 'C') service.InternalPolicy("Local");
    for (size_t column = 0; column < 4; ++column) {
      const Model model(Cluster(Objects{service} + Slices({"L1", "R1"})), settings[column]);
      for (const char* from : row.from) {
        SCOPED_TRACE(absl::StrCat(row.number, " ", from, " column ", column));
        if (!row.external) {
          EXPECT_EQ(model(from, "V"), row.results[column]);
        } else {
          EXPECT_EQ(model(from, "VIP"), row.results[column]);
          EXPECT_EQ(model(from, "N", kNp), row.results[column]);
        }
      }
    }
  }
}

// ---- Section 3.2 and related rules ----

TEST(ReferenceModelTest, S80_S76_UsableEndpointsElsewhereOnly) {
  AService service = External(At("V").Port("", 80)).ExternalPolicy("Local").InternalPolicy("Local");
  const Model model(Cluster(Objects{service} + Slices({"R1"})));
  for (const char* from : {"P", "N", "X"}) EXPECT_EQ(model(from, "V"), "DROP") << from;
  EXPECT_EQ(model("P", "VIP"), "R1");
  EXPECT_EQ(model("N", "VIP"), "R1m");
  EXPECT_EQ(model("X", "VIP"), "DROP");
  EXPECT_EQ(model("X", "N", kNp), "DROP");
}

TEST(ReferenceModelTest, S82_To_S86_WhatIsNotAService) {
  const Model model(Cluster(Objects{External(At("V").Port("", 80))} + Slices({"L1"})));
  for (const char* from : {"P", "N", "X"}) {
    EXPECT_EQ(model(from, "V", 81), "REJECT") << from;                   // S-82
    EXPECT_EQ(model(from, "V", 80, Protocol::kSctp), "REJECT") << from;  // S-82
    EXPECT_EQ(model(from, "U", 80), "DROP") << from;                     // S-83
    EXPECT_EQ(model(from, "EIP", 81), "untouched") << from;              // S-84
    EXPECT_EQ(model(from, "VIP", 81), "untouched") << from;              // S-84
    EXPECT_EQ(model(from, "N", kNp + 1), "untouched") << from;           // S-85
    EXPECT_EQ(model(from, "NS", kNp), "untouched") << from;              // S-86
  }
  // S-105: the objects contain no ServiceCIDR.
  EXPECT_EQ(Model(Objects{TheNode(), At("V").Port("", 80)})("P", "U"), "untouched");
}

TEST(ReferenceModelTest, S10_WhichTypesHaveAnExternalPolicy) {
  const auto to_vip = [](AService service) {
    return Model(Cluster(Objects{service.ExternalPolicy("Local")} + Slices({"R1"})))("X", "VIP");
  };
  AService by_vip = At("V").Port("", 80);
  for (const bool v6 : kBothFamilies) by_vip.LoadBalancerIp(At("VIP", v6));
  EXPECT_EQ(to_vip(by_vip), "DROP");
  EXPECT_EQ(to_vip(by_vip.Type("NodePort")), "DROP");
  EXPECT_EQ(to_vip(by_vip.Type("ClusterIP")), "R1m");
  EXPECT_EQ(to_vip(by_vip.ExternalIp(At("EIP", false))), "DROP");
}

TEST(ReferenceModelTest, S64_To_S67_S92_Detectors) {
  using Detector = ProxySettings::Detector;
  const Objects objects = Cluster(Objects{External(At("V").Port("", 80)).ExternalPolicy("Local")} +
                                  Slices({"L1", "R1"}));
  const Model by_cidr(objects);
  EXPECT_EQ(by_cidr("PR", "V"), "L1 R1");
  EXPECT_EQ(by_cidr("PR", "VIP"), "L1 R1");
  for (const ProxySettings& settings :
       {WithDetector(Detector::kNodeCidr, ""), WithDetector(Detector::kBridgeInterface, "cni0"),
        WithDetector(Detector::kInterfaceNamePrefix, "cni")}) {
    const Model model(objects, settings);
    EXPECT_EQ(model("P", "V"), "L1 R1");
    EXPECT_EQ(model("P", "VIP"), "L1 R1");
    EXPECT_EQ(model("PR", "V"), "L1m R1m");
    EXPECT_EQ(model("PR", "VIP"), "L1");
    EXPECT_EQ(model("N", "V"), "L1m R1m");  // S-70
  }
  EXPECT_EQ(Model(objects, WithDetector(Detector::kBridgeInterface, "cni"))("P", "V"), "L1m R1m");
}

TEST(ReferenceModelTest, S68_S69_OneBlockPerFamily) {
  const Objects objects = Cluster(Objects{At("V").Port("", 80)} + Slices({"R1"}));
  ProxySettings settings = Settings();
  settings.cluster_cidr = "10.64.0.0/14";
  EXPECT_EQ(Model(objects, settings)("X", "V"), "IPv4 R1m, IPv6 R1");
}

TEST(ReferenceModelTest, S97_HairpinByEveryAddress) {
  const Model model(Cluster(Objects{External(At("V").Port("", 80)).ExternalPolicy("Local")} +
                            Slices({"L1", "L2", "R1"})));
  EXPECT_EQ(model("L1", "V"), "L1m L2 R1");
  EXPECT_EQ(model("L1", "VIP"), "L1m L2 R1");
  EXPECT_EQ(model("L1", "N", kNp), "L1m L2 R1");
  // Only local endpoints have a hairpin entry.
  EXPECT_EQ(model("R1", "V"), "L1 L2 R1");
}

TEST(ReferenceModelTest, S94_S16_OneOwnerPerAddressAndPort) {
  const auto claims = [](int64_t first, int64_t second, const FirstSeen& first_seen = {}) {
    AService mine = At("V").Port("", 80).NodePort(kNp);
    AService theirs = At("W").Port("", 80).NodePort(kNp);
    if (first != 0) mine.CreatedAt(first);
    if (second != 0) theirs.CreatedAt(second);
    for (const bool v6 : kBothFamilies) {
      mine.LoadBalancerIp(At("VIP", v6));
      theirs.LoadBalancerIp(At("VIP", v6));
    }
    return Model(Cluster(Objects{mine, theirs} + Slices({"L1"}) +
                         Slices({"L2"}, 8080, "", Protocol::kTcp, "ns/other")),
                 Settings(), first_seen);
  };
  EXPECT_EQ(claims(1, 2)("X", "VIP"), "L1m");
  EXPECT_EQ(claims(2, 1)("X", "VIP"), "L2m");
  EXPECT_EQ(claims(2, 2)("X", "VIP"), "L2m");  // The name "other" sorts before the name "svc".
  EXPECT_EQ(claims(2, 1)("X", "N", kNp), "L2m");
  EXPECT_EQ(claims(2, 1)("X", "V"), "L1m");
  // Without a creation time, the Service that the agent received first takes precedence.
  const FirstSeen mine_first = {{"ns/svc", 1}, {"ns/other", 2}};
  const FirstSeen theirs_first = {{"ns/svc", 2}, {"ns/other", 1}};
  EXPECT_EQ(claims(0, 0)("X", "VIP"), "L2m");
  EXPECT_EQ(claims(0, 0, mine_first)("X", "VIP"), "L1m");
  EXPECT_EQ(claims(0, 0, mine_first)("X", "N", kNp), "L1m");
  EXPECT_EQ(claims(9, 0, mine_first)("X", "VIP"), "L1m");
  EXPECT_EQ(claims(0, 9, mine_first)("X", "VIP"), "L1m");
  EXPECT_EQ(claims(1, 0, theirs_first)("X", "VIP"), "L2m");
  EXPECT_EQ(claims(1, 2, theirs_first)("X", "VIP"), "L1m");
  // An externalIP that is an address of the node takes precedence over a nodePort, even if the
  // nodePort's Service is older.
  AService by_address = At("W").Port("", kNp).CreatedAt(9);
  for (const bool v6 : kBothFamilies) by_address.ExternalIp(At("N", v6));
  const Model model(Cluster(Objects{At("V").Port("", 80).NodePort(kNp).CreatedAt(1), by_address} +
                            Slices({"L1"}) + Slices({"L2"}, 8080, "", Protocol::kTcp, "ns/other")));
  EXPECT_EQ(model("X", "N", kNp), "L2m");
}

TEST(ReferenceModelTest, S1_S2_S3_WhatIsProxied) {
  const auto reach = [](const v1::Object& service) {
    return Model(Cluster(Objects{service} + Slices({"L1"})))("X", "VIP");
  };
  v1::Object service = External(At("V").Port("", 80));
  EXPECT_EQ(reach(service), "L1m");
  v1::Object other = service;
  (*other.mutable_service()
        ->mutable_metadata()
        ->mutable_labels())["service.kubernetes.io/service-proxy-name"] = "";
  EXPECT_EQ(reach(other), "untouched");
  other = service;
  other.mutable_service()->mutable_spec()->set_type("ExternalName");
  EXPECT_EQ(reach(other), "untouched");
  other = service;
  other.mutable_service()->mutable_spec()->set_cluster_ip("None");
  EXPECT_EQ(reach(other), "untouched");
  other = service;
  other.mutable_service()->mutable_spec()->mutable_cluster_ips()->RemoveLast();
  EXPECT_EQ(reach(other), "IPv4 L1m, IPv6 untouched");
}

TEST(ReferenceModelTest, S18_To_S24_WhatSlicesGive) {
  const auto reach = [](v1::Object slice) {
    slice.mutable_endpoint_slice()->mutable_metadata()->set_name("only");
    return Model(Cluster(Objects{At("V").Port("http", 80), slice}))
        .One("P", "V", 80, Protocol::kTcp, false);
  };
  const v1::Object slice = Slices({"L1"}, 8080, "http")[0];
  EXPECT_EQ(reach(slice), "L1");
  v1::Object other = slice;
  other.mutable_endpoint_slice()->mutable_metadata()->clear_labels();
  EXPECT_EQ(reach(other), "REJECT");
  other = slice;
  other.mutable_endpoint_slice()->mutable_ports(0)->set_protocol("UDP");  // S-21
  EXPECT_EQ(reach(other), "REJECT");
  other = slice;
  other.mutable_endpoint_slice()->mutable_ports(0)->clear_name();  // S-20
  EXPECT_EQ(reach(other), "REJECT");
  other = slice;
  other.mutable_endpoint_slice()->mutable_ports(0)->set_port(0);
  EXPECT_EQ(reach(other), "REJECT");
  other = slice;
  other.mutable_endpoint_slice()->mutable_endpoints(0)->add_addresses("10.64.9.9");  // S-22
  EXPECT_EQ(reach(other), "L1");
  other = slice;  // S-24
  auto* conditions = other.mutable_endpoint_slice()->mutable_endpoints(0)->mutable_conditions();
  conditions->set_ready(false);
  EXPECT_EQ(reach(other), "REJECT");  // S-48
  conditions->set_terminating(true);
  EXPECT_EQ(reach(other), "L1");  // S-49
  conditions->set_ready(true);
  EXPECT_EQ(reach(other), "L1");
  other = slice;
  (*other.mutable_endpoint_slice()
        ->mutable_metadata()
        ->mutable_labels())["service.kubernetes.io/headless"] = "";
  EXPECT_EQ(reach(other), "REJECT");  // S-17
}

TEST(ReferenceModelTest, S26_DuplicatesAndS22_SeveralNumbers) {
  const auto reach = [](const std::vector<std::string>& one, const std::vector<std::string>& two,
                        int other_port) {
    Objects slices = Slices(one) + Slices(two, other_port);
    for (size_t i = 0; i < slices.size(); ++i) {
      slices[i].mutable_endpoint_slice()->mutable_metadata()->set_name(absl::StrCat("s", i));
    }
    return Model(Cluster(Objects{At("V").Port("", 80)} + slices))("P", "V");
  };
  EXPECT_EQ(reach({"L1"}, {"L1st"}, 8080), "L1");
  EXPECT_EQ(reach({"L1st", "R1"}, {"L1"}, 8080), "L1 R1");
  EXPECT_EQ(reach({"L1"}, {"L1"}, 8081), "L1 L1:8081");
}

TEST(ReferenceModelTest, ADrainedEndpointIsInNoSet) {
  Objects slices = Slices({"L1", "R1"});
  for (v1::Object& slice : slices) {
    slice.mutable_endpoint_slice()->mutable_endpoints(0)->set_weight(0);
    slice.mutable_endpoint_slice()->mutable_endpoints(1)->set_weight(5);
  }
  EXPECT_EQ(Model(Cluster(Objects{At("V").Port("", 80)} + slices))("P", "V"), "R1");
  for (v1::Object& slice : slices) {
    slice.mutable_endpoint_slice()->mutable_endpoints(1)->set_weight(0);
  }
  EXPECT_EQ(Model(Cluster(Objects{At("V").Port("", 80)} + slices))("P", "V"), "REJECT");
}

// ---- Section 2 ----

TEST(ReferenceModelTest, S39_To_S47_Sets) {
  struct Row {
    const char* number;
    std::vector<std::string> endpoints;
    const char* cluster;  // Result of "P -> VIP" for a Service with externalTrafficPolicy Local.
    const char* local;    // Result of "X -> VIP" for a Service with externalTrafficPolicy Local.
  };
  const Row rows[] = {
      {"S-39", {}, "REJECT", "REJECT"},
      {"S-40", {"L1", "R1"}, "L1 R1", "L1"},
      {"S-41", {"R1"}, "R1", "DROP"},
      {"S-42", {"L1", "L2st", "R1", "R2st"}, "L1 R1", "L1"},
      {"S-43", {"L1st", "R1"}, "R1", "L1"},
      {"S-44", {"L1st", "R1st"}, "L1 R1", "L1"},
      {"S-45", {"R1st"}, "R1", "DROP"},
      {"S-46", {"L1x", "R1xt"}, "REJECT", "REJECT"},
      {"S-47", {"L1x", "R1st"}, "R1", "DROP"},
  };
  for (const Row& row : rows) {
    AService service = External(At("V").Port("", 80)).ExternalPolicy("Local");
    const Model model(Cluster(Objects{service} + Slices(row.endpoints)));
    EXPECT_EQ(model("P", "VIP"), row.cluster) << row.number;
    EXPECT_EQ(model("X", "VIP"), row.local) << row.number;
  }
}

struct Hinted {
  const char* name;
  std::vector<const char*> zones;
  std::vector<const char*> nodes;
  bool ready = true;
};

std::string Topology(const std::vector<Hinted>& endpoints, const std::string& zone,
                     const std::string& node = "n1") {
  ASlice slice("ns/svc");
  for (const Hinted& endpoint : endpoints) {
    slice.Endpoint(At(endpoint.name, false), "n9").Port("", 8080);
    if (!endpoint.ready) slice.NotReady();
    for (const char* hint : endpoint.zones) slice.ZoneHint(hint);
    for (const char* hint : endpoint.nodes) slice.NodeHint(hint);
  }
  ProxySettings settings = Settings();
  settings.node_name = node;
  ANode own(node);
  if (!zone.empty()) own.Zone(zone);
  return Model({own, slice, At("V").Port("", 80)}, settings)
      .One("P", "V", 80, Protocol::kTcp, false);
}

TEST(ReferenceModelTest, S52_To_S60_Topology) {
  const std::vector<Hinted> zones = {
      {"L1", {"za"}, {}}, {"L2", {"zb"}, {}}, {"L3", {"zc"}, {}}, {"L4", {"za"}, {}}};
  EXPECT_EQ(Topology(zones, "za"), "L1 L4");  // S-52
  std::vector<Hinted> some = zones;
  some[3].ready = false;
  EXPECT_EQ(Topology(some, "za"), "L1");  // S-53
  some[0].ready = false;
  EXPECT_EQ(Topology(some, "za"), "L2 L3");  // S-54
  some = zones;
  some[2].zones = {};
  EXPECT_EQ(Topology(some, "za"), "L1 L2 L3 L4");  // S-55
  EXPECT_EQ(Topology({{"L1", {"za", "zb", "zc"}, {}},
                      {"L2", {"zb", "zc"}, {}},
                      {"L3", {"zb", "zd"}, {}},
                      {"L4", {"zc"}, {}}},
                     "zc"),
            "L1 L2 L4");                            // S-56
  EXPECT_EQ(Topology(zones, ""), "L1 L2 L3 L4");    // S-57
  EXPECT_EQ(Topology(zones, "zz"), "L1 L2 L3 L4");  // S-57
  std::vector<Hinted> nodes = zones;
  const char* const names[] = {"n1", "n2", "n3", "n4"};
  for (size_t i = 0; i < 4; ++i) nodes[i].nodes = {names[i]};
  EXPECT_EQ(Topology(nodes, "za"), "L1");           // S-58
  EXPECT_EQ(Topology(nodes, "za", "n0"), "L1 L4");  // S-60
  nodes[1].zones = {};
  nodes[1].nodes = {};
  EXPECT_EQ(Topology(nodes, "za"), "L1 L2 L3 L4");  // S-59
}

TEST(ReferenceModelTest, S61_S62_HintsDoNotChooseTheLocalSet) {
  const auto model = [](AService service, const char* third, const char* fourth) {
    ASlice slice("ns/svc");
    slice.Port("", 8080);
    slice.Endpoint(At("L1", false), "n1").ZoneHint("za");
    slice.Endpoint(At("L2", false), "n1").ZoneHint("zb");
    slice.Endpoint(At("R1", false), "n2").ZoneHint(third);
    slice.Endpoint(At("R2", false), "n3").ZoneHint(fourth);
    return Model(Cluster({service.NodePort(kNp), slice}));
  };
  const Model external = model(At("V").Port("", 80).ExternalPolicy("Local"), "za", "zb");
  EXPECT_EQ(external.One("P", "N", kNp, Protocol::kTcp, false), "L1 R1");
  EXPECT_EQ(external.One("X", "N", kNp, Protocol::kTcp, false), "L1 L2");
  const Model internal = model(At("V").Port("", 80).InternalPolicy("Local"), "zc", "za");
  EXPECT_EQ(internal.One("P", "N", kNp, Protocol::kTcp, false), "L1m R2m");
  EXPECT_EQ(internal.One("P", "V", 80, Protocol::kTcp, false), "L1 L2");
}

// ---- Section 3.6 ----

TEST(AffinityMemoryTest, S122_S123_S126_TheEndpointUsedLastUntilItLeaves) {
  const Choice one = {"10.64.1.11", 8080};
  const Choice two = {"10.64.2.21", 8080};
  const Prediction both = {Verdict::kDelivered, {one, two}, "ns/svc:/tcp", true};
  Prediction only_one = both;
  only_one.choices = {one};
  Prediction other_port = both;
  other_port.service_port = "ns/svc:other/tcp";
  using Choices = std::vector<Choice>;
  AffinityMemory memory;
  EXPECT_EQ(memory.Allowed("x", both), (Choices{one, two}));
  memory.Remember("x", both, two);
  EXPECT_EQ(memory.Allowed("x", both), Choices{two});
  EXPECT_EQ(memory.Allowed("y", both), (Choices{one, two}));
  EXPECT_EQ(memory.Allowed("x", other_port), (Choices{one, two}));
  EXPECT_EQ(memory.Allowed("x", only_one), Choices{one});
  memory.Keep({{"ns/svc:/tcp", {"10.64.1.11:8080", "10.64.2.21:8080"}}});
  EXPECT_EQ(memory.Allowed("x", both), Choices{two});
  memory.Keep({{"ns/svc:/tcp", {"10.64.1.11:8080"}}});
  EXPECT_EQ(memory.Allowed("x", both), (Choices{one, two}));
}

// ---- Options that kube-proxy does not have ----

TEST(ReferenceModelTest, Ping) {
  const Objects objects =
      Cluster(Objects{External(At("V").Port("", 80)), At("W").Port("", 80)} + Slices({"L1"}));
  ProxySettings settings = Settings();
  for (const char* to : {"V", "W"}) {
    EXPECT_EQ(Model(objects, settings).Ping("P", to), Outcome::kRejected) << to;
  }
  for (const char* to : {"EIP", "VIP", "U"}) {
    EXPECT_EQ(Model(objects, settings).Ping("X", to), Outcome::kTimedOut) << to;
  }
  EXPECT_EQ(Model(objects, settings).Ping("X", "N"), Outcome::kAnswered);
  settings.answer_ping = true;
  for (const char* from : {"P", "X", "N"}) {
    for (const char* to : {"V", "W", "EIP", "VIP", "N"}) {
      EXPECT_EQ(Model(objects, settings).Ping(from, to), Outcome::kAnswered) << from << to;
    }
    EXPECT_EQ(Model(objects, settings).Ping(from, "U"), Outcome::kTimedOut) << from;
    EXPECT_EQ(Model(objects, settings).Ping(from, "VIP2"), Outcome::kTimedOut) << from;
  }
}

TEST(ReferenceModelTest, LoadBalancerIpsWithSourceRangesDoNotAnswerPings) {
  ProxySettings settings = Settings();
  settings.answer_ping = true;
  AService service = External(At("V").Port("", 80));
  for (const char* range : {"0.0.0.0/1", "::/1"}) service.SourceRange(range);
  const Model model(Cluster(Objects{service} + Slices({"L1"})), settings);
  EXPECT_EQ(model.Ping("X", "VIP"), Outcome::kTimedOut);
  EXPECT_EQ(model.Ping("X", "EIP"), Outcome::kAnswered);
}

TEST(ReferenceModelTest, EndpointsThatAreNotGone) {
  const Objects objects = Slices({"L1x", "R1xt", "R2"}) + Slices({"L2"}, 53, "udp", Protocol::kUdp);
  v1::Object service = At("V").Port("", 80);
  const auto in_slices = TcpEndpointsInSlices(objects, service.service(), /*v6=*/false);
  EXPECT_EQ(in_slices.size(), 3u);
  EXPECT_TRUE(in_slices.contains(absl::StrCat(At("L1", false), ":8080")));
  EXPECT_FALSE(in_slices.contains(absl::StrCat(At("L2", false), ":53")));
  EXPECT_EQ(FindService(objects, "ns/svc"), nullptr);
  EXPECT_NE(FindService({service}, "ns/svc"), nullptr);
}

TEST(ReferenceModelTest, TheOptionOfAServiceOverridesTheFlagForResets) {
  v1::Object service = At("V").Port("", 80);
  ProxySettings settings = Settings();
  EXPECT_FALSE(Model({}, settings).model().ResetsStaleTcp(service.service()));
  settings.reset_stale_tcp = true;
  EXPECT_TRUE(Model({}, settings).model().ResetsStaleTcp(service.service()));
  service.mutable_service()->mutable_spec()->set_reset_stale_tcp(false);
  EXPECT_FALSE(Model({}, settings).model().ResetsStaleTcp(service.service()));
}

}  // namespace
}  // namespace svcmap::testing
