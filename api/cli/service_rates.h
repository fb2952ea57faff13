// Computes connection rates from two readings of the connection counters. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace svcmap::api
