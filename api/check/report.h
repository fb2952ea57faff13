// Compares the results of connections with the agent's predictions, and finds the likely causes of
// differences. The result of `svcmapctl check`, as text and as JSON. Pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/check/foreign_rules.h"
#include "api/check/probe.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

// Returns whether the result of a connection matches `verdict`. A UDP connection to endpoints
// without an answer matches, because many UDP servers do not answer unknown datagrams. Must not be
// called for UNTOUCHED or kNotChecked.
bool Matches(v1::Explanation::Verdict verdict, proxy::Protocol protocol, Observation observation);

struct Cause {
  // "kernel-state", "pending-change", "no-route", "foreign-rule", "rp-filter", "dead-endpoint",
  // "conntrack-entry" or "unknown". docs/svcmapctl.md documents the kinds.
  std::string kind;
  std::string text;
};

struct Evidence {
  CheckTarget target;
  ProbeResult result;
  v1::KernelCheck kernel;  // Comparison of the target's elements. Default for an endpoint.
  bool is_endpoint = false;
  // Direct connections to the target's endpoints. Empty for an endpoint.
  std::vector<std::pair<CheckTarget, ProbeResult>> endpoints;
  std::vector<IpAddress> sources;  // Empty if there is no route to the target.
  // Number of packets that the node's reverse path filter dropped during the connection.
  uint64_t rp_filter_drops = 0;
  std::vector<std::string> strict_interfaces;
};

Cause LikelyCause(const Evidence& evidence, const std::vector<ForeignRule>& rules);

struct CheckReport {
  struct Difference {
    CheckTarget target;
    std::string expected;
    std::string observed;
    Cause cause;
  };
  struct Omission {
    CheckTarget target;
    std::string reason;
  };
  std::string from;      // "the node", "network namespace cni-1"
  size_t addresses = 0;  // Number of connections to Service addresses.
  size_t endpoints = 0;  // Number of direct connections to endpoints.
  std::vector<Difference> differences;
  std::vector<Omission> not_checked;
  std::vector<std::string>
      findings;  // The agent's findings. They can explain the expected results.
  // Services without EndpointSlices, with reasons. Their connections are rejected as predicted.
  std::set<std::string> without_slices;
  std::vector<std::string> notes;  // Facts that could not be read, with reasons.
};

// "a connection to one of 2 endpoints"
std::string ExpectedText(const v1::Explanation& explanation);
// "no answer within 1s"
std::string ObservedText(const ProbeResult& result, std::chrono::milliseconds timeout);

// Prints at most `shown` differences, and at most `listed` findings, Services without
// EndpointSlices, and addresses that were not checked for the same reason.
std::string ReportText(const CheckReport& report, size_t shown = SIZE_MAX,
                       size_t listed = SIZE_MAX);
std::string ReportJson(const CheckReport& report);

}  // namespace svcmap::api
