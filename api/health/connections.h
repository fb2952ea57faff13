// Limits the resources of HTTP clients: the number of connections, the unread bytes per connection,
// the time for a request, and the number of responses per second. evhttp has no such limits and
// does not report connections before their first complete request. However, evhttp calls this class
// to create the bufferevent of each connection, and this class keeps a reference to the
// bufferevent.
//
// Used only on the thread of the event loop.
#pragma once

#include <event2/bufferevent.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "api/health/event.h"
#include "api/limits/token_bucket.h"

namespace svcmap::api {

// Limits for HTTP requests. A health check request has only a few hundred bytes. Requests with
// longer headers are answered with 400.
inline constexpr size_t kMaxHeaders = 8 << 10;
inline constexpr size_t kMaxBody = 8 << 10;  // Requests with longer bodies are answered with 413.
// Maximum number of unread bytes of a connection. The limit is twice the maximum body size, because
// evhttp also reads while evhttp writes, and buffers the complete body.
inline constexpr size_t kMaxUnread = 2 * kMaxBody;
inline constexpr size_t kMaxSingleRead = 4 << 10;

// Number of requests of one connection that are answered immediately, and the interval of further
// responses.
inline constexpr int kRequestBurst = 10;
inline constexpr std::chrono::milliseconds kRequestInterval{100};
// Limits for the responses on all connections together, except the first response of each
// connection.
inline constexpr double kMaxResponsesAtOnce = 400;
inline constexpr double kMaxResponsesPerSecond = 4000;
inline constexpr std::chrono::milliseconds kResponseTurn{10};  // Interval of delayed responses.

// Limits the number of responses per second on one connection. The times that it permits also order
// the delayed responses of all connections: a connection with fewer requests receives its response
// first.
class RequestRate {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RequestRate(Clock::time_point now) : recovered_(now) {}

  // Returns the time from which the limit permits the next response.
  Clock::time_point permitted() const {
    return recovered_ - (kRequestBurst - 1) * kRequestInterval;
  }
  bool has_response() const { return has_response_; }
  void CountResponse(Clock::time_point now) {
    has_response_ = true;
    recovered_ = std::max(recovered_, now) + kRequestInterval;
  }

 private:
  // Time at which a complete burst of requests is permitted again.
  Clock::time_point recovered_;
  bool has_response_ = false;
};

class Connections {
 public:
  // Closes every connection whose last complete request is older than `patience`. If there are more
  // than `max` connections, also closes the connections with the oldest requests. The descriptor of
  // a closed connection is released in the next iteration of the event loop.
  Connections(event_base* base, size_t max, std::chrono::milliseconds patience);
  ~Connections();

  // Returns the bufferevent of a new connection.
  bufferevent* Add();

  // Call when `connection` has sent a complete request. Calls `respond` once: immediately, or later
  // if the connection or all connections together exceed the limits above. evhttp
  // reads no further requests of the connection in the meantime. Connections with few requests
  // receive their responses first.
  void Respond(bufferevent* connection, const void* owner, std::function<void()> respond);

  // Call when a part of a streamed response is sent. Counts as a request for `patience` and `max`.
  void KeepStream(bufferevent* connection);

  // Discards the delayed responses of `owner`. Call before evhttp frees the requests.
  void Discard(const void* owner);

 private:
  using Clock = std::chrono::steady_clock;
  struct Response {
    bufferevent* connection;
    const void* owner;
    std::function<void()> respond;
  };
  // Delayed responses by the time from which the limit of the connection permits the response.
  using Responses = std::multimap<Clock::time_point, Response>;
  struct Connection {
    bufferevent* bev;
    Clock::time_point heard;
    RequestRate rate;
    std::optional<Responses::iterator> delayed = std::nullopt;
  };
  using List = std::list<Connection>;

  void Heard(List::iterator connection);
  void RespondInTurn();
  void ScheduleTurn(Clock::time_point now);
  void RespondNow(Connection& connection);
  void Sweep();
  void ReleaseEnded(List& list);
  void End(List::iterator connection);

  event_base* base_;
  const size_t max_;
  const std::chrono::milliseconds patience_;
  const std::chrono::milliseconds sweep_after_;
  List by_silence_;  // Open connections, ordered by time of the last request, oldest first.
  List ending_;      // Connections that were shut down and that evhttp has not released yet.
  // Maps connections to their position in by_silence_.
  absl::flat_hash_map<bufferevent*, List::iterator> index_;
  Responses delayed_;
  TokenBucket responses_;
  Event turn_;     // The timer is pending while responses are delayed.
  Event sweep_;    // The timer is pending while connections exist.
  Event release_;  // Releases connections after evhttp has released them.
};

}  // namespace svcmap::api
