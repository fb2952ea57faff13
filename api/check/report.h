// The result of `svcmapctl check`, as text and as JSON. Pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "api/check/cause.h"

namespace svcmap::api {

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
