// Runs svcmapctl on the node of the packet tests, with a real svcmapd and real traffic.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/netns/service_world.h"
#include "tests/support/tracked_flows.h"
#include "tests/support/wait.h"

namespace svcmap::testing {

class CtlTest : public ServiceTest {
 protected:
  // Runs `fn` while the connection tracking table contains a UDP flow from pod B to a Service that
  // `answers` answers. svcmapd deletes stale flows, so `fn` runs again if the flow is gone
  // afterwards.
  template <typename Fn>
  void WithFlow(uint16_t source_port, const Address& service, const std::string& answers,
                const Fn& fn) {
    const auto end = [](const std::string& ip, uint16_t port) {
      return nft::FlowEnd{*IpAddress::Parse(ip), port};
    };
    const TrackedFlow flow =
        AFlow(end(pod_b().v4(), source_port), end(service.v4, 80), end(answers, kPodPort));
    const auto add = [&] { return node().netns().Run([&] { return AddTrackedFlows({flow}); }); };
    constexpr int kAttempts = 20;
    ASSERT_OK(add());
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      fn();
      const absl::Status added = add();
      if (absl::IsAlreadyExists(added)) return;
      ASSERT_OK(added);
    }
    FAIL() << "svcmapd has deleted the flow " << kAttempts << " times";
  }

  // Runs svcmapctl in the node's namespace with the agent's address.
  CommandResult Ctl(std::vector<std::string> args) {
    args.insert(args.end(), {"--address", agent().socket()});
    args.insert(args.begin(), SVCMAP_BIN_DIR "/svcmapctl");
    const absl::StatusOr<CommandResult> result =
        RunCommand({.argv = args, .netns = &node().netns()}, kHangLimit);
    EXPECT_OK(result);
    return result.ok() ? *result : CommandResult();
  }
};

}  // namespace svcmap::testing
