// Computes connection rates of the endpoints of one Service from readings of the connection
// tracking table. Does no I/O.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "api/check/target.h"
#include "api/check/tracked_entries.h"
#include "api/cli/service_rates.h"
#include "svcmap/v1/objects.pb.h"

namespace svcmap::api {

class EndpointRates {
 public:
  // `addresses` are the addresses and ports of the Service.
  explicit EndpointRates(const std::vector<CheckTarget>& addresses);

  // Adds the ready endpoints of a slice, so that endpoints without connections are also listed.
  void AddEndpoints(const v1::EndpointSlice& slice);

  // Starts a reading. The reading before becomes the previous reading.
  void StartReading();
  // Adds an entry of the connection tracking table. Ignores entries of other destinations, entries
  // without translation, and repetitions.
  void Add(const TrackedEntry& entry);

  // Returns one rate for each endpoint. A connection is new if the previous reading does not
  // contain its entry. `total` is the number of entries in the last reading.
  std::vector<ServiceRate> Rates(double seconds, RateOrder order) const;

 private:
  using Address = std::tuple<IpAddress, uint16_t, proxy::Protocol>;
  struct Connections {
    absl::flat_hash_set<uint64_t> before;
    absl::flat_hash_set<uint64_t> now;
  };

  std::set<Address> addresses_;
  std::map<Address, Connections> endpoints_;
};

}  // namespace svcmap::api
