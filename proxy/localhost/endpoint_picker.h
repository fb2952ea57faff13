// Picks endpoints for the connections to one nodePort on a loopback address. Not thread-safe.
// Reads no clock and no random source; the caller provides both.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "proxy/localhost/nodeports.h"

namespace svcmap::proxy {

class EndpointPicker {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Replaces the endpoints. Deletes the session affinity record if its endpoint was removed.
  void Set(LocalhostNodePort node_port);

  // Returns an endpoint that is not in `tried`, or nullopt if there is none. With session affinity,
  // returns the endpoint of the previous connection until the timeout has passed. Otherwise, picks
  // an endpoint by weight, where `random` is uniformly distributed over all values.
  std::optional<EndpointAddress> Pick(const std::vector<EndpointAddress>& tried, uint64_t random,
                                      Time now) const;

  // Call when a connection to `endpoint` is established. All clients are processes on this node and
  // count as one client, so session affinity has only one record. Each new connection extends the
  // timeout of this record.
  void Connected(const EndpointAddress& endpoint, Time now);

 private:
  struct Record {
    EndpointAddress endpoint;
    Time expires;
  };

  bool Has(const EndpointAddress& endpoint) const;
  uint64_t WeightOf(size_t index, const std::vector<EndpointAddress>& tried) const;

  LocalhostNodePort node_port_;
  std::optional<Record> affinity_;
};

}  // namespace svcmap::proxy
