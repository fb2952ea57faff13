// What the tests of bad days share: an agent that keeps its state in a folder that outlives it, a
// few Services that clients use all the time, some hundred others, and what it means that all is
// well again.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/netns/service_world.h"
#include "tests/support/kernel_check.h"
#include "tests/support/steady_traffic.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::testing {

// An environment variable as a number.
int64_t NumberFromEnvironment(const char* name, int64_t otherwise);

// Services with endpoints that answer: by one address each, by external addresses and a nodePort,
// and with session affinity. All have the name "steady/...".
Objects SteadyServices(const World& world);
inline const Address kSteady = ClusterIp(10);
inline const Address kSticky = ClusterIp(13);

// From the client to all of them.
TrafficOptions SteadyTargets(const World& world);

// Services "other/s0", "other/s1" ... that nobody asks, with `endpoints` endpoints each, and at
// most two for IPv6.
Address OtherIp(int service);
v1::Object OtherService(int service, int port = 80);
Objects OtherSlices(int service, int endpoints);
Objects OtherServices(int services, int endpoints);

// Each test starts with empty tables and an empty state folder.
class RecoveryTest : public ServiceTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  std::string state_folder() const { return folder_->path() + "/state"; }
  // Of an agent on the state folder.
  std::vector<std::string> Flags(std::vector<std::string> more = {}) const;

  absl::Status StartAgent(const std::vector<std::string>& more_flags = {});
  absl::Status EndAgent(bool kill);

  // Until the agent serves what it was told, or has kept, and has nothing to complain about.
  absl::Status WaitUntilServing();

  // Until the kernel has the elements that the agent wants, and the rules it had when
  // RememberRules was called last.
  absl::Status WaitUntilTheKernelIsAsWanted(
      std::chrono::milliseconds deadline = std::chrono::seconds(10));
  void RememberRules();

  // Who answers clients of the sticky Service, client by client.
  std::vector<std::string> StickyPlacement();

  const std::string& rules() const { return rules_; }

 private:
  std::optional<TemporaryFolder> folder_;
  std::string rules_;
};

}  // namespace svcmap::testing
