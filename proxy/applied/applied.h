// The state that the kernel has confirmed: the committed rows of each Service, and data derived
// from all rows. Changes only after a commit.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proxy/desired/sticky.h"
#include "proxy/diff/plan.h"

namespace svcmap::proxy {

// Number of Service ports with a Local traffic policy that have endpoints, but none on this node.
// Packets to which the policy applies find no endpoint (S-279). By Index(Family).
struct NoLocalEndpoints {
  int64_t internal[2] = {};
  int64_t external[2] = {};
};

class Applied {
 public:
  // Ordered, so that a traversal can be interrupted and resumed. Addresses of entries are stable.
  using Services = std::map<std::string, ServiceRows>;
  using ServiceChanges = std::vector<std::pair<std::string, ServiceRows>>;

  const ServiceRows* Find(const std::string& key) const {
    const auto found = services_.find(key);
    return found == services_.end() ? nullptr : &found->second;
  }
  const Services& services() const { return services_; }
  // Number of Service ports. A dual-stack port counts once.
  size_t service_ports() const { return service_ports_; }
  // Number of Services whose TCP connections to removed endpoints are reset.
  size_t reset_services() const { return reset_services_; }
  const TimerUses& timer_uses() const { return timer_uses_; }
  const SharedCounts& shared() const { return shared_; }
  const SetCounts& counts() const { return counts_; }
  size_t RowCount() const;                 // Number of elements in all sets.
  size_t SourceRows(Family family) const;  // Number of source ranges.
  const NoLocalEndpoints& no_local_endpoints() const { return no_local_endpoints_; }
  const std::vector<Row>& node_rows() const { return node_rows_; }
  const Marker& marker() const { return marker_; }

  // The plan was committed. `recreated`: the plan rewrote the tables completely.
  void Advance(const Plan& plan, bool recreated, ServiceChanges services,
               std::optional<std::vector<Row>> node_rows, const Marker& marker);

  // Revisions continue from the marker of the previous run.
  void ContinueFrom(const Marker& marker) { marker_ = marker; }

 private:
  void Put(std::string key, ServiceRows rows);
  void CountPorts(const ServiceRows& service, int change);

  Services services_;
  size_t service_ports_ = 0;
  size_t reset_services_ = 0;
  TimerUses timer_uses_ = {};
  SharedCounts shared_;
  SetCounts counts_ = {};
  NoLocalEndpoints no_local_endpoints_;
  std::vector<Row> node_rows_;
  Marker marker_;
};

}  // namespace svcmap::proxy
