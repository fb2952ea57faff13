#include "api/localhost/forwarder.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <iterator>
#include <utility>

namespace svcmap::api {

LocalhostForwarder::LocalhostForwarder(LocalhostForwarderOptions options)
    : options_(options),
      thread_([this] { OnWake(); }),
      listeners_(
          thread_.base(), options.max_listeners, options.retry,
          [this](UniqueFd client, std::shared_ptr<proxy::EndpointPicker> picker) {
            OnAccept(std::move(client), std::move(picker));
          },
          [this](Family family, int change) {
            listener_count_[Index(family)] += static_cast<uint64_t>(change);
          },
          [this](Family family) { ++listener_failures_[Index(family)]; }),
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
    status.listeners[Index(family)] = listener_count_[Index(family)];
    status.listener_failures[Index(family)] = listener_failures_[Index(family)];
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

}  // namespace svcmap::api
