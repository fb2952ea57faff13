#include "tests/kube/bridge_world.h"

#include <signal.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"

namespace svcmap::testing {
namespace {

// Returns true if svcmap-kube sends the object to the agent (S-1, S-17). Of all Nodes, svcmap-kube
// sends only the agent's Node.
bool IsForUs(const v1::Object& object) {
  const auto& labels = MetadataOf(object).labels();
  if (object.has_service()) {
    return labels.count("service.kubernetes.io/service-proxy-name") == 0 &&
           object.service().spec().cluster_ip() != "None";
  }
  if (object.has_endpoint_slice()) return labels.count("service.kubernetes.io/headless") == 0;
  return !object.has_node() || object.node().metadata().name() == kAgentNode;
}

// Returns the sorted names of the objects, for example "EndpointSlice shop/web-v4".
std::set<std::string> NamesIn(const Objects& objects) {
  std::set<std::string> names;
  for (const v1::Object& object : objects) {
    if (!IsForUs(object)) continue;
    const v1::ObjectMeta& meta = MetadataOf(object);
    names.insert(
        absl::StrCat(NamesOf(CollectionOf(object)).kind, " ", meta.namespace_(), "/", meta.name()));
  }
  return names;
}

}  // namespace

void BridgeTest::SetUp() {
  ServiceTest::SetUp();
  if (HasFatalFailure()) return;
  ASSERT_OK_AND_ASSIGN(TemporaryFolder folder, TemporaryFolder::Make());
  folder_ = std::make_unique<TemporaryFolder>(std::move(folder));
  ASSERT_OK_AND_ASSIGN(server_, FakeApiServer::Start(&node().netns()));
  server_->Put(Basics());
  ASSERT_OK(server_->WriteKubeconfig(kubeconfig()));
}

void BridgeTest::TearDown() {
  if (HasFailure()) GTEST_LOG_(INFO) << BridgeLog();
  bridge_.reset();
  server_.reset();
  if (lasting_agent_ && world() != nullptr) {
    EXPECT_OK(world()->RestartAgent({}));
  }
  ServiceTest::TearDown();
}

absl::Status BridgeTest::StartBridge(const std::vector<std::string>& flags) {
  std::vector<std::string> argv = {
      SVCMAP_BIN_DIR "/svcmap-kube",
      "-vv",
      "--kubeconfig",
      kubeconfig(),
      "--agent",
      lasting_agent_ ? "unix://" + folder() + "/svcmapd.sock" : agent().socket(),
      "--node-name",
      kAgentNode};
  argv.insert(argv.end(), flags.begin(), flags.end());
  auto child = ChildProcess::Start({.argv = std::move(argv), .netns = &node().netns()});
  if (!child.ok()) return child.status();
  bridge_ = *std::move(child);
  return absl::OkStatus();
}

absl::Status BridgeTest::KillBridge() {
  if (absl::Status status = bridge_->Signal(SIGKILL); !status.ok()) return status;
  if (!bridge_->Wait(kHangLimit)) return absl::DeadlineExceededError("SIGKILL of svcmap-kube");
  return absl::OkStatus();
}

absl::Status BridgeTest::StopBridge() {
  if (absl::Status status = bridge_->Signal(SIGTERM); !status.ok()) return status;
  const auto exit = bridge_->Wait(kHangLimit);
  if (exit && exit->ok()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "SIGTERM of svcmap-kube: ", exit ? exit->ToString() : "nothing", "\n", BridgeLog()));
}

absl::Status BridgeTest::StartLastingAgent() {
  if (!lasting_agent_ && world()->agent != nullptr) {
    if (absl::Status status = agent().Stop(); !status.ok()) return status;
  }
  lasting_agent_ = true;
  world()->agent.reset();
  auto agent = Agent::Start(node().netns(), {"--listen", "unix://" + folder() + "/svcmapd.sock",
                                             "--state-dir", state_folder()});
  if (!agent.ok()) return agent.status();
  world()->agent = *std::move(agent);
  return absl::OkStatus();
}

absl::Status BridgeTest::KillAgent() {
  const absl::Status status = agent().Kill();
  world()->agent.reset();
  return status;
}

std::string BridgeTest::Answering(const Address& address, std::chrono::milliseconds timeout) {
  std::string answering[2];
  for (const bool v6 : {false, true}) {
    answering[v6] =
        Ask(client().netns(), {.destination = address.in(v6), .port = 80, .timeout = timeout})
            .server;
  }
  return answering[0] == answering[1] ? answering[0] : "?";
}

absl::Status BridgeTest::Until(const Address& address, const std::string& server) {
  absl::Status status = Eventually(absl::StrCat("\"", server, "\" behind ", address.v4),
                                   [&] { return Answering(address, kShort) == server; });
  if (status.ok()) return status;
  return absl::DeadlineExceededError(absl::StrCat(std::string(status.message()), ", but \"",
                                                  Answering(address), "\"; svcmap-kube says:\n",
                                                  BridgeLog()));
}

absl::Status BridgeTest::UntilTheAgentHasAll() {
  const std::set<std::string> wanted = NamesIn(server().objects());
  return Eventually(absl::StrCat(wanted.size(), " objects in svcmapd"), [&] {
    const absl::StatusOr<Objects> held = agent().List();
    return held.ok() && NamesIn(*held) == wanted && held->size() == wanted.size();
  });
}

absl::StatusOr<std::unique_ptr<SteadyTraffic>> BridgeTest::StartTraffic(const Address& address,
                                                                        const std::string& server) {
  TrafficOptions options;
  for (const bool v6 : {false, true}) {
    for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp}) {
      options.targets.push_back(
          {.request = {.protocol = protocol, .destination = address.in(v6), .port = 80},
           .servers = {server}});
    }
  }
  return SteadyTraffic::Start(client().netns(), std::move(options));
}

}  // namespace svcmap::testing
