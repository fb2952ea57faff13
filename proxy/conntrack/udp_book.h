// Remembers of each Service with UDP ports where its flows are sent to, and where they were sent to
// before: a flow to a former address stays while its endpoint serves, and goes with it. A former
// address is forgotten once no flow to it is left.
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
    std::vector<nft::FlowEnd> former;  // Ascending; none of them a destination of this Service.
  };
  using Service = std::vector<Port>;  // Each port has a destination or a former one.

 public:
  // The Service is like this now. That makes it due, unless no flow can have become stale by it:
  // where nothing changed, or all that changed is that endpoints joined others.
  void Update(const std::string& service, UdpPorts ports);

  // The Services whose flows are to be gone through.
  class Round {
   public:
    size_t services() const { return services_.size(); }
    // To be made once. Reads what is immutable: no lock is needed. The round must outlive it.
    StaleFlows MakeStaleFlows();

   private:
    friend class UdpBook;
    struct Former {
      const UdpPort* port;
      nft::FlowEnd destination;
      size_t number = 0;  // Among the stale flows.
    };
    struct Taken {
      std::string key;
      std::shared_ptr<const Service> service;
      std::vector<Former> former;  // Without those that are a destination of some Service.
    };
    std::vector<Taken> services_;
  };

  bool due() const { return !due_.empty(); }
  Round Take();  // All that are due; they are due no more.
  // All flows have been asked for: former addresses that kept none are forgotten.
  void Finish(const Round& round, const StaleFlows& flows);
  void Return(const Round& round);  // It came to nothing: they are due again.

  size_t services() const { return services_.size(); }

 private:
  void Replace(const std::string& key, Service service);

  absl::flat_hash_map<std::string, std::shared_ptr<const Service>> services_;
  absl::flat_hash_map<nft::FlowEnd, int> destinations_;  // Of how many Services.
  absl::flat_hash_set<std::string> due_;
};

}  // namespace svcmap::proxy
