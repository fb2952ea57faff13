// Fixture for svcmap-kube's end-to-end tests. The fixture contains the packet tests' topology, a
// fake API server on the node, and svcmap-kube and svcmapd processes.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/netns/service_world.h"
#include "tests/support/api_server.h"
#include "tests/support/process.h"
#include "tests/support/steady_traffic.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::testing {

inline const Address kOther = ClusterIp(12);
inline const Address kThird = ClusterIp(13);

class BridgeTest : public ServiceTest {
 protected:
  // Starts an API server with Basics(), without svcmap-kube.
  void SetUp() override;
  void TearDown() override;

  FakeApiServer& server() { return *server_; }
  std::string folder() const { return folder_->path(); }
  std::string kubeconfig() const { return folder() + "/kubeconfig"; }

  // Starts svcmap-kube with these additional flags as a child process.
  absl::Status StartBridge(const std::vector<std::string>& flags = {});
  absl::Status KillBridge();  // Sends SIGKILL.
  absl::Status StopBridge();  // Sends SIGTERM and expects exit status 0.
  std::string BridgeLog() const { return bridge_ ? bridge_->err() : "no bridge"; }

  // Replaces the agent with an agent that keeps its socket and state across restarts.
  absl::Status StartLastingAgent();
  absl::Status KillAgent();
  std::string state_folder() const { return folder() + "/state"; }

  // Returns the server that answers a new connection from the client in both families. Returns ""
  // if there is no answer, and "?" if the families differ.
  std::string Answering(const Address& address,
                        std::chrono::milliseconds timeout = Request().timeout);
  // Waits until `server` answers connections to `address`. If `server` is empty, waits until there
  // is no answer. Errors contain the log of svcmap-kube.
  absl::Status Until(const Address& address, const std::string& server);

  // Waits until the agent stores exactly the server's objects that are relevant to the agent (S-1,
  // S-17).
  absl::Status UntilTheAgentHasAll();

  // Starts continuous TCP and UDP traffic to `address`. Only `server` may answer.
  absl::StatusOr<std::unique_ptr<SteadyTraffic>> StartTraffic(const Address& address,
                                                              const std::string& server);

 private:
  std::unique_ptr<TemporaryFolder> folder_;
  std::unique_ptr<FakeApiServer> server_;
  std::unique_ptr<ChildProcess> bridge_;
  bool lasting_agent_ = false;
};

}  // namespace svcmap::testing
