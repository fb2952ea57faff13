// Tests of the detection of local pods by address, by the node's podCIDRs and by input interface.
// Each local host has a veth. Packets from other nodes arrive on the device "remote".
#include "tests/netns/flow.h"

namespace svcmap::testing {
namespace {

const v1::Object kNodeWithPods = ANode(kAgentNode)
                                     .InternalIp(kNodeV4)
                                     .InternalIp(kNodeV6)
                                     .Zone("za")
                                     .PodCidr(kPodCidrV4)
                                     .PodCidr(kPodCidrV6);
const Objects kBoth = {ExternalWeb("shop/web", kV).ExternalPolicy("Local"), kNodeWithPods};

// The cluster endpoint set contains L1, and the local endpoint set contains L1 and L2. Pods use the
// cluster endpoint set, and other clients use the local endpoint set.
constexpr char kEndpoints[] = "L1@za L2@zb";

// Expected results for a source that counts as a pod, another source, and the node.
Flows Pod(const std::string& source) {
  return Each({source}, {"V:80"}, "L1 -") + Each({source}, kExternal, "L1 -");
}
Flows NoPod(const std::string& source) {
  return Each({source}, {"V:80"}, "L1 m") + Each({source}, kExternal, "L1,L2 -");
}
Flows OfNode() { return Each({"N"}, {"V:80"}, "L1 m") + Each({"N"}, kExternal, "L1 m"); }

class DetectClusterCidr : public FlowRowTest {
 protected:
  std::vector<std::string> AgentFlags() override { return {"--detect-local-mode", "ClusterCIDR"}; }
};
TEST_P(DetectClusterCidr, Row) { Check(); }
INSTANTIATE_ROWS(DetectClusterCidr, std::vector<Row>{
                                        {"S63_S64", "Pod", kBoth, kEndpoints, Pod("P")},
                                        {"S64_S92", "PodElsewhere", kBoth, kEndpoints, Pod("Q")},
                                        {"S64", "Client", kBoth, kEndpoints, NoPod("X")},
                                        {"S64", "Node", kBoth, kEndpoints, OfNode()},
                                    });

class DetectNodeCidr : public FlowRowTest {
 protected:
  std::vector<std::string> AgentFlags() override { return {"--detect-local-mode", "NodeCIDR"}; }
};
TEST_P(DetectNodeCidr, Row) { Check(); }
INSTANTIATE_ROWS(DetectNodeCidr, std::vector<Row>{
                                     {"S63_S65", "Pod", kBoth, kEndpoints, Pod("P")},
                                     {"S65_S92", "PodElsewhere", kBoth, kEndpoints, NoPod("Q")},
                                     {"S65", "Client", kBoth, kEndpoints, NoPod("X")},
                                     {"S65", "Node", kBoth, kEndpoints, OfNode()},
                                 });

// The veth of pod P is configured as the bridge interface.
class DetectBridge : public FlowRowTest {
 protected:
  std::vector<std::string> AgentFlags() override {
    return {"--detect-local-mode", "BridgeInterface", "--pod-bridge-interface",
            world()->cast.at("P")->device()};
  }
};
TEST_P(DetectBridge, Row) { Check(); }
INSTANTIATE_ROWS(DetectBridge, std::vector<Row>{
                                   {"S66", "Pod", kBoth, kEndpoints, Pod("P")},
                                   {"S66", "OtherDevice", kBoth, kEndpoints, NoPod("L3")},
                                   {"S66_S92", "PodElsewhere", kBoth, kEndpoints, NoPod("Q")},
                                   {"S66", "Client", kBoth, kEndpoints, NoPod("X")},
                                   {"S66_S70", "Node", kBoth, kEndpoints, OfNode()},
                               });

// All devices of pods and the device of the client start with "veth", so the client also counts as
// a pod.
class DetectPrefix : public FlowRowTest {
 protected:
  std::vector<std::string> AgentFlags() override {
    return {"--detect-local-mode", "InterfaceNamePrefix", "--pod-interface-name-prefix", "vet"};
  }
};
TEST_P(DetectPrefix, Row) { Check(); }
INSTANTIATE_ROWS(DetectPrefix, std::vector<Row>{
                                   {"S67", "Pod", kBoth, kEndpoints, Pod("P")},
                                   {"S67", "OtherDeviceOfThePrefix", kBoth, kEndpoints, Pod("X")},
                                   {"S67_S92", "PodElsewhere", kBoth, kEndpoints, NoPod("Q")},
                                   {"S67_S70", "Node", kBoth, kEndpoints, OfNode()},
                               });

}  // namespace
}  // namespace svcmap::testing
