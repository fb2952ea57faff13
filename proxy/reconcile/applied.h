// What the kernel has confirmed: per Service the rows that are committed, and what follows from all
// of them. Moves in one place, after a commit.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proxy/diff/plan.h"
#include "proxy/reconcile/row_owners.h"

namespace svcmap::proxy {

// Service ports that have an endpoint somewhere, none on this node, and a policy Local: whom it
// holds for finds nobody (S-279). By Index(Family).
struct NoLocalEndpoints {
  int64_t internal[2] = {};
  int64_t external[2] = {};
};

class Applied {
 public:
  // In order, so that a walk can be left and gone on with; entries stay where they are.
  using Services = std::map<std::string, ServiceRows>;
  using ServiceChanges = std::vector<std::pair<std::string, ServiceRows>>;

  const ServiceRows* Find(const std::string& key) const {
    const auto found = services_.find(key);
    return found == services_.end() ? nullptr : &found->second;
  }
  const Services& services() const { return services_; }
  const RowOwners& owners() const { return owners_; }
  // Service ports, a port in both families counted once.
  size_t service_ports() const { return service_ports_; }
  const SharedCounts& shared() const { return shared_; }
  const SetCounts& counts() const { return counts_; }
  const NoLocalEndpoints& no_local_endpoints() const { return no_local_endpoints_; }
  const std::vector<Row>& node_rows() const { return node_rows_; }
  const Marker& marker() const { return marker_; }

  // The plan was committed. `recreated`: it built the tables anew, with everything in it.
  void Advance(const Plan& plan, bool recreated, ServiceChanges services,
               std::vector<Row> node_rows, const Marker& marker);

  // What a former life knew. False, and nothing is taken over, if it is not what the marker says.
  bool Restore(ServiceChanges services, std::vector<Row> node_rows, const Marker& marker);

 private:
  void Put(std::string key, ServiceRows rows);
  void CountPorts(const ServiceRows& service, int change);

  Services services_;
  RowOwners owners_;
  size_t service_ports_ = 0;
  SharedCounts shared_;
  SetCounts counts_ = {};
  NoLocalEndpoints no_local_endpoints_;
  std::vector<Row> node_rows_;
  Marker marker_;
};

}  // namespace svcmap::proxy
