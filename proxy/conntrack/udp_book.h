// Records the current and former destinations of each Service with UDP ports. A flow to a former
// destination is kept while the flow's endpoint is serving, and becomes stale when the endpoint
// stops serving. The book removes a former destination that has no flows left.
//
// Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "proxy/conntrack/stale_flows.h"
#include "proxy/conntrack/udp_ports.h"

namespace svcmap::proxy {

class UdpBook {
  struct Port {
    UdpPort now;
    // Former destinations, ascending, without current destinations.
    std::vector<FlowDestination> former;
  };
  // The ports of one Service, ascending by family and name. Each port has at least one current or
  // former destination.
  using Service = std::vector<Port>;

 public:
  // Sets the current ports of the Service. The Service becomes due for a scan if the update can
  // make a flow stale. An update that only adds endpoints, or changes nothing, cannot make a flow
  // stale.
  void Update(const std::string& service, UdpPorts ports);

  // Makes all Services due, because packets may have passed without translation.
  void MakeAllDue() { all_due_ = true; }

  // The Services whose flows are scanned in one round.
  class Round {
   public:
    size_t services() const { return services_.size(); }
    // Call once. MakeStaleFlows reads only immutable data, so the caller needs no lock. The round
    // must outlive the returned object.
    StaleFlows MakeStaleFlows();

   private:
    friend class UdpBook;
    struct FormerDestination {
      const UdpPort* port;
      FlowDestination destination;
      size_t number = 0;  // Number returned by StaleFlows::Add.
    };
    struct Entry {
      std::string key;
      std::shared_ptr<const Service> service;
      // Former destinations that no Service currently uses.
      std::vector<FormerDestination> former;
    };
    uint64_t changes_ = 0;  // UdpBook::changes_ when the round was made.
    std::vector<Entry> services_;
    // Current destinations with a single port at addresses with a port range in this round.
    std::vector<nft::FlowEnd> single_ports_;
  };

  bool due() const { return !due_.empty() || (all_due_ && !services_.empty()); }
  Round Take();  // Returns all due Services, which are then no longer due.
  // Returns true if flows that are stale in `round` may be in use now.
  bool ChangedSince(const Round& round) const { return changes_ != round.changes_; }
  // Returns a round of the same Services with their present ports. A flow to a destination that
  // belongs to another Service now is not stale in it.
  Round Again(const Round& round) const;
  // Call Finish after all flows were tested. Removes former destinations that have no flows left.
  void Finish(const Round& round, const StaleFlows& flows);
  // Call Return if the round failed. The round's Services become due again.
  void Return(const Round& round);

  size_t services() const { return services_.size(); }

 private:
  void Replace(const std::string& key, Service service);
  template <typename Keys>
  Round MakeRound(const Keys& keys) const;
  std::vector<nft::FlowEnd> SinglePortsAt(const absl::flat_hash_set<IpAddress>& addresses) const;

  absl::flat_hash_map<std::string, std::shared_ptr<const Service>> services_;
  absl::flat_hash_map<FlowDestination, int> destinations_;  // Number of Services per destination.
  absl::flat_hash_set<std::string> due_;
  bool all_due_ = false;
  uint64_t changes_ = 0;  // Number of changes of `services_`.
};

}  // namespace svcmap::proxy
