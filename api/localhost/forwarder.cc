#include "api/localhost/forwarder.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "api/health/bind_address.h"
#include "api/localhost/connection.h"
#include "api/log/log_value.h"
#include "proxy/node/nodeport_addresses.h"

namespace svcmap::api {

LocalhostForwarder::LocalhostForwarder(LocalhostForwarderOptions options)
    : options_(options),
      thread_([this] { OnWake(); }),
      listeners_(thread_.base(), options.max_listeners, options.retry,
                 std::bind_front(&LocalhostForwarder::OnAccept, this)),
      release_(thread_.base(), [this] { ended_.clear(); }) {
  thread_.Start();
}

void LocalhostForwarder::Update(proxy::LocalhostNodePortChanges changes) {
  {
    const std::lock_guard lock(mutex_);
    std::move(changes.begin(), changes.end(), std::back_inserter(changes_));
  }
  thread_.Wake();
}

LocalhostForwarderStatus LocalhostForwarder::status() const {
  LocalhostForwarderStatus status;
  for (const Family family : kFamilies) {
    status.listeners[Index(family)] = listeners_.sockets(family);
    status.listener_failures[Index(family)] = listeners_.failures(family);
  }
  status.connections = connection_count_;
  status.rejected_connections = rejected_connections_;
  return status;
}

void LocalhostForwarder::OnWake() {
  proxy::LocalhostNodePortChanges changes;
  {
    const std::lock_guard lock(mutex_);
    changes.swap(changes_);
  }
  listeners_.Update(std::move(changes));
}

void LocalhostForwarder::OnAccept(UniqueFd client, std::shared_ptr<proxy::EndpointPicker> picker) {
  if (!HasRoom()) {
    ResetWhenClosed(client);
    return;
  }
  const auto position = connections_.emplace(connections_.end());
  ++connection_count_;
  *position = std::make_unique<ForwardedConnection>(
      thread_.base(), std::move(client), std::move(picker), options_.connect_timeout,
      [this] { return random_(); }, [this, position] { OnEnd(position); });
  (*position)->Start();
}

bool LocalhostForwarder::HasRoom() {
  if (connections_.size() < options_.max_connections) return true;
  ++rejected_connections_;
  const auto now = std::chrono::steady_clock::now();
  if (now >= log_again_) {
    spdlog::warn("connections to localhost nodePorts reset reason=limit connections={}",
                 connections_.size());
    log_again_ = now + kRejectionLogInterval;
  }
  return false;
}

// Called by an event of the connection, which must not be destroyed before the event returns.
void LocalhostForwarder::OnEnd(ConnectionList::iterator connection) {
  --connection_count_;
  ended_.splice(ended_.end(), connections_, connection);
  release_.After(std::chrono::microseconds(0));
}

LocalhostListeners::LocalhostListeners(event_base* base, size_t max_sockets,
                                       std::chrono::milliseconds retry, OnAccept on_accept)
    : base_(base),
      max_sockets_(max_sockets),
      retry_after_(retry),
      on_accept_(std::move(on_accept)),
      retry_(base, [this] { Retry(); }) {}

// Closes sockets before opening new sockets, so that file descriptors become free.
void LocalhostListeners::Update(proxy::LocalhostNodePortChanges changes) {
  for (const auto& [service, node_ports] : changes) CloseOthers(service, node_ports);
  for (auto& [service, node_ports] : changes) {
    for (proxy::LocalhostNodePort& node_port : node_ports) {
      const Key key(node_port.family, node_port.port);
      Listener& listener = listeners_[key];
      if (listener.service != service) keys_of_[service].push_back(key);
      listener.service = service;
      listener.picker->Set(std::move(node_port));
      if (!listener.accepting) Open(key);
    }
  }
}

// A nodePort that has moved to another Service belongs to that Service and is not closed.
void LocalhostListeners::CloseOthers(const std::string& service,
                                     const proxy::LocalhostNodePorts& kept) {
  const auto keys = keys_of_.find(service);
  if (keys == keys_of_.end()) return;
  std::set<Key> kept_keys;
  for (const proxy::LocalhostNodePort& port : kept) kept_keys.emplace(port.family, port.port);
  std::erase_if(keys->second, [&](const Key& key) {
    const auto listener = listeners_.find(key);
    if (listener == listeners_.end() || listener->second.service != service) return true;
    if (kept_keys.contains(key)) return false;
    if (listener->second.accepting) --sockets_[Index(key.first)];
    listeners_.erase(listener);
    failed_.erase(key);
    return true;
  });
  if (keys->second.empty()) keys_of_.erase(keys);
}

void LocalhostListeners::Open(const Key& key) {
  Listener& listener = listeners_.at(key);
  absl::Status failure = TryToOpen(key, listener);
  const std::string family(FamilyName(key.first));
  if (!failure.ok()) {
    failed_.insert(key);
    if (failure != listener.failure) {
      if (lines_.Admit("localhost nodePorts")) {
        spdlog::warn(
            "cannot listen on localhost nodePort, retrying service={} port={} family={} "
            "error={}",
            LogValue(listener.service), key.second, family, LogValue(failure));
      }
      ++failures_[Index(key.first)];
    }
    if (!retry_.pending()) retry_.After(retry_after_);
  } else if (failed_.erase(key) > 0) {
    spdlog::info("listening on localhost nodePort service={} port={} family={}",
                 LogValue(listener.service), key.second, family);
  }
  listener.failure = std::move(failure);
}

absl::Status LocalhostListeners::TryToOpen(const Key& key, Listener& listener) {
  if (sockets_[0] + sockets_[1] >= max_sockets_) {
    return absl::ResourceExhaustedError("all " + std::to_string(max_sockets_) +
                                        " file descriptors for localhost nodePorts are in use");
  }
  absl::StatusOr<UniqueFd> fd =
      Listen({proxy::LocalhostAddress(key.first), key.second}, Stack::kOne, Interfaces::kLoopback);
  if (!fd.ok()) return fd.status();
  listener.accepting.emplace(
      base_, *std::move(fd),
      [this, picker = listener.picker](UniqueFd client, const sockaddr_storage&) {
        on_accept_(std::move(client), picker);
      });
  ++sockets_[Index(key.first)];
  return absl::OkStatus();
}

void LocalhostListeners::Retry() {
  lines_.Report();
  for (const Key& key : std::set<Key>(failed_)) Open(key);
}

}  // namespace svcmap::api
