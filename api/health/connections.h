// Limits the resources of HTTP clients: the number of connections, the unread bytes per connection,
// and the time for a request. evhttp has no such limits and does not report connections before
// their first complete request. However, evhttp calls this class to create the bufferevent of each
// connection, and this class keeps a reference to the bufferevent.
//
// Used only on the thread of the event loop.
#pragma once

#include <event2/bufferevent.h>

#include <chrono>
#include <list>

#include "absl/container/flat_hash_map.h"
#include "api/health/event.h"

namespace svcmap::api {

class Connections {
 public:
  // Closes every connection whose last complete request is older than `patience`. If there are more
  // than `max` connections, also closes the connections with the oldest requests. The descriptor of
  // a closed connection is released in the next iteration of the event loop.
  Connections(event_base* base, size_t max, std::chrono::milliseconds patience);
  ~Connections();

  // Returns the bufferevent of a new connection.
  bufferevent* Add();

  // Call when `connection` has sent a complete request.
  void Heard(bufferevent* connection);

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    bufferevent* bev;
    Clock::time_point heard;
  };
  using List = std::list<Connection>;

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
  Event sweep_;    // The timer is pending while connections exist.
  Event release_;  // Releases connections after evhttp has released them.
};

}  // namespace svcmap::api
