#include "tests/differential/random_settings.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/topology.h"

namespace svcmap::testing {
namespace {

using Detector = ProxySettings::Detector;

struct DetectorVariant {
  Detector detector;
  std::string cluster_cidr;
  std::string interface;
  std::vector<std::string> pod_cidrs = {kPodCidrV4, kPodCidrV6};
};

// Packets from local pods arrive on veth0 and veth1, packets from clients on other veths, and
// packets from the other node on "remote".
DetectorVariant RandomDetector(Dice& dice) {
  const std::string both = absl::StrCat(kClusterCidrV4, ",", kClusterCidrV6);
  const std::vector<DetectorVariant> variants = {
      {Detector::kClusterCidr, both, ""},
      {Detector::kClusterCidr, both, ""},
      {Detector::kClusterCidr, both, ""},
      {Detector::kClusterCidr, kClusterCidrV4, ""},
      {Detector::kClusterCidr, "", ""},
      {Detector::kNodeCidr, "", ""},
      {Detector::kNodeCidr, "", "", {kPodCidrV6}},
      {Detector::kBridgeInterface, "", "veth1"},
      {Detector::kInterfaceNamePrefix, "", "veth0"},
      {Detector::kInterfaceNamePrefix, "", "veth"},
  };
  return dice.OneOf(variants);
}

}  // namespace

std::vector<std::string> ScenarioSettings::Flags() const {
  std::vector<std::string> flags;
  switch (proxy.detector) {
    case Detector::kClusterCidr:
      flags = {"--cluster-cidr", proxy.cluster_cidr};
      break;
    case Detector::kNodeCidr:
      flags = {"--detect-local-mode=NodeCIDR"};
      break;
    case Detector::kBridgeInterface:
      flags = {"--detect-local-mode=BridgeInterface",
               "--pod-bridge-interface=" + proxy.pod_interface};
      break;
    case Detector::kInterfaceNamePrefix:
      flags = {"--detect-local-mode=InterfaceNamePrefix",
               "--pod-interface-name-prefix=" + proxy.pod_interface};
      break;
  }
  if (proxy.masquerade_all) flags.emplace_back("--masquerade-all");
  if (proxy.answer_ping) flags.emplace_back("--answer-ping");
  if (proxy.reset_stale_tcp) flags.emplace_back("--reset-stale-tcp");
  if (proxy.port_ranges) flags.emplace_back("--port-ranges");
  flags.push_back("--nodeport-addresses=" + proxy.nodeport_addresses);
  return flags;
}

std::string ScenarioSettings::ToString() const {
  return absl::StrCat(absl::StrJoin(Flags(), " "), ", podCIDRs ", absl::StrJoin(pod_cidrs, ","));
}

ScenarioSettings RandomSettings(Dice& dice) {
  const DetectorVariant detector = RandomDetector(dice);
  ScenarioSettings settings;
  settings.proxy.detector = detector.detector;
  settings.proxy.cluster_cidr = detector.cluster_cidr;
  settings.proxy.pod_interface = detector.interface;
  settings.proxy.masquerade_all = dice.Chance(20);
  const char* const addresses[] = {"primary",
                                   "primary",
                                   "primary",
                                   "198.18.7.0/24,fd00:77::/64",
                                   "192.168.77.0/24,198.18.7.10/32,fd00:78::10/128",
                                   "203.0.113.0/24,::/0",
                                   "0.0.0.0/0",
                                   "primary,localhost",
                                   "localhost,198.18.7.0/24",
                                   "fd00:78::/64,primary",
                                   "all,127.0.0.0/8"};
  settings.proxy.nodeport_addresses = dice.OneOf(addresses);
  settings.pod_cidrs = detector.pod_cidrs;
  settings.proxy.answer_ping = dice.Chance(25);
  settings.proxy.reset_stale_tcp = dice.Chance(25);
  settings.proxy.port_ranges = dice.Chance(40);
  return settings;
}

}  // namespace svcmap::testing
