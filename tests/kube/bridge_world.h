// What the end-to-end tests of svcmap-kube share: the world of the packet tests, an API server
// double on its node, and the real svcmap-kube that feeds the real svcmapd from it.
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
  // An API server that knows Basics(); no bridge yet.
  void SetUp() override;
  void TearDown() override;

  ApiServerDouble& server() { return *server_; }
  std::string folder() const { return folder_->path(); }
  std::string kubeconfig() const { return folder() + "/kubeconfig"; }

  // svcmap-kube with these flags besides those it needs; as a child of the test.
  absl::Status StartBridge(const std::vector<std::string>& flags = {});
  absl::Status KillBridge();  // SIGKILL.
  absl::Status StopBridge();  // SIGTERM; it must end with 0.
  std::string BridgeLog() const { return bridge_ ? bridge_->err() : "no bridge"; }

  // In place of the world's agent, one that keeps socket and state over its restarts.
  absl::Status StartLastingAgent();
  absl::Status KillAgent();
  std::string state_folder() const { return folder() + "/state"; }

  // Who answers a new connection of the client, in both families: a name; "" when nobody; "?" when
  // they disagree.
  std::string Answering(const Address& address);
  // Until it is `server`; "": nobody. An error has the log of the bridge.
  absl::Status Until(const Address& address, const std::string& server);

  // Connections, messages and questions to `address`, all to be answered by `server`.
  absl::StatusOr<std::unique_ptr<SteadyTraffic>> StartTraffic(const Address& address,
                                                              const std::string& server);

 private:
  std::unique_ptr<TemporaryFolder> folder_;
  std::unique_ptr<ApiServerDouble> server_;
  std::unique_ptr<ChildProcess> bridge_;
  bool lasting_agent_ = false;
};

}  // namespace svcmap::testing
