// Reads the reverse path filter (net.ipv4.conf.*.rp_filter) of this network namespace.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace svcmap::api {

// Returns the value of `name` in the group "TcpExt" of a page in the format of /proc/net/netstat,
// or 0 if the page does not contain the counter. Pure function.
uint64_t NetstatCounter(std::string_view page, std::string_view name);

// Returns the number of packets that the reverse path filter has dropped.
uint64_t RpFilterDrops();

// Returns the interfaces other than lo with a strict filter (1), sorted by name.
std::vector<std::string> StrictInterfaces();

}  // namespace svcmap::api
