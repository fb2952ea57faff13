// Helper functions for tests of metrics, which create facts with distinct values and compare output
// with golden files.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "api/metrics/facts.h"
#include "proxy/ruleset/table.h"
#include "tests/support/file.h"

namespace svcmap::api::test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::svcmap::testing::ExpectFile;
using ::svcmap::testing::ReadFile;

inline MetricsConstants SomeConstants() {
  return {.version = "1.2.3",
          .tables = proxy::MakeTables({}),
          .max_objects = 500'000,
          .max_bytes = 512 << 20,
          .max_elements = 5'000'000,
          .started = {}};
}

inline MetricsFacts SomeFacts() {
  using SystemClock = std::chrono::system_clock;
  MetricsFacts facts;
  facts.now = std::chrono::steady_clock::time_point(seconds(1000));
  proxy::LoopStatus& loop = facts.loop;
  loop.phase = proxy::Phase::kServing;
  loop.revision = 101;
  loop.services = 102;
  loop.slices = 103;
  loop.nodes = 104;
  loop.service_cidrs = 105;
  loop.object_bytes = 138;
  loop.object_elements = 139;
  loop.pending_services = 106;
  loop.service_ports = 107;
  for (size_t set = 0; set < proxy::kSetCount; ++set) {
    loop.elements[0][set] = static_cast<int64_t>(200 + set);
    loop.elements[1][set] = static_cast<int64_t>(300 + set);
  }
  loop.commits = 108;
  loop.recreations = 109;
  loop.failures = 110;
  loop.repairs = 111;
  loop.repaired_elements = 112;
  loop.repaired_chains = 113;
  loop.audits = 114;
  loop.rejected_services = 115;
  loop.complete = true;
  loop.oldest_unsynced = facts.now - milliseconds(1500);
  loop.node_eligible = true;
  loop.elements_written = 116;
  loop.changes = {117, 118};
  loop.pending_changes = {119, 120};
  loop.last_queued = SystemClock::time_point(milliseconds(1'700'000'000'250));
  loop.no_local_endpoints = {.internal = {121, 122}, .external = {123, 124}};
  for (size_t stage = 0; stage < proxy::kStages; ++stage) {
    loop.stages.Add(static_cast<proxy::Stage>(stage), milliseconds(500 + stage));
  }
  facts.cleaner.deleted = {125, 126};
  facts.cleaner.failures = 127;
  facts.health.live = true;
  facts.saved.emplace();
  facts.saved->bytes = 128;
  facts.saved->failures = 129;
  facts.saved->error = "no space";
  facts.saved->synced = SystemClock::time_point(seconds(1'700'000'001));
  facts.controller.emplace();
  facts.controller->since = SystemClock::time_point(seconds(1'700'000'002));
  facts.certificates = {{"tls-cert", SystemClock::time_point(seconds(1'800'000'000))}};
  facts.watching = true;
  facts.refused_objects = 130;
  facts.refused_calls = 131;
  facts.failed_handshakes = 132;
  facts.connections_open = 138;
  facts.rejected_connections = {{"peer-limit", 139}, {"too-many-resets", 140}};
  const std::vector<proxy::ServiceConnections> connections = {
      {"shop/web", proxy::Protocol::kTcp, 80, *IpAddress::Parse("10.96.0.1"), 80, 137},
      {"shop/web", proxy::Protocol::kTcp, 80, *IpAddress::Parse("fd00::1"), 30080, 0},
      {"shop/web", proxy::Protocol::kUdp, 0, *IpAddress::Parse("10.96.0.1"), 0, 147}};
  facts.connections = std::make_shared<const std::vector<proxy::ServiceConnections>>(connections);
  facts.localhost = {.listeners = {141, 142},
                     .listener_failures = {143, 144},
                     .connections = 145,
                     .rejected_connections = 146};
  facts.process = {.cpu_seconds = 1.5,
                   .resident_bytes = 133,
                   .virtual_bytes = 134,
                   .max_virtual_bytes = ~uint64_t{0},
                   .open_fds = 135,
                   .max_fds = 136,
                   .start_time = 1'700'000'000.5};
  return facts;
}

// Returns the result of a sync with these durations.
inline proxy::SyncResult ASync(milliseconds whole, milliseconds commit,
                               proxy::SyncResult::Outcome outcome, bool recreated = false) {
  proxy::SyncResult result;
  result.outcome = outcome;
  result.recreated = recreated;
  result.whole = whole;
  result.duration = commit;
  return result;
}

}  // namespace svcmap::api::test
