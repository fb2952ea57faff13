// Fixture of the packet-loss tests: Services that receive tens of thousands of new UDP flows per
// second and some new TCP connections, while svcmapd rewrites its tables.
//
// SVCMAP_LOSS_REWRITES=100 sets the number of rewrites in each test.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/loss/counted_traffic.h"
#include "tests/recovery/recovery_world.h"

namespace svcmap::testing {

class LossTest : public RecoveryTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Returns the number of rewrites in this test: the environment's number, or else `quick`.
  static int64_t Rewrites(int64_t quick);

  // All objects of the test, with the current endpoints of counted Services.
  Objects Everything() const;
  CountedService& counted(int number) { return services_[static_cast<size_t>(number)]; }
  size_t counted_services() const { return services_.size(); }

  // Starts the traffic and waits until it flows.
  void StartTraffic();
  // Waits until some datagrams more are sent.
  absl::Status LetTrafficFlow() const { return traffic_->LetFlow(); }

  // Sends `others` and new versions of counted Services in one batch. A Service with another key
  // replaces the Service that has the same number.
  absl::Status Change(const std::vector<CountedService>& changed,
                      std::vector<v1::Change> others = {});

  // Returns all counted Services with the changes of `edit`.
  std::vector<CountedService> EachCounted(const std::function<void(CountedService&)>& edit) const;

  // Stops the traffic. Fails if anything other than the node's rules may have lost datagrams.
  void StopTraffic(LossCounts& counts, TrafficReport& tcp);
  // Stops the traffic, expects that no packet was lost, and prints the counts. Datagrams to the
  // Services with the numbers `rejected` may be rejected, and to those in `dropped` may be dropped,
  // because these Services have no endpoint for them at times.
  void ExpectNoLoss(const std::string& scenario, int64_t rewrites,
                    const std::set<int>& rejected = {}, const std::set<int>& dropped = {});
  // Starts the traffic, calls `rewrite` with the numbers from 0 to `rewrites` - 1, and expects that
  // no packet was lost. See ExpectNoLoss().
  void ExpectNoLossDuring(const std::string& scenario, int64_t rewrites,
                          const std::function<absl::Status(int64_t)>& rewrite,
                          const std::set<int>& rejected = {}, const std::set<int>& dropped = {});

 private:
  CountedHosts hosts_ = {};
  std::vector<CountedService> services_;
  std::unique_ptr<CountedTraffic> traffic_;
  std::unique_ptr<SteadyTraffic> connections_;
};

}  // namespace svcmap::testing
