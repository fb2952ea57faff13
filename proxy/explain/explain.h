// Explains how svcmap handles the first packet of a connection, step by step.
//
// Explain evaluates the desired state with functions of proxy/state and proxy/resolve. The same
// functions compute the map elements. Connection tracking handles later packets of a connection
// like the first packet (S-95). Explain does not consider other nftables tables, which may drop
// packets.
//
// Explain is a pure function. Explain visits each Service once, which takes about 10 ms for 100,000
// Services.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proxy/desired/service.h"
#include "proxy/ruleset/table.h"
#include "proxy/state/standing_findings.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

struct ExplainContext {
  const Store& store;
  const RulesetOptions& ruleset;
  const Node* this_node;  // Null until the Node object has been received.
  const NodeFacts& node;
  const std::vector<IpAddress>& interface_addresses;  // Addresses of all node interfaces.
  const bool (&localhost_node_ports)[2];              // See ReconcilerOptions.
  const StandingFindings& findings;
};

// The connection to explain.
struct Question {
  enum class From : uint8_t {
    kAnybody,  // Explains each kind of source.
    kNode,     // Explains a process on this node that uses the node IP.
    kAddress,  // Explains the address in `source`.
  };
  From from = From::kAnybody;
  IpAddress source;          // Source address for kAddress, in the family of `destination`.
  std::string in_interface;  // Input interface. Empty if unknown or if the source is a process.
  IpAddress destination;
  Protocol protocol = Protocol::kTcp;
  uint16_t port = 0;
};

enum class SourceKind : uint8_t { kPod, kNode, kOther };

enum class Verdict : uint8_t {
  kDnat,       // The destination is translated to an endpoint.
  kReject,     // The packet is rejected with a TCP reset or an ICMP error (S-100).
  kDrop,       // The packet is dropped silently.
  kUntouched,  // svcmap does not modify the packet.
};

enum class ChosenSet : uint8_t { kNone, kCluster, kLocal };

struct Step {
  std::string what;   // Topic in one word, such as "firewall".
  std::string text;   // Explanation in one sentence, without requirement numbers.
  std::string rules;  // Requirement numbers, such as "S-116, S-117". May be empty.
};

struct ExplainedEndpoint {
  EndpointAddress address;
  bool local = false;       // True if the endpoint is on this node.
  bool masquerade = false;  // True if the node's address replaces the source address.
  std::string kube_sep;     // kube-proxy's chain name in iptables mode: "KUBE-SEP-..."
  uint32_t slots = 1;       // Number of the endpoint's slots (weight).
};

// Explanation for one kind of source. Explain returns several explanations if the source address of
// the connection is not given. If pods are detected by interface, Explain also returns several
// explanations if the input interface is not given.
struct Explanation {
  SourceKind kind = SourceKind::kOther;
  std::string source;  // "10.244.1.5, a pod"
  std::vector<Step> steps;
  Verdict verdict = Verdict::kUntouched;
  ChosenSet set = ChosenSet::kNone;
  // Possible endpoints for kDnat, and for a nodePort on a loopback address, in ascending order. A
  // new connection uses a random slot (S-38), or with ServiceSpec.endpoint_pick, the slot of its
  // hash. svcmapd always picks a random endpoint for a nodePort on a loopback address.
  std::vector<ExplainedEndpoint> endpoints;
  // kube-proxy's chain names in iptables mode, in packet order: "KUBE-EXT-..."
  std::vector<std::string> kube_chains;
};

struct Explained {
  std::string service_key;  // Service with this address and port, or empty.
  ServicePort port;         // Valid only if `service_key` is not empty.
  bool cluster_ip = false;  // True if the address is the clusterIP of a Service.
  // One explanation per kind of source, in the order pod, node, other. Never empty.
  std::vector<Explanation> cases;
};

Explained Explain(const ExplainContext& context, const Question& question);

}  // namespace svcmap::proxy
