// Runs svcmapctl on the node of the packet tests, with a real svcmapd and real traffic.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/netns/service_world.h"
#include "tests/support/tracked_flows.h"

namespace svcmap::testing {

class CtlTest : public ServiceTest {
 protected:
  // Waits until svcmapd has searched for stale flows of all committed Services. A search in
  // progress does not include the last commit, so the function waits for two searches.
  void AwaitCleanup() {
    const auto searches = [this] {
      Samples samples = ReadMetrics(node().netns());
      return samples
          ["kubeproxy_conntrack_reconciler_sync_duration_seconds_count{ip_family=\"IPv4\"}"];
    };
    for (int i = 0; i < 2; ++i) {
      const double before = searches();
      ASSERT_OK(agent().Apply({Web(absl::StrCat("shop/cleanup-", i), ClusterIp(90 + i))}));
      ASSERT_TRUE(WaitUntil([&] { return searches() > before; }));
    }
    for (int i = 0; i < 2; ++i) {
      ASSERT_OK(agent().Remove({ServiceRef(absl::StrCat("shop/cleanup-", i))}));
    }
  }

  // Adds a connection tracking entry for a UDP flow from pod B to a Service that `answers` answers.
  // The entry stays, because svcmapd has searched for stale flows after the last commit.
  absl::Status Plant(uint16_t source_port, const Address& service, const std::string& answers) {
    const auto end = [](const std::string& ip, uint16_t port) {
      return nft::FlowEnd{*IpAddress::Parse(ip), port};
    };
    const TrackedFlow flow =
        AFlow(end(pod_b().v4(), source_port), end(service.v4, 80), end(answers, kPodPort));
    AwaitCleanup();
    return node().netns().Run([&] { return AddTrackedFlows({flow}); });
  }

  // Runs svcmapctl in the node's namespace with the agent's address.
  CommandResult Ctl(std::vector<std::string> args) {
    args.insert(args.end(), {"--address", agent().socket()});
    args.insert(args.begin(), SVCMAP_BIN_DIR "/svcmapctl");
    const absl::StatusOr<CommandResult> result =
        RunCommand({.argv = args, .netns = &node().netns()}, std::chrono::seconds(60));
    EXPECT_OK(result);
    return result.ok() ? *result : CommandResult();
  }
};

}  // namespace svcmap::testing
