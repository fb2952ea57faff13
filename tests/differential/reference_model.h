// What becomes of the first packet of a connection, by section 3 of docs/specification.md and
// nothing else: the answer the kernel has to agree with. Written from the S-numbers, sharing no
// code with proxy/, nft/ or api/; slow and plain.
//
//   ReferenceModel model(settings, {"192.0.2.10"}, objects);
//   model.Predict({.source = "10.64.1.77", .interface = "veth0", ..., .destination = "10.96.3.1"});
//
// Left out, because nothing here generates it: endpoints that are Services' own addresses (S-98).
#ifndef SVCMAP_TESTS_DIFFERENTIAL_REFERENCE_MODEL_H_
#define SVCMAP_TESTS_DIFFERENTIAL_REFERENCE_MODEL_H_

#include <cstdint>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "tests/differential/model_service.h"

namespace svcmap::testing {

// What the agent was started with.
struct ProxySettings {
  enum class Detector { kClusterCidr, kNodeCidr, kBridgeInterface, kInterfaceNamePrefix };
  std::string node_name = "n1";
  Detector detector = Detector::kClusterCidr;
  std::string cluster_cidr;   // For kClusterCidr; comma-separated. Empty: no detector.
  std::string pod_interface;  // The bridge, or the prefix.
  bool masquerade_all = false;
  std::string nodeport_addresses = "primary";
};

struct Packet {
  std::string source;
  std::string interface;  // By which it comes in; empty: from a process on the node.
  Protocol protocol = Protocol::kTcp;
  std::string destination;
  uint16_t port = 0;
};

std::ostream& operator<<(std::ostream& out, const Packet& packet);

struct Choice {
  std::string ip;
  uint16_t port = 0;
  bool masqueraded = false;

  friend auto operator<=>(const Choice&, const Choice&) = default;
};

enum class Verdict { kDelivered, kRejected, kDropped, kUntouched };

struct Prediction {
  Verdict verdict = Verdict::kUntouched;
  std::vector<Choice> choices;  // kDelivered: one of these, in the order of S-27.
  std::string service_port;     // Who decided: "ns/web:http/tcp"; empty if nobody.
  bool affinity = false;        // Of that service port.
  std::string why;              // S-numbers, for people.

  std::string ToString() const;
};

class ReferenceModel {
 public:
  ReferenceModel(const ProxySettings& settings, const std::vector<std::string>& node_addresses,
                 const Objects& objects);

  Prediction Predict(const Packet& packet) const;

  // Endpoints, as "IP:port", that may hold affinity records, by service port: the reachable sets of
  // those with affinity (S-36, S-126).
  std::map<std::string, std::set<std::string>> AffineEndpoints() const;

 private:
  // Everything of one family.
  struct World {
    std::vector<ModelServicePort> ports;
    std::vector<TextPrefix> service_cidrs;
    std::set<TextAddress> cluster_ips;  // Active ones.
  };
  // The packet with its addresses read, and what S-63 and S-72 say about its source.
  struct Flow {
    TextAddress source;
    TextAddress destination;
    Protocol protocol;
    uint16_t port;
    bool from_host;
    bool from_pod;
    bool from_node;
    bool marked;  // By the clusterIP rule, step 2 of S-94.
  };

  const World& Of(bool v6) const { return worlds_[v6 ? 1 : 0]; }
  bool DetectorPresent(bool v6) const;
  bool IsPod(const Packet& packet, const TextAddress& source) const;
  bool TakesNodePorts(const TextAddress& address) const;
  const ModelServicePort* OwnerOfAddress(const Flow& flow) const;
  const ModelServicePort* OwnerOfNodePort(const Flow& flow) const;
  bool SourceAllowed(const ModelServicePort& port, const TextAddress& source) const;
  Prediction ToClusterIp(const ModelServicePort& port, const Flow& flow) const;
  Prediction ToExternal(const ModelServicePort& port, const Flow& flow) const;
  Prediction WithoutOwner(const Flow& flow) const;
  Prediction Delivered(const ModelServicePort& port, const Flow& flow, const ModelEndpoints& set,
                       bool masquerade, const std::string& why) const;
  bool IsHairpin(const Flow& flow, const ModelEndpoint& endpoint) const;

  ProxySettings settings_;
  std::set<TextAddress> node_addresses_;
  ModelNode node_;
  std::vector<World> worlds_;
};

}  // namespace svcmap::testing

#endif  // SVCMAP_TESTS_DIFFERENTIAL_REFERENCE_MODEL_H_
