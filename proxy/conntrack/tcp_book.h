// Records the TCP endpoints of each Service, and finds the endpoints that are gone. An endpoint is
// gone if it was in an EndpointSlice of the Service, and has been in no EndpointSlice of the
// Service for a minimum time. Conditions do not matter, so an endpoint that is terminating or not
// ready is not gone.
//
// The book reports only endpoints whose departure was recorded. Connections to a destination that
// another Service used earlier, or to endpoints that never belonged to the Service, are not
// affected.
//
// Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "proxy/conntrack/tcp_endpoints.h"

namespace svcmap::proxy {

class TcpBook {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Maximum number of recorded departures. The book forgets the oldest departures above this
  // number, so that fast changes, or a kernel that does not list connections, cannot use all
  // memory.
  static constexpr size_t kMaxDepartures = 65'536;

 private:
  struct Departure {
    Time left;
    std::string service;
    EndpointAddress endpoint;
  };

 public:
  // An endpoint is gone `gone_after` after it left the last EndpointSlice.
  explicit TcpBook(std::chrono::milliseconds gone_after) : gone_after_(gone_after) {}

  // Sets the current endpoints and destinations of the Service. `now` must not be earlier than in
  // the previous call. Forgets the Service if `tcp` has no destinations.
  void Update(const std::string& service, TcpEndpoints tcp, Time now);

  // Returns the number of departures that were forgotten since the previous call.
  uint64_t TakeForgotten() { return std::exchange(forgotten_, 0); }

  // Returns the time when the next endpoint may be gone, or nullopt if no endpoint has left.
  std::optional<Time> due_at() const;

  // The endpoints that are gone, with the destinations of their Services.
  class Round {
   public:
    size_t services() const { return services_.size(); }
    bool HasFamily(Family family) const { return families_[Index(family)]; }
    // Returns true for a connection via a destination of the Service to an endpoint that is gone.
    bool IsStale(const nft::Flow& flow) const;

   private:
    friend class TcpBook;
    struct Service {
      std::string key;
      absl::flat_hash_map<EndpointAddress, Time> gone;  // Endpoints with their departure.
    };
    // Returns the Service that uses the destination of `flow`, or null.
    const Service* Find(const nft::Flow& flow) const;

    std::vector<Departure> departures_;
    std::vector<Service> services_;
    absl::flat_hash_map<nft::FlowEnd, uint32_t> at_;  // Destination to index in `services_`.
    bool families_[2] = {};
  };
  // Returns all endpoints that are gone at time `now` and were not returned before.
  Round Take(Time now);
  // Returns true if the connection is stale and its endpoint has not returned since Take().
  bool IsStillStale(const Round& round, const nft::Flow& flow) const;
  // Call Finish after all flows were tested, or Return if the round failed. After Return, the next
  // round contains the endpoints again.
  void Finish(const Round& round);
  void Return(const Round& round);

 private:
  struct Service {
    TcpEndpoints now;
    // Endpoints that have left, with the time of their departure. Contains no endpoint of `now`.
    absl::flat_hash_map<EndpointAddress, Time> gone;
  };
  // Returns true if the endpoint has not returned since its departure at `left`.
  bool IsGone(const std::string& service, const EndpointAddress& endpoint, Time left) const;
  void Forget(const Departure& departure);
  void ForgetOldest();

  const std::chrono::milliseconds gone_after_;
  absl::flat_hash_map<std::string, Service> services_;
  // Departures in order of time, including departures of endpoints that have returned.
  std::deque<Departure> departures_;
  uint64_t forgotten_ = 0;
};

}  // namespace svcmap::proxy
