#include "tests/bench/recovery/node.h"

#include "absl/strings/str_cat.h"
#include "tests/support/damage.h"
#include "tests/support/kernel_check.h"
#include "tests/support/raw_http.h"

namespace svcmap::bench {
namespace {

using testing::AService;
using testing::ASlice;
using testing::Host;
using testing::Objects;

constexpr uint16_t kVictimPort = 8080;
constexpr uint16_t kHealthPort = 10256;
// Number of the cluster's first Service. The victim's addresses precede the addresses of the
// cluster.
constexpr int kFirstService = 200;
constexpr int kProbeSources = 16;
constexpr std::chrono::seconds kRepairDeadline{30};
constexpr std::chrono::milliseconds kRepairPoll{1};

Objects ServiceOf(const std::string& name, const std::string& ip, const Host& pod) {
  AService service("victims/" + name);
  service.ClusterIp(ip).Port("tcp", 80).Port("udp", 80, testing::Protocol::kUdp);
  ASlice slice("victims/" + name);
  slice.Endpoint(pod.v4(), testing::kAgentNode)
      .Port("tcp", kVictimPort)
      .Port("udp", kVictimPort, testing::Protocol::kUdp);
  return {service, slice};
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecoveryNode>> RecoveryNode::Create(const std::string& svcmapd) {
  absl::StatusOr<testing::TemporaryFolder> folder = testing::TemporaryFolder::Make();
  if (!folder.ok()) return folder.status();
  std::unique_ptr<RecoveryNode> node(new RecoveryNode(*std::move(folder), svcmapd));
  if (absl::Status status = node->Build(); !status.ok()) return status;
  return node;
}

absl::Status RecoveryNode::Build() {
  auto topology = testing::Topology::Create();
  if (!topology.ok()) return topology.status();
  topology_ = *std::move(topology);
  for (const auto& [host, made] : {std::pair(&pod_, topology_->AddLocalPod("pod")),
                                   std::pair(&other_pod_, topology_->AddLocalPod("other-pod")),
                                   std::pair(&client_, topology_->AddClient("client"))}) {
    if (!made.ok()) return made.status();
    *host = *made;
  }
  for (const Host* pod : {pod_, other_pod_}) {
    auto server =
        testing::EchoServer::StartAll(pod->netns(), pod->v4(), pod->v6(), kVictimPort, pod->name());
    if (!server.ok()) return server.status();
    servers_.push_back(*std::move(server));
  }
  for (int i = 0; i < kProbeSources; ++i) {
    client_addresses_.push_back(absl::StrCat("203.0.113.", 200 + i));
    if (absl::Status status = topology_->AddPrefix(*client_, client_addresses_.back() + "/32");
        !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status RecoveryNode::Launch() {
  agent_.reset();
  auto agent =
      testing::Agent::Launch(netns(), {"--state-dir", folder_.path() + "/state"}, svcmapd_);
  if (!agent.ok()) return agent.status();
  agent_ = *std::move(agent);
  return absl::OkStatus();
}

absl::Status RecoveryNode::Start() {
  const absl::Status launched = Launch();
  return launched.ok() ? agent_->WaitUntilItAnswers() : launched;
}

absl::Status RecoveryNode::Stop() { return agent_->Stop(); }
absl::Status RecoveryNode::Kill() { return agent_->Kill(); }

absl::Status RecoveryNode::Load(const ClusterShape& shape) {
  Objects objects = {testing::ANode(testing::kAgentNode).InternalIp(testing::kNodeV4),
                     testing::AServiceCidr("kubernetes", {testing::kServiceCidrV4})};
  for (const auto& [name, ip, pod] : {std::tuple("victim", testing::kVictim, pod_),
                                      std::tuple("other", testing::kOtherService, other_pod_)}) {
    for (v1::Object& object : ServiceOf(name, ip, *pod)) objects.push_back(std::move(object));
  }
  // Subtract one Service, because the shape's number of Services includes the victim.
  ClusterShape others = shape;
  --others.services;
  const Cluster cluster(others, kFirstService);
  for (const ServicePort& port : cluster.ports()) {
    *objects.emplace_back().mutable_service() = ServiceMessage(port);
    for (v1::EndpointSlice& slice : SliceMessages(port)) {
      *objects.emplace_back().mutable_endpoint_slice() = std::move(slice);
    }
  }
  if (absl::Status status = agent_->Replace(objects); !status.ok()) return status;
  const absl::StatusOr<testing::Listing> listing = testing::ReadListing(netns());
  if (!listing.ok()) return listing.status();
  rules_ = listing->rules;
  return agent_->WaitUntilSaved();
}

absl::Status RecoveryNode::Reports(uint64_t repairs) {
  const absl::StatusOr<v1::GetStatusResponse> status = agent_->GetStatus();
  if (!status.ok()) return status.status();
  if (status->state() == v1::SERVING && status->verified() && status->repairs() >= repairs &&
      status->pending_changes() == 0) {
    return absl::OkStatus();
  }
  return absl::UnavailableError("the agent is not done: " + status->ShortDebugString());
}

absl::StatusOr<Clock::time_point> RecoveryNode::AwaitRepair(uint64_t repairs) {
  const Clock::time_point deadline = Clock::now() + kRepairDeadline;
  absl::Status status;
  do {
    status = Reports(repairs);
    const Clock::time_point now = Clock::now();
    if (status.ok()) status = CheckKernel();
    if (status.ok()) return now;
    std::this_thread::sleep_for(kRepairPoll);
  } while (Clock::now() < deadline);
  return status;
}

absl::Status RecoveryNode::CheckKernel() { return testing::CheckKernel(*agent_, netns(), rules_); }

bool RecoveryNode::Healthy() {
  const absl::StatusOr<testing::HttpAnswer> answer =
      testing::HttpRequest(netns(), "127.0.0.1", kHealthPort, "/healthz");
  return answer.ok() && answer->code == 200;
}

absl::StatusOr<std::unique_ptr<Probe>> RecoveryNode::StartProbe(testing::Protocol protocol,
                                                                std::chrono::microseconds every) {
  return Probe::Start(client_->netns(), {.protocol = protocol,
                                         .ip = testing::kVictim,
                                         .port = 80,
                                         .server = pod_->name(),
                                         .sources = client_addresses_,
                                         .every = every});
}

}  // namespace svcmap::bench
