// Numbers of session affinity (docs/decisions/0002): those of a Service port's endpoints, which its
// clients' records hold, and which timeouts the table has chains for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "nft/model/kernel.h"
#include "proxy/desired/groups.h"
#include "proxy/desired/rows.h"

namespace svcmap::proxy {

// Gives every endpoint of `wanted` (ascending) its number: who was there keeps it, a newcomer gets
// one that was in use as long ago as can be, so that records of one that left mean nobody (S-126).
void NumberEndpoints(const std::vector<EndpointAddress>& wanted, Affinity& affinity);

// The affinity timeouts that the table has chains for, by their number.
class AffinityTimers {
 public:
  // The number of `seconds`, which is new if need be. Once all numbers are taken it is the one of
  // the next longer timeout there is, or of the longest.
  uint8_t For(uint32_t seconds);

  const std::vector<uint32_t>& seconds() const { return seconds_; }
  void Restore(std::vector<uint32_t> seconds) { seconds_ = std::move(seconds); }

 private:
  std::vector<uint32_t> seconds_ = {kDefaultAffinitySeconds};
};

// What the kernel still holds of a former life: under which numbers clients' records are. Kept
// until the state is complete.
class AffinityMemory {
 public:
  // `elements`: of affinity-endpoints and affinity-local-endpoints. Reserves the port numbers.
  void Remember(Family family, const std::vector<nft::Element>& elements, Numbers& numbers);

  // The numbers of a port that has none yet; false: it was not remembered, or was taken before.
  bool Take(Family family, const std::string& comment, Numbers& numbers, Affinity& affinity);

  void Forget(Numbers& numbers);
  bool empty() const { return ports_.empty(); }

 private:
  absl::flat_hash_map<std::string, Affinity> ports_;  // By family and comment.
};

}  // namespace svcmap::proxy
