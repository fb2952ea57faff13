// A small random cluster: a node, Service ranges, Services with conflicting addresses and ports,
// and slices with all features of the specification. A seed reproduces the cluster and all later
// changes.
//
// Contains only objects that a Kubernetes API server accepts, so the agent rejects no object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/differential/dice.h"
#include "tests/support/builders.h"

namespace svcmap::testing {

inline constexpr uint32_t kMaxRandomWeight = 2;

// Properties of an endpoint that are the same in all slices.
struct RandomEndpoint {
  enum class State {
    kReady,
    kUnset,
    kReadyTerminating,
    kServingTerminating,
    kUnsetTerminating,
    kServingOnly,
    kNotReady,
    kDown,
  };
  size_t host = 0;  // Index of the endpoint's host in kEndpointHosts.
  State state = State::kReady;
  std::vector<std::string> zones;
  std::vector<std::string> nodes;
  bool v4 = true;
  bool v6 = true;
  size_t slice = 0;
  bool twin = false;              // True if the endpoint is also in the other slice.
  bool terminating_twin = false;  // True if the endpoint is terminating in the other slice (S-26).
  bool node_name = true;
  bool second_address = false;  // S-22
  bool leading_zeros = false;   // S-5
  std::optional<uint32_t> weight;
};

class RandomCluster {
 public:
  // Creates a random cluster. `name_space` is the namespace of the cluster's namespaced objects.
  RandomCluster(uint64_t seed, std::string name_space, std::vector<std::string> pod_cidrs);

  Objects Render() const;

  // Makes one to three changes, or reverts the last changes. Returns a description.
  std::string Change();

 private:
  enum class Hints { kNone, kZones, kNodes, kBoth, kPatchy };
  enum class Oddity {
    kNone,
    kPortWithoutName,
    kPortWithoutNumber,
    kExtraPort,
    kOtherProtocol,  // Changes the protocol of the first port.
    kMissingPort,    // Omits the first port of the slice.
    kEndpointWithoutAddress,
    // This kind and the following kinds add a separate slice, which svcmapd must not use.
    kUnlabelledSlice,
    kHeadlessSlice,
    kOtherServicesSlice,
  };
  struct Entry {
    v1::Service service;
    bool exists = true;
    bool has_slices = true;
    std::vector<RandomEndpoint> endpoints;
    Hints hints = Hints::kNone;
    Oddity oddity = Oddity::kNone;
    // Target ports, indexed by slice and then by Service port.
    std::vector<std::vector<uint16_t>> targets;
  };

  Entry NewEntry(size_t index);
  void RollClusterIps(Entry& entry);
  void RollLabels(Entry& entry);
  void RollPorts(Entry& entry);
  static bool HasNodeEndpoint(const Entry& entry);
  void MakeRanges(v1::ServiceSpec& spec);
  void RollNodePorts(Entry& entry);
  void RollExternalIps(Entry& entry);
  void RollLoadBalancer(Entry& entry);
  void RollRanges(Entry& entry);
  void RollPolicies(Entry& entry);
  void RollAffinity(Entry& entry);
  void RollPick(Entry& entry);
  void RollCreation(Entry& entry);
  void RollTargets(Entry& entry);
  void RollEndpoints(Entry& entry);
  void RollHints(RandomEndpoint& endpoint, Hints hints);
  RandomEndpoint NewEndpoint(size_t host, Hints hints);
  void RollNode();
  void RollServiceCidrs();
  std::string ChangeNode();
  std::string ChangeService(Entry& entry);
  std::string ChangeEndpoints(Entry& entry);
  bool ClusterIpTaken(const std::string& ip) const;

  static void AddSlicePorts(const Entry& entry, size_t index, v1::EndpointSlice& slice);
  v1::Object RenderSlice(const Entry& entry, bool v6, size_t index) const;
  void AppendSlices(const Entry& entry, Objects& objects) const;

  Dice dice_;
  std::string name_space_;
  std::vector<std::string> pod_cidrs_;
  std::optional<v1::Object> node_;
  Objects service_cidrs_;
  std::vector<Entry> entries_;
  std::vector<Entry> before_;  // State before the last change.
};

// Returns the difference between two states as one batch of changes.
std::vector<v1::Change> Difference(const Objects& before, const Objects& after);

}  // namespace svcmap::testing
