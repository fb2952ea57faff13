// Tests of svcmapd's health endpoints: healthCheckNodePorts for load balancers, /healthz and
// /livez.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/netns/service_world.h"
#include "tests/support/notify_socket.h"
#include "tests/support/raw_http.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/wait.h"

namespace svcmap::testing {
namespace {

constexpr uint16_t kHealthzPort = 10256;
constexpr uint16_t kCheckPort = 32000;
constexpr char kWeight[] = "X-Load-Balancing-Endpoint-Weight";

AService LocalWeb(const std::string& key, const Address& cluster_ip, uint16_t check_port) {
  return ExternalWeb(key, cluster_ip)
      .Type("LoadBalancer")
      .ExternalPolicy("Local")
      .HealthCheckNodePort(check_port);
}

// Requests the health status and returns the answer as text, for example "200 weight 2" or
// "refused".
std::string AnswerOf(const Host& from, const std::string& ip, uint16_t port) {
  const absl::StatusOr<HttpAnswer> answer = HttpRequest(from.netns(), ip, port, "/healthz");
  if (absl::IsUnavailable(answer.status())) return "refused";
  if (!answer.ok()) return answer.status().ToString();
  const auto weight = answer->headers.find(kWeight);
  return absl::StrCat(answer->code,
                      weight == answer->headers.end() ? "" : " weight " + weight->second);
}

class HealthChecksTest : public ServiceTest {
 protected:
  // Waits until the client receives the answer `wanted` in both families.
  void Expect(uint16_t port, const std::string& wanted) {
    for (const std::string& ip : {kNode.v4, kNode.v6}) {
      std::string last;
      EXPECT_OK(Eventually(absl::StrCat(ip, " port ", port, " answers ", wanted), [&] {
        last = AnswerOf(client(), ip, port);
        return last == wanted;
      })) << last;
    }
  }
  void ExpectHealthz(const std::string& path, int code, const std::string& part) {
    std::string last;
    EXPECT_OK(Eventually(absl::StrCat(path, " is ", code), [&] {
      const auto answer = HttpRequest(client().netns(), kNode.v4, kHealthzPort, path);
      last = answer.ok() ? answer->body : answer.status().ToString();
      return answer.ok() && answer->code == code && last.find(part) != std::string::npos;
    })) << last;
  }
  // Applies one slice per family with the given ready and terminating pods.
  absl::Status Endpoints(const std::vector<const Host*>& ready,
                         const std::vector<const Host*>& terminating) {
    Objects slices = WebSlices("shop/web", ready + terminating);
    for (v1::Object& object : slices) {
      for (v1::Endpoint& endpoint : *object.mutable_endpoint_slice()->mutable_endpoints()) {
        const auto goes = [&](const Host* host) {
          return endpoint.addresses(0) == host->v4() || endpoint.addresses(0) == host->v6();
        };
        if (std::none_of(terminating.begin(), terminating.end(), goes)) continue;
        endpoint.mutable_conditions()->set_ready(false);
        endpoint.mutable_conditions()->set_terminating(true);
      }
    }
    return agent().Apply(slices);
  }
  ANode ThisNode() {
    return ANode(kAgentNode)
        .InternalIp(kNodeV4)
        .InternalIp(kNodeV6)
        .PodCidr(kPodCidrV4)
        .PodCidr(kPodCidrV6);
  }
};

TEST_F(HealthChecksTest, S260_S262_S266_TheAnswerFollowsTheEndpoints) {
  ASSERT_OK(agent().Apply({LocalWeb("shop/web", ClusterIp(10), kCheckPort)}));
  Expect(kCheckPort, "503 weight 0");
  ASSERT_OK(Endpoints({&pod_a(), &pod_b(), &remote_pod()}, {}));
  Expect(kCheckPort, "200 weight 2");
  for (const char* ip : {kNodeSecondV4, kNodeSecondV6}) {  // These accept no nodePorts.
    EXPECT_EQ(AnswerOf(client(), ip, kCheckPort), "refused");
  }
  ASSERT_OK(Endpoints({&pod_a(), &remote_pod()}, {&pod_b()}));
  Expect(kCheckPort, "200 weight 1");
  ASSERT_OK(Endpoints({&remote_pod()}, {&pod_a(), &pod_b()}));
  Expect(kCheckPort, "503 weight 0");
  ASSERT_OK(Endpoints({&pod_b()}, {}));
  Expect(kCheckPort, "200 weight 1");
}

TEST_F(HealthChecksTest, S250_S252_S253_HealthzFollowsTheNode) {
  ExpectHealthz("/healthz", 200, R"("nodeEligible":true,"healthy":true)");
  ASSERT_OK(agent().Apply({ThisNode().Taint("ToBeDeletedByClusterAutoscaler")}));
  ExpectHealthz("/healthz", 503, R"("nodeEligible":false,"healthy":true)");
  ExpectHealthz("/livez", 200, R"("healthy":true)");
  ASSERT_OK(agent().Apply({ThisNode().Taint("node.kubernetes.io/unschedulable")}));
  ExpectHealthz("/healthz", 200, R"("nodeEligible":true)");
  ASSERT_OK(agent().Apply({ThisNode().BeingDeleted()}));
  ExpectHealthz("/healthz", 503, R"("nodeEligible":false)");
  ASSERT_OK(agent().Remove({NodeRef(kAgentNode)}));
  ExpectHealthz("/healthz", 503, R"("nodeEligible":false)");
  ASSERT_OK(agent().Apply({ThisNode()}));
  ExpectHealthz("/healthz", 200, R"("nodeEligible":true)");
}

// The second agent has no controller and uses the saved state.
TEST(HealthAfterRestartTest, TheSavedStateIsAnsweredFor) {
  ASSERT_OK_AND_ASSIGN(const TemporaryFolder folder, TemporaryFolder::Make());
  ASSERT_OK_AND_ASSIGN(const NetNs netns, NetNs::Create());
  const std::vector<std::string> flags = {"--state-dir", folder.path(), "--nodeport-addresses",
                                          "0.0.0.0/0,::/0"};
  ASSERT_OK_AND_ASSIGN(auto agent, Agent::Start(netns, flags));
  ASSERT_OK(agent->Replace(
      Basics() +
      Objects{LocalWeb("shop/web", ClusterIp(10), kCheckPort),
              ASlice("shop/web").Endpoint("10.244.1.11", kAgentNode).Port("tcp", kPodPort)}));
  ASSERT_OK(agent->Stop());
  ASSERT_OK_AND_ASSIGN(agent, Agent::Start(netns, flags));
  EXPECT_OK(Eventually("/healthz is 200 and the Service is answered for", [&] {
    const auto healthz = HttpRequest(netns, "127.0.0.1", kHealthzPort, "/healthz");
    const auto check = HttpRequest(netns, "127.0.0.1", kCheckPort, "/");
    return healthz.ok() && healthz->code == 200 && check.ok() && check->code == 200;
  }));
  EXPECT_OK(agent->Stop());
}

TEST(SystemdTest, ItHearsOfTheStartOfLifeAndOfTheEnd) {
  ASSERT_OK_AND_ASSIGN(const auto systemd, NotifySocket::Create());
  NotifySocket::AskForWatchdog(std::chrono::milliseconds(200));
  ASSERT_OK_AND_ASSIGN(const NetNs netns, NetNs::Create());
  ASSERT_OK_AND_ASSIGN(const auto agent, Agent::Start(netns, {"--state-dir", ""}));
  // Waits for a message that starts with this prefix and discards all other messages.
  const auto hears = [&](const std::string& beginning) {
    std::string message;
    do {
      message = systemd->ReceiveMessage(kHangLimit);
    } while (!message.empty() && message.rfind(beginning, 0) != 0);
    return !message.empty();
  };
  EXPECT_TRUE(hears("READY=1\nSTATUS="));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(hears("WATCHDOG=1"));
  ASSERT_EQ(kill(agent->pid(), SIGHUP), 0);
  EXPECT_TRUE(hears("RELOADING=1\nMONOTONIC_USEC="));
  EXPECT_TRUE(hears("READY=1\n"));
  ASSERT_OK(agent->Stop());
  EXPECT_TRUE(hears("STOPPING=1\n"));
}

// An agent without a controller is alive but not healthy.
TEST(HealthzBeforeTheStateTest, ItIsAliveButNotHealthy) {
  ASSERT_OK_AND_ASSIGN(const NetNs netns, NetNs::Create());
  ASSERT_OK_AND_ASSIGN(const auto agent, Agent::Start(netns, {"--state-dir", ""}));
  ASSERT_OK_AND_ASSIGN(const HttpAnswer alive,
                       HttpRequest(netns, "127.0.0.1", kHealthzPort, "/livez"));
  EXPECT_EQ(alive.code, 200) << alive.body;
  ASSERT_OK_AND_ASSIGN(const HttpAnswer before,
                       HttpRequest(netns, "127.0.0.1", kHealthzPort, "/healthz"));
  EXPECT_EQ(before.code, 503);
  EXPECT_NE(before.body.find(R"("reason":"complete state not received or not programmed yet"})"),
            std::string::npos)
      << before.body;
  ASSERT_OK(agent->Replace(Basics()));
  EXPECT_OK(Eventually("/healthz is 200", [&] {
    const auto answer = HttpRequest(netns, "127.0.0.1", kHealthzPort, "/healthz");
    return answer.ok() && answer->code == 200;
  }));
}

// Replaces the agent with an agent that can open at most `descriptors` file descriptors. A shell
// sets the limit, because this process could not raise its own hard limit again without
// CAP_SYS_RESOURCE.
absl::Status StartWithDescriptors(int descriptors, World& world) {
  absl::StatusOr<TemporaryFolder> folder = TemporaryFolder::Make();
  if (!folder.ok()) return folder.status();
  const std::string script = folder->path() + "/svcmapd";
  std::ofstream(script) << "#!/bin/sh\nulimit -n " << descriptors
                        << "\nexec " SVCMAP_BIN_DIR "/svcmapd \"$@\"\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  if (absl::Status status = world.agent->Stop(); !status.ok()) return status;
  auto started = Agent::Launch(world.node().netns(), {}, script);
  if (!started.ok()) return started.status();
  world.agent = *std::move(started);
  return world.agent->WaitUntilItAnswers();
}

TEST_F(HealthChecksTest, MoreHealthCheckPortsThanDescriptorsDoNotSilenceTheAgent) {
  constexpr int kServices = 2000;
  ASSERT_OK(StartWithDescriptors(600, *world()));
  Objects objects = Basics();
  for (int i = 0; i < kServices; ++i) {
    objects.push_back(AService(absl::StrCat("shop/web-", i))
                          .ClusterIp(absl::StrCat("10.96.", 100 + i / 200, ".", 1 + i % 200))
                          .Port("", 80)
                          .Type("LoadBalancer")
                          .ExternalPolicy("Local")
                          .HealthCheckNodePort(kCheckPort + i));
  }
  ASSERT_OK(agent().Replace(objects));
  ExpectHealthz("/livez", 200, "");
  EXPECT_OK(agent().GetStatus());
  EXPECT_OK(Eventually("the ports without a listener are logged", [&] {
    return agent().log().find("cannot listen on healthCheckNodePort") != std::string::npos;
  }));
  // The agent still has file descriptors for connections to other ports.
  std::vector<RawConnection> connections;
  for (int i = 0; i < 100; ++i) {
    auto connection = RawConnection::Open(client().netns(), kNode.v4, kHealthzPort);
    ASSERT_OK(connection);
    connections.push_back(*std::move(connection));
  }
  EXPECT_OK(agent().GetStatus());
  EXPECT_OK(Eventually("a healthCheckNodePort answers", [&] {
    for (int i = 0; i < kServices; ++i) {
      if (AnswerOf(client(), kNode.v4, kCheckPort + i) != "refused") return true;
    }
    return false;
  }));
  ASSERT_OK(world()->RestartAgent({}));
}

}  // namespace
}  // namespace svcmap::testing
