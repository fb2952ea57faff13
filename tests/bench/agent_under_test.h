// svcmapd as shipped: a process of its own in a network namespace of its own, driven over gRPC.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "svcmap/v1/control.pb.h"
#include "tests/bench/process_figures.h"

namespace svcmap::bench {

class AgentUnderTest {
 public:
  static absl::StatusOr<std::unique_ptr<AgentUnderTest>> Start(const std::string& program);
  virtual ~AgentUnderTest() = default;

  // Writes one message of the stream; its acknowledgement is read later or by the caller of Await.
  virtual absl::Status Send(const v1::PushRequest& request) = 0;
  // Reads acknowledgements up to that of `number`.
  virtual absl::StatusOr<v1::Ack> Await(uint64_t number) = 0;

  virtual ProcessMemory Memory() const = 0;
  virtual double CpuSeconds() const = 0;
};

}  // namespace svcmap::bench
