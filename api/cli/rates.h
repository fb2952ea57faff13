// Computes connection rates of Services from two readings of the connection counters, and
// connection rates of the endpoints of one Service from readings of the connection tracking table.
// Does no I/O.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "api/check/target.h"
#include "api/check/tracked_entries.h"
#include "svcmap/v1/objects.pb.h"

namespace svcmap::api {

enum class RateGroup : uint8_t { kService, kPort, kDestination };
enum class RateOrder : uint8_t { kRate, kTotal, kName };

// Number of new connections by name. A name is "shop/web", "shop/web 80/TCP" or
// "shop/web 80/TCP 10.96.0.10:80", depending on the group.
using ConnectionCounts = std::map<std::string, uint64_t>;

// Sums up the values of svcmap_service_connections_total in a page in Prometheus' text format.
ConnectionCounts ReadConnectionCounts(std::string_view page, RateGroup group);

struct ServiceRate {
  std::string name;
  double per_second = 0;
  uint64_t total = 0;
};

// Returns one rate for each name in `after`. If a counter was reset, the rate contains only the
// connections since the reset.
std::vector<ServiceRate> RatesBetween(const ConnectionCounts& before, const ConnectionCounts& after,
                                      double seconds, RateOrder order);

// Sorts rates that are sorted by name.
void SortRates(RateOrder order, std::vector<ServiceRate>& rates);

// Headings of the columns `total` and `name`.
struct RateHeading {
  const char* total = "TOTAL";
  const char* name = "SERVICE";
};

// Returns a heading and at most `max_rows` lines, with at most `columns` characters each. 0 means
// no limit.
std::string RatesText(const std::vector<ServiceRate>& rates, size_t max_rows, size_t columns,
                      const RateHeading& heading = {});

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
