// Who is connected, so that nobody can make us keep too much of him: the number of connections is
// bounded, what each may have unread, and the time that it may take for a request. evhttp bounds
// none of these, and tells of no connection before its first whole request; but it asks us for the
// bufferevent of each, and we keep a reference.
//
// Owned by the thread of the event loop.
#pragma once

#include <event2/bufferevent.h>

#include <chrono>
#include <list>

#include "absl/container/flat_hash_map.h"
#include "api/health/event.h"

namespace svcmap::api {

class Connections {
 public:
  // Of more than `max` connections those that were silent for the longest time have to go, and
  // those that were for longer than `patience`.
  Connections(event_base* base, size_t max, std::chrono::milliseconds patience);
  ~Connections();

  // For one more.
  bufferevent* Add();

  // It sent a whole request.
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
  List by_silence_;                                          // The longest silence first.
  List ending_;                                              // Shut down; evhttp will notice.
  absl::flat_hash_map<bufferevent*, List::iterator> index_;  // Of by_silence_.
  Event sweep_;                                              // While there are any.
};

}  // namespace svcmap::api
