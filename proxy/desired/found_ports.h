// The endpoint groups, slots and affinity numbers of Service ports, read from the tables of a
// previous run. A Service that keeps its numbers needs no new elements in the kernel, and the
// affinity records of its clients stay valid.
//
// The result is only a hint, because rows are compared with the kernel's elements before they are
// written. Therefore, damaged tables cause more changes, but no wrong rows.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "nft/model/transaction.h"
#include "proxy/desired/groups.h"
#include "proxy/desired/rows.h"

namespace svcmap::proxy {

class FoundPorts {
 public:
  // Call Add for each element of all sets, and then Finish.
  void Add(const nft::ElementView& element);
  void Finish();

  // Returns the ports of the Service that were found, without addresses. A port whose name,
  // protocol or kind (single port or range) has changed is not found.
  ServiceRows Find(const Service& service) const;

  // All numbers in the elements, ascending and without duplicates.
  const std::vector<Number>& numbers() const { return numbers_; }

 private:
  // The groups that the descriptors of a port contain. 0 means no group.
  struct Groups {
    // The group of the clusterIP, if it differs from `cluster`. Without session affinity, only the
    // Service shows whether its internal policy makes this the local endpoint set.
    uint32_t internal = 0;
    uint32_t cluster = 0;
    uint32_t local = 0;
    std::optional<uint8_t> timer;  // Present with session affinity.
    uint32_t port_number = 0;      // Set with session affinity. See Affinity.
  };
  // For each group, the slot numbers with their endpoints or, with session affinity, with their
  // choices (ruleset/descriptor.h).
  using Slots = absl::flat_hash_map<uint32_t, std::vector<std::pair<uint32_t, EndpointAddress>>>;
  using StickySlots = absl::flat_hash_map<uint32_t, std::vector<std::pair<uint32_t, uint32_t>>>;

  void TakeGroups(const std::string& port, const IpAddress& descriptor);
  EndpointSet SetOf(const PortRows& port, uint32_t group, Affinity* affinity) const;

  std::vector<std::pair<std::string, IpAddress>> destinations_;  // Port and descriptor.
  absl::flat_hash_map<IpAddress, IpAddress> local_sets_;
  Slots slots_[2][2];            // By Index(Family), for single ports and for ranges.
  StickySlots sticky_slots_[2];  // By Index(Family).
  // Maps each choice to its endpoint. By Index(Family), and by kind of port as in `slots_`.
  absl::flat_hash_map<uint32_t, EndpointAddress> choices_[2][2];
  std::map<std::string, Groups> ports_;
  std::vector<Number> numbers_;
};

}  // namespace svcmap::proxy
