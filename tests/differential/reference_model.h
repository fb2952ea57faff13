// Predicts the result of a connection's first packet according to section 3 of
// docs/specification.md. The kernel must agree with the prediction. The implementation is slow and
// simple, and shares no code with proxy/, nft/ or api/.
//
// ReferenceModel model(settings, {"192.0.2.10"}, objects);
// model.Predict({.source = "10.64.1.77", .interface = "veth0", ..., .destination = "10.96.3.1"});
//
// Endpoints that are addresses of Services (S-98) are not implemented, because no scenario contains
// such endpoints.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "tests/differential/model_service.h"
#include "tests/support/client.h"

namespace svcmap::testing {

// The settings of the agent.
struct ProxySettings {
  enum class Detector { kClusterCidr, kNodeCidr, kBridgeInterface, kInterfaceNamePrefix };
  std::string node_name = "n1";
  Detector detector = Detector::kClusterCidr;
  // Comma-separated list for kClusterCidr, or empty if no detector is configured.
  std::string cluster_cidr;
  std::string pod_interface;  // Name of the bridge, or prefix of interface names.
  bool masquerade_all = false;
  std::string nodeport_addresses = "primary";
  bool answer_ping = false;
  bool reset_stale_tcp = false;
  bool port_ranges = false;
};

struct Packet {
  std::string source;
  // Input interface of the packet, or empty if the source is a process on the node.
  std::string interface;
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
  std::vector<Choice> choices;  // Possible endpoints of a kDelivered packet, in the order of S-27.
  // Service port that determined the result, for example "ns/web:http/tcp", or empty if no Service
  // port is involved.
  std::string service_port;
  bool affinity = false;  // True if this Service port has session affinity.
  bool range = false;     // True if this Service port is a port range.
  std::string pick;       // ModelServicePort::pick of this Service port.
  // Endpoints, weights and size of the hash table. If `pick` is "ClientIP", a client uses the same
  // endpoint of all tables with the same text, also of different Services.
  std::string table;
  std::string why;  // Requirement numbers for messages.

  std::string ToString() const;
};

// Revision at which the agent received each Service first, by the Service's key.
using FirstSeen = std::map<std::string, uint64_t>;

class ReferenceModel {
 public:
  ReferenceModel(const ProxySettings& settings, const std::vector<std::string>& node_addresses,
                 const Objects& objects, const FirstSeen& first_seen = {});

  Prediction Predict(const Packet& packet) const;

  // Predicts the result of an echo request to the packet's destination, if no other host answers
  // echo requests to Service addresses. Ignores the protocol and the port.
  Outcome PredictPing(const Packet& packet) const;

  // Returns true if open TCP connections through this Service to endpoints that are gone are reset.
  bool ResetsStaleTcp(const v1::Service& service) const;

  // Returns true if the destination takes precedence over a nodePort or a port range of another
  // Service. Connections to it are not reset.
  bool HidesAnother(const Packet& packet) const;

  // Returns the endpoints ("IP:port") that may have affinity records, by Service port. The result
  // contains the reachable set of each Service port with affinity (S-36, S-126).
  std::map<std::string, std::set<std::string>> AffineEndpoints() const;

 private:
  // The Service ports and addresses of one family.
  struct World {
    std::vector<ModelServicePort> ports;
    std::vector<TextPrefix> service_cidrs;
    std::set<TextAddress> cluster_ips;  // clusterIPs of all Service ports.
  };
  // A packet with parsed addresses and the classification of its source (S-63, S-72).
  struct Flow {
    TextAddress source;
    TextAddress destination;
    Protocol protocol;
    uint16_t port;
    bool from_host;
    bool from_pod;
    bool from_node;
    bool marked;  // True if the clusterIP rule (step 2 of S-94) marks the packet for masquerading.
  };

  const World& Of(bool v6) const { return worlds_[v6 ? 1 : 0]; }
  bool DetectorPresent(bool v6) const;
  bool IsPod(const Packet& packet, const TextAddress& source) const;
  bool TakesNodePorts(const TextAddress& address) const;
  const ModelServicePort* OwnerOfAddress(const Flow& flow) const;
  const ModelServicePort* OwnerOfNodePort(const Flow& flow) const;
  const ModelServicePort* OwnerOfRange(const Flow& flow) const;
  bool SourceAllowed(const ModelServicePort& port, const TextAddress& source) const;
  Prediction ToAddress(const ModelServicePort& port, const Flow& flow) const;
  Prediction ToClusterIp(const ModelServicePort& port, const Flow& flow) const;
  Prediction ToExternal(const ModelServicePort& port, const Flow& flow) const;
  Prediction WithoutOwner(const Flow& flow) const;
  Prediction Delivered(const ModelServicePort& port, const Flow& flow, const ModelEndpoints& set,
                       bool masquerade, const std::string& why) const;
  std::optional<Flow> FlowOf(const Packet& packet) const;
  bool AnswersPing(const TextAddress& address) const;
  bool IsHairpin(const Flow& flow, const ModelEndpoint& endpoint) const;

  ProxySettings settings_;
  std::set<TextAddress> node_addresses_;
  ModelNode node_;
  std::vector<World> worlds_;
};

}  // namespace svcmap::testing
