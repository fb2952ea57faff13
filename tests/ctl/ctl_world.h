// Runs svcmapctl on the node of the packet tests, with a real svcmapd and real traffic.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/netns/service_world.h"

namespace svcmap::testing {

class CtlTest : public ServiceTest {
 protected:
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
