// Numbers for session affinity (docs/decisions/0002). Endpoint numbers are part of the clients'
// affinity records. Timeout numbers identify the affinity timeouts that have chains in the table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "nft/model/kernel.h"
#include "proxy/desired/groups.h"
#include "proxy/desired/rows.h"

namespace svcmap::proxy {

// Assigns a number to each endpoint of `wanted` (ascending). Endpoints that already have a number
// keep the number. A new endpoint gets the number that has been unused for the longest time, so
// that records of removed endpoints match no endpoint (S-126).
void NumberEndpoints(const std::vector<EndpointAddress>& wanted, Affinity& affinity);

// The affinity timeouts that have chains in the table, indexed by number.
class AffinityTimers {
 public:
  // Returns the number of the timeout `seconds`, allocating a number if necessary. If no number is
  // left, returns the number of the next longer timeout, or of the longest timeout.
  uint8_t For(uint32_t seconds);

  const std::vector<uint32_t>& seconds() const { return seconds_; }
  void Restore(std::vector<uint32_t> seconds) { seconds_ = std::move(seconds); }

 private:
  std::vector<uint32_t> seconds_ = {kDefaultAffinitySeconds};
};

// Affinity numbers of the previous run, read from the kernel. svcmapd keeps the numbers until it
// has received the complete state.
class AffinityMemory {
 public:
  // `elements` are the elements of affinity-endpoints and affinity-local-endpoints. Remember
  // reserves the port numbers.
  void Remember(Family family, const std::vector<nft::Element>& elements, Numbers& numbers);

  // Assigns the remembered numbers to a port. Returns false if the port was not remembered or was
  // already taken.
  bool Take(Family family, const std::string& comment, Numbers& numbers, Affinity& affinity);

  void Forget(Numbers& numbers);
  bool empty() const { return ports_.empty(); }

 private:
  // Affinity data by family and element comment.
  absl::flat_hash_map<std::string, Affinity> ports_;
};

}  // namespace svcmap::proxy
