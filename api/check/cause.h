// Compares the result of a connection with the agent's prediction, and finds the likely cause of a
// difference. Pure functions.
#pragma once

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

}  // namespace svcmap::api
