// Fixture of the packet-loss tests: Services that receive tens of thousands of new UDP flows per
// second and some new TCP connections, while svcmapd rewrites its tables.
//
// SVCMAP_LOSS_REWRITES=100 sets the number of rewrites in each test.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/loss/counted_service.h"
#include "tests/loss/endpoint_judge.h"
#include "tests/loss/flow_generator.h"
#include "tests/loss/packet_watch.h"
#include "tests/recovery/recovery_world.h"

namespace svcmap::testing {

// Results of the traffic in one test.
struct LossCounts {
  int64_t flows = 0;
  double per_second = 0;
  DatagramCounts untranslated;  // By source port.
  DatagramCounts escaped;       // By source port: untranslated and not rejected.
  DatagramCounts dropped;       // By source port. Contains all Services.
  DatagramCounts misdirected;   // By the keys of PacketWatch::Left().
  TrafficReport tcp;

  std::string ToString() const;
};

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
  absl::Status LetTrafficFlow() const;

  // Sends `others` and new versions of counted Services in one batch. A Service with another key
  // replaces the Service that has the same number.
  absl::Status Change(const std::vector<CountedService>& changed,
                      std::vector<v1::Change> others = {});

  // Returns all counted Services with the changes of `edit`.
  std::vector<CountedService> EachCounted(const std::function<void(CountedService&)>& edit) const;

  // Stops the traffic. Fails if anything other than the node's rules may have lost datagrams.
  void StopTraffic(LossCounts& counts);
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
  // Waits until all sent datagrams are counted.
  absl::Status WaitUntilCounted() const;

  std::vector<CountedService> services_;
  std::optional<PacketWatch> watch_;
  EndpointJudge judge_;
  std::unique_ptr<FlowGenerator> flows_;
  std::unique_ptr<SteadyTraffic> connections_;
  ConntrackLosses conntrack_before_;
  int64_t queue_drops_before_ = 0;
};

}  // namespace svcmap::testing
