// Test fixture with a health server in a separate network namespace. The server reports the health
// that the test sets.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/health/server.h"
#include "tests/contract/private_netns.h"
#include "tests/support/raw_http.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

namespace svcmap::api::test {

using ::svcmap::testing::HttpAnswer;
using ::svcmap::testing::HttpRequest;
using ::svcmap::testing::RawConnection;

inline constexpr uint16_t kHealthPort = 10256;
inline constexpr char kV4[] = "127.0.0.1";
inline constexpr char kV6[] = "::1";

inline proxy::Health AllIsWell() {
  return {.last_synced = std::chrono::system_clock::now(),
          .live = true,
          .node_eligible = true,
          .ready = true};
}

inline proxy::Health Stuck() {
  proxy::Health health = AllIsWell();
  health.live = false;
  return health;
}

// Returns a health check of a dual-stack Service.
inline proxy::HealthCheck CheckAt(uint16_t port, uint32_t v4 = 1, uint32_t v6 = 1) {
  return {.port = port, .families = {true, true}, .local_endpoints = {v4, v6}};
}

class HealthServerTest : public ::testing::Test {
 protected:
  void SetUp() override { svcmap::testing::MakePrivateNetNs(netns_); }

  // Starts the server inside the namespace.
  absl::Status Start(HealthServerOptions options = {}) {
    if (!options.bind_address) options.bind_address = *BindAddress::Parse("0.0.0.0:10256", 1);
    options.health = [this] {
      const std::lock_guard lock(mutex_);
      return health_;
    };
    auto server = netns().Run([&] { return HealthServer::Start(std::move(options)); });
    if (!server.ok()) return server.status();
    server_ = *std::move(server);
    server_->SetListenAddresses({*IpAddress::Parse("0.0.0.0"), *IpAddress::Parse("::")});
    return absl::OkStatus();
  }

  void SetHealth(const proxy::Health& health) {
    const std::lock_guard lock(mutex_);
    health_ = health;
  }

  absl::StatusOr<HttpAnswer> Ask(const std::string& path, const std::string& method = "GET") {
    return HttpRequest(netns(), kV4, kHealthPort, path, method);
  }
  absl::StatusOr<HttpAnswer> AskService(uint16_t port, const std::string& ip = kV4) {
    return HttpRequest(netns(), ip, port, "/");
  }
  // Returns true if no process listens on the port.
  bool Closed(uint16_t port, const std::string& ip = kV4) {
    return absl::IsUnavailable(RawConnection::Open(netns(), ip, port).status());
  }
  // The server's thread applies updates asynchronously.
  bool SoonOpen(uint16_t port, const std::string& ip = kV4) {
    return testing::WaitUntil([&] { return !Closed(port, ip); });
  }

  const svcmap::testing::NetNs& netns() const { return *netns_; }
  HealthServer& server() { return *server_; }

  std::optional<svcmap::testing::NetNs> netns_;
  std::mutex mutex_;
  proxy::Health health_ = AllIsWell();
  std::unique_ptr<HealthServer> server_;
};

}  // namespace svcmap::api::test
