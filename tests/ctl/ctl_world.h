// Runs svcmapctl on the node of the packet tests, with a real svcmapd and real traffic.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/netns/service_world.h"
#include "tests/support/tracked_flows.h"

namespace svcmap::testing {

class CtlTest : public ServiceTest {
 protected:
  // Adds a connection tracking entry for a UDP flow from pod B to a Service that `answers` answers.
  // svcmapd deletes stale flows immediately after a commit and 1 s later, so the entry is added
  // until it stays for 1.5 s.
  absl::Status Plant(uint16_t source_port, const Address& service, const std::string& answers) {
    const auto end = [](const std::string& ip, uint16_t port) {
      return nft::FlowEnd{*IpAddress::Parse(ip), port};
    };
    const TrackedFlow flow =
        AFlow(end(pod_b().v4(), source_port), end(service.v4, 80), end(answers, kPodPort));
    return Eventually("svcmapd does not delete the entry", [&] {
      // Adding an entry that exists is an error.
      if (!node().netns().Run([&] { return AddTrackedFlows({flow}); }).ok()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1500));
      return false;
    });
  }

  // Runs svcmapctl in the node's namespace with the agent's address.
  CommandResult Ctl(std::vector<std::string> args) {
    args.insert(args.end(), {"--address", agent().socket()});
    return CtlWithoutAddress(std::move(args));
  }
  CommandResult CtlWithoutAddress(std::vector<std::string> args) {
    args.insert(args.begin(), SVCMAP_BIN_DIR "/svcmapctl");
    const absl::StatusOr<CommandResult> result =
        RunCommand({.argv = args, .netns = &node().netns()}, std::chrono::seconds(60));
    EXPECT_OK(result);
    return result.ok() ? *result : CommandResult();
  }
};

}  // namespace svcmap::testing
