// What happens to the first packet of a connection, and why, in the terms of the decision tables
// (docs/specification.md, 3.2), for people. Read from the wanted state: who owns an address and
// which endpoints there are is asked where the rows are made, in state/ and resolve/. Later packets
// of a connection follow the first one (S-95), and other tables of the node may still drop any of
// them.
//
// Pure. Walks all Services once: some 10 ms for 100,000 of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proxy/desired/service.h"
#include "proxy/ruleset/table.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

struct ExplainContext {
  const Store& store;
  const RulesetOptions& ruleset;
  const Node* this_node;  // Null while it is unknown.
  const NodeFacts& node;
  const std::vector<IpAddress>& interface_addresses;  // All of the node's.
};

struct Question {
  enum class From : uint8_t {
    kAnybody,  // Each kind of source is explained.
    kNode,     // A process of this node that uses the node's own IP.
    kAddress,
  };
  From from = From::kAnybody;
  IpAddress source;          // kAddress: of the destination's family.
  std::string in_interface;  // Where it comes in; empty: not known, or a process of this node.
  IpAddress destination;
  Protocol protocol = Protocol::kTcp;
  uint16_t port = 0;
};

enum class SourceKind : uint8_t { kPod, kNode, kOther };  // Columns P, N and E of the tables.

enum class Verdict : uint8_t {
  kDnat,       // To one of the endpoints.
  kReject,     // Port unreachable (S-100).
  kDrop,       // Silently.
  kUntouched,  // None of ours.
};

enum class ChosenSet : uint8_t { kNone, kCluster, kLocal };

struct Step {
  std::string what;   // One word: "firewall"
  std::string text;   // One sentence.
  std::string rules;  // "S-116, S-117"; may be empty.
};

struct ExplainedEndpoint {
  EndpointAddress address;
  bool local = false;       // On this node.
  bool masquerade = false;  // The endpoint sees the node's address instead of the client's.
  std::string kube_sep;     // "KUBE-SEP-..."
  uint32_t slots = 1;
};

// One case. Where the question leaves open what decides (no source, or an interface that is not
// named), there are several, and `source` says which one it is.
struct Explanation {
  SourceKind kind = SourceKind::kOther;
  std::string source;  // "10.244.1.5, a pod"
  std::vector<Step> steps;
  Verdict verdict = Verdict::kUntouched;
  ChosenSet set = ChosenSet::kNone;
  // kDnat: one slot of all of them is drawn for each new connection (S-38). Ascending.
  std::vector<ExplainedEndpoint> endpoints;
  std::vector<std::string> kube_chains;  // In the order of the packet: "KUBE-EXT-..."
};

struct Explained {
  std::string service_key;  // Of whom the address and port are; empty: nobody's.
  ServicePort port;         // With a service_key only.
  bool cluster_ip = false;  // The destination is some Service's clusterIP, whoever has the port.
  // At least one; of several in the order pod, node, other.
  std::vector<Explanation> cases;
};

Explained Explain(const ExplainContext& context, const Question& question);

}  // namespace svcmap::proxy
