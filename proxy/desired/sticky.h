// Numbers for session affinity (docs/decisions/0002). Endpoint numbers are part of the clients'
// affinity records. Timeout numbers identify the affinity timeouts that have chains in the table.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "proxy/desired/groups.h"
#include "proxy/desired/rows.h"

namespace svcmap::proxy {

// Assigns a number to each endpoint of `wanted` (ascending). Endpoints that already have a number
// keep the number. A new endpoint gets the number that has been unused for the longest time, so
// that records of removed endpoints match no endpoint (S-126).
void NumberEndpoints(const std::vector<EndpointAddress>& wanted, Affinity& affinity);

// For each number of an affinity timeout, the number of Service ports that use the timeout.
using TimerUses = std::array<int32_t, kMaxTimers>;

// Adds `change` to `uses` for each port of the Service that has session affinity.
void CountTimers(const ServiceRows& service, int change, TimerUses& uses);

// The affinity timeouts of the table, indexed by number. A number is used for another timeout only
// if all numbers are taken and no Service uses the number's previous timeout. Number 0 is always
// the default timeout.
class AffinityTimers {
 public:
  // Returns the number of the timeout `seconds` for a port of a Service, allocating a number if
  // necessary. If no number is left, returns the number of the next longer timeout, or of the
  // longest timeout. `uses_of_others` contains, for each timeout number, how many committed ports
  // of other Services use the timeout.
  uint8_t For(uint32_t seconds, const TimerUses& uses_of_others);

  const std::vector<uint32_t>& seconds() const { return seconds_; }

  // Returns the timeouts that have chains in the table.
  const std::vector<uint32_t>& committed() const { return committed_; }
  void Commit();    // Call Commit when the table has chains for all seconds().
  void Rollback();  // Undoes allocations since the last Commit.
  void Restore(std::vector<uint32_t> committed);

 private:
  uint8_t Take(size_t number);

  std::vector<uint32_t> seconds_ = {kDefaultAffinitySeconds};
  std::vector<uint32_t> committed_ = seconds_;
  // True for the numbers that For() has returned since the last Commit(), because the ports that
  // use these numbers are not committed yet.
  std::array<bool, kMaxTimers> promised_ = {};
};

}  // namespace svcmap::proxy
