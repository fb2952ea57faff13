#include "api/health/connections.h"

#include <sys/socket.h>

#include <algorithm>

namespace svcmap::api {
namespace {

// Returns true if evhttp has released the connection. When evhttp releases a connection, evhttp
// removes its callbacks from the bufferevent.
bool Ended(bufferevent* connection) {
  void* user = nullptr;
  bufferevent_getcb(connection, nullptr, nullptr, nullptr, &user);
  return user == nullptr;
}

}  // namespace

Connections::Connections(event_base* base, size_t max, std::chrono::milliseconds patience)
    : base_(base),
      max_(max),
      patience_(patience),
      sweep_after_(std::min(patience / 4, std::chrono::milliseconds(1000))),
      responses_(kMaxResponsesAtOnce, kMaxResponsesPerSecond, Clock::now()),
      turn_(base, [this] { RespondInTurn(); }),
      sweep_(base, [this] { Sweep(); }),
      release_(base, [this] { ReleaseEnded(ending_); }) {}

Connections::~Connections() {
  for (List* list : {&by_silence_, &ending_}) {
    for (const Connection& connection : *list) bufferevent_decref(connection.bev);
  }
}

bufferevent* Connections::Add() {
  if (by_silence_.size() >= max_) ReleaseEnded(by_silence_);
  if (by_silence_.size() >= max_) End(by_silence_.begin());
  bufferevent* bev = bufferevent_socket_new(base_, -1, BEV_OPT_CLOSE_ON_FREE);
  if (bev == nullptr) return nullptr;
  bufferevent_setwatermark(bev, EV_READ, 0, kMaxUnread);
  bufferevent_set_max_single_read(bev, kMaxSingleRead);
  bufferevent_incref(bev);
  const auto now = Clock::now();
  index_[bev] = by_silence_.insert(by_silence_.end(), {bev, now, RequestRate(now)});
  if (!sweep_.pending()) sweep_.After(sweep_after_);
  return bev;
}

void Connections::Respond(bufferevent* connection, const void* owner,
                          std::function<void()> respond) {
  const auto found = index_.find(connection);
  if (found == index_.end()) return respond();  // The connection is already being closed.
  Heard(found->second);
  Connection& entry = *found->second;
  const auto now = Clock::now();
  const auto permitted = entry.rate.permitted();
  if (!entry.rate.has_response() || (permitted <= now && responses_.Take(1, now))) {
    entry.rate.CountResponse(now);
    return respond();
  }
  entry.delayed = delayed_.insert({permitted, {connection, owner, std::move(respond)}});
  if (!turn_.pending()) ScheduleTurn(now);
}

void Connections::KeepStream(bufferevent* connection) {
  const auto found = index_.find(connection);
  if (found != index_.end()) Heard(found->second);
}

void Connections::Discard(const void* owner) {
  for (auto it = delayed_.begin(); it != delayed_.end();) {
    if (it->second.owner != owner) {
      ++it;
      continue;
    }
    const auto found = index_.find(it->second.connection);
    if (found != index_.end()) found->second->delayed.reset();
    it = delayed_.erase(it);
  }
}

void Connections::Heard(List::iterator connection) {
  connection->heard = Clock::now();
  by_silence_.splice(by_silence_.end(), by_silence_, connection);
}

void Connections::RespondInTurn() {
  const auto now = Clock::now();
  while (!delayed_.empty() && delayed_.begin()->first <= now && responses_.Take(1, now)) {
    Connection& connection = *index_.at(delayed_.begin()->second.connection);
    connection.rate.CountResponse(now);
    RespondNow(connection);
  }
  if (!delayed_.empty()) ScheduleTurn(now);
}

void Connections::ScheduleTurn(Clock::time_point now) {
  const auto wait =
      std::chrono::duration_cast<std::chrono::microseconds>(delayed_.begin()->first - now);
  turn_.After(std::max<std::chrono::microseconds>(wait, kResponseTurn));
}

void Connections::RespondNow(Connection& connection) {
  const auto respond = std::move((*connection.delayed)->second.respond);
  delayed_.erase(*connection.delayed);
  connection.delayed.reset();
  respond();
}

void Connections::Sweep() {
  ReleaseEnded(ending_);
  ReleaseEnded(by_silence_);
  const auto limit = Clock::now() - patience_;
  while (!by_silence_.empty() && by_silence_.front().heard <= limit) End(by_silence_.begin());
  if (!by_silence_.empty() || !ending_.empty()) sweep_.After(sweep_after_);
}

void Connections::ReleaseEnded(List& list) {
  for (auto it = list.begin(); it != list.end();) {
    if (!Ended(it->bev)) {
      ++it;
      continue;
    }
    if (it->delayed) RespondNow(*it);  // Frees the request.
    index_.erase(it->bev);
    bufferevent_decref(it->bev);
    it = list.erase(it);
  }
}

void Connections::End(List::iterator connection) {
  shutdown(bufferevent_getfd(connection->bev), SHUT_RDWR);
  // evhttp detects the shutdown only after the response to the last request.
  if (connection->delayed) RespondNow(*connection);
  index_.erase(connection->bev);
  ending_.splice(ending_.end(), by_silence_, connection);
  // evhttp releases the connection in the next iteration of the event loop. Only then is this
  // reference the last one, and libevent closes the descriptor after it has removed the events.
  release_.After(std::chrono::milliseconds(0));
}

}  // namespace svcmap::api
