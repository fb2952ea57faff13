// What the kernel has confirmed: per Service the rows that are committed, and what follows from all
// of them. Moves in one place, after a commit.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "proxy/diff/plan.h"

namespace svcmap::proxy {

class Applied {
 public:
  const ServiceRows* Find(const std::string& key) const {
    const auto found = services_.find(key);
    return found == services_.end() ? nullptr : &found->second;
  }
  const absl::flat_hash_map<std::string, ServiceRows>& services() const { return services_; }
  // Service ports, a port in both families counted once.
  size_t service_ports() const { return service_ports_; }
  const SharedCounts& shared() const { return shared_; }
  const SetCounts& counts() const { return counts_; }
  const std::vector<Row>& node_rows() const { return node_rows_; }
  const Marker& marker() const { return marker_; }

  using ServiceChanges = std::vector<std::pair<std::string, ServiceRows>>;

  // The plan was committed. `recreated`: it built the tables anew, with everything in it.
  void Advance(const Plan& plan, bool recreated, ServiceChanges services,
               std::vector<Row> node_rows, const Marker& marker);

 private:
  absl::flat_hash_map<std::string, ServiceRows> services_;
  size_t service_ports_ = 0;
  SharedCounts shared_;
  SetCounts counts_ = {};
  std::vector<Row> node_rows_;
  Marker marker_;
};

}  // namespace svcmap::proxy
