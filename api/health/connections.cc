#include "api/health/connections.h"

#include <event2/http.h>

#include <algorithm>

#include "api/health/limits.h"

namespace svcmap::api {
namespace {

// Returns evhttp's object for the connection, which evhttp passes to its callbacks of the
// bufferevent. Returns null if evhttp has closed the connection, because evhttp then removes its
// callbacks.
evhttp_connection* OwnerOf(bufferevent* connection) {
  void* owner = nullptr;
  bufferevent_getcb(connection, nullptr, nullptr, nullptr, &owner);
  return static_cast<evhttp_connection*>(owner);
}

}  // namespace

Connections::Connections(event_base* base, size_t max, std::chrono::milliseconds patience)
    : base_(base),
      max_(max),
      patience_(patience),
      sweep_after_(std::min(patience / 4, std::chrono::milliseconds(1000))),
      sweep_(base, [this] { Sweep(); }) {}

Connections::~Connections() {
  for (const Connection& connection : by_silence_) bufferevent_decref(connection.bev);
}

bufferevent* Connections::Add() {
  if (by_silence_.size() >= max_) ReleaseEnded();
  if (by_silence_.size() >= max_) End(by_silence_.begin());
  // Without BEV_OPT_CLOSE_ON_FREE, evhttp_connection_free() closes the descriptor immediately. With
  // this option, the descriptor stays open until the event loop destroys the bufferevent.
  bufferevent* bev = bufferevent_socket_new(base_, -1, 0);
  if (bev == nullptr) return nullptr;
  bufferevent_setwatermark(bev, EV_READ, 0, kMaxUnread);
  bufferevent_set_max_single_read(bev, kMaxSingleRead);
  bufferevent_incref(bev);
  index_[bev] = by_silence_.insert(by_silence_.end(), {bev, Clock::now()});
  if (!sweep_.pending()) sweep_.After(sweep_after_);
  return bev;
}

void Connections::Heard(bufferevent* connection) {
  const auto found = index_.find(connection);
  if (found == index_.end()) return;  // Add() returned null, and evhttp created the bufferevent.
  found->second->heard = Clock::now();
  by_silence_.splice(by_silence_.end(), by_silence_, found->second);
}

void Connections::Sweep() {
  ReleaseEnded();
  const auto limit = Clock::now() - patience_;
  while (!by_silence_.empty() && by_silence_.front().heard <= limit) End(by_silence_.begin());
  if (!by_silence_.empty()) sweep_.After(sweep_after_);
}

void Connections::ReleaseEnded() {
  for (auto it = by_silence_.begin(); it != by_silence_.end();) {
    const auto connection = it++;
    if (OwnerOf(connection->bev) == nullptr) Release(connection);
  }
}

void Connections::End(List::iterator connection) {
  if (evhttp_connection* owner = OwnerOf(connection->bev)) evhttp_connection_free(owner);
  Release(connection);
}

void Connections::Release(List::iterator connection) {
  index_.erase(connection->bev);
  bufferevent_decref(connection->bev);
  by_silence_.erase(connection);
}

}  // namespace svcmap::api
