// Records the current and former destinations of each Service with UDP ports. A flow to a former
// destination is kept while the flow's endpoint is serving, and becomes stale when the endpoint
// stops serving. A former destination is removed from the book when it has no flows left.
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
    std::vector<nft::FlowEnd> former;  // Ascending. Excludes current destinations of the Service.
  };
  // Ascending by family and name. Each port has at least one current or former destination.
  using Service = std::vector<Port>;

 public:
  // Sets the current ports of the Service. The Service becomes due for a scan if the update can
  // make a flow stale. An update that changes nothing or only adds endpoints cannot.
  void Update(const std::string& service, UdpPorts ports);

  // The Services whose flows are scanned in one round.
  class Round {
   public:
    size_t services() const { return services_.size(); }
    // Call once. Reads only immutable data, so no lock is needed. The round must outlive the
    // result.
    StaleFlows MakeStaleFlows();

   private:
    friend class UdpBook;
    struct FormerDestination {
      const UdpPort* port;
      nft::FlowEnd destination;
      size_t number = 0;  // Number returned by StaleFlows::Add.
    };
    struct Entry {
      std::string key;
      std::shared_ptr<const Service> service;
      // Excludes destinations that any Service currently uses.
      std::vector<FormerDestination> former;
    };
    std::vector<Entry> services_;
  };

  bool due() const { return !due_.empty(); }
  Round Take();  // Returns all due Services and clears the due flag.
  // Call after all flows were tested. Removes former destinations that have no flows left.
  void Finish(const Round& round, const StaleFlows& flows);
  // Call if the round failed. The round's Services become due again.
  void Return(const Round& round);

  size_t services() const { return services_.size(); }

 private:
  void Replace(const std::string& key, Service service);

  absl::flat_hash_map<std::string, std::shared_ptr<const Service>> services_;
  absl::flat_hash_map<nft::FlowEnd, int> destinations_;  // Number of Services per destination.
  absl::flat_hash_set<std::string> due_;
};

}  // namespace svcmap::proxy
