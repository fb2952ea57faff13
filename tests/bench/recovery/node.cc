#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "tests/bench/recovery/node.h"
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

using testing::SocketAddress;

constexpr uint32_t kFirstPort = 2000;
constexpr uint32_t kPorts = 60000;
// Time for which StopAndMeasure continues sending requests before it stops the probe.
constexpr std::chrono::milliseconds kSettled{20};

// Number from which the next source address and port are derived. All probes share the number, so
// that no probe reuses a port while the port's flow is tracked.
std::atomic<uint32_t> next_source{0};

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

absl::StatusOr<std::unique_ptr<Probe>> Probe::Start(const testing::NetNs& netns,
                                                    ProbeOptions options) {
  std::unique_ptr<Probe> probe(new Probe(std::move(options)));
  const auto destination = SocketAddress::Parse(probe->options_.ip, probe->options_.port);
  if (!destination.ok()) return destination.status();
  probe->destination_ = *destination;
  probe->epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  probe->open_.resize(static_cast<size_t>(2 * kPatience / probe->options_.every) + 1);
  // Start the thread in the client's network namespace, because a thread inherits the namespace of
  // its creator.
  netns.Run([raw = probe.get()] { raw->thread_ = std::thread([raw] { raw->Run(); }); });
  return probe;
}

Probe::~Probe() { Stop(); }

void Probe::Stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void Probe::Run() {
  Clock::time_point next = Clock::now();
  while (!stop_) {
    Ask();
    next = std::max(next + options_.every, Clock::now());
    do {
      Listen(std::chrono::duration_cast<std::chrono::microseconds>(next - Clock::now()));
    } while (!stop_ && Clock::now() < next);
    Forget(Clock::now() - kPatience);
  }
  // Wait for the answers to the last requests.
  const Clock::time_point end = Clock::now() + kPatience;
  while (Clock::now() < end && oldest_ < samples_.size()) {
    Listen(std::chrono::milliseconds(1));
    while (oldest_ < samples_.size() && samples_[oldest_].answered) ++oldest_;
  }
}

void Probe::Ask() {
  const uint32_t number = next_source++;
  const auto source =
      SocketAddress::Parse(options_.sources[number / kPorts % options_.sources.size()],
                           static_cast<uint16_t>(kFirstPort + number % kPorts));
  const bool tcp = options_.protocol == testing::Protocol::kTcp;
  UniqueFd fd(::socket(destination_.family(),
                       (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const linger reset = {1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  if (!source.ok() || ::bind(fd.get(), source->get(), source->size()) != 0) return;

  const size_t sample = samples_.size();
  samples_.push_back({Clock::now()});
  if (::connect(fd.get(), destination_.get(), destination_.size()) != 0 && errno != EINPROGRESS) {
    return;
  }
  if (!tcp && ::send(fd.get(), "who\n", 4, MSG_NOSIGNAL) != 4) return;
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = sample;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) != 0) return;
  open_[sample % open_.size()] = {std::move(fd), sample};
}

void Probe::Listen(std::chrono::microseconds timeout) {
  epoll_event events[64];
  const timespec wait = {0, std::max<int64_t>(0, timeout.count()) * 1000};
  const int count = ::epoll_pwait2(epoll_.get(), events, 64, &wait, nullptr);
  for (int i = 0; i < count; ++i) {
    const size_t sample = events[i].data.u64;
    Open& open = open_[sample % open_.size()];
    if (!open.fd.ok() || open.sample != sample) continue;
    char buffer[256];
    const ssize_t size = ::recv(open.fd.get(), buffer, sizeof(buffer), 0);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    testing::Answer answer;
    if (size > 0 && Clock::now() < samples_[sample].asked + kPatience &&
        testing::ParseAnswerLine(std::string(buffer, static_cast<size_t>(size)), &answer)) {
      samples_[sample].answered = answer.server == options_.server;
    }
    open.fd.Close();
  }
}

void Probe::Forget(Clock::time_point before) {
  for (; oldest_ < samples_.size() && samples_[oldest_].asked < before; ++oldest_) {
    Open& open = open_[oldest_ % open_.size()];
    if (open.sample == oldest_) open.fd.Close();
  }
}

std::chrono::duration<double, std::milli> Probe::StopAndMeasure(Clock::time_point from) {
  const Clock::time_point settled = Clock::now() + kSettled;
  std::this_thread::sleep_until(settled);
  Stop();
  const auto last_failure =
      std::find_if(samples_.rbegin(), samples_.rend(),
                   [&](const Sample& sample) { return !sample.answered && sample.asked >= from; });
  if (last_failure == samples_.rend()) return std::chrono::milliseconds(0);
  // The interruption ends with the next answered request, or now if no later request was answered.
  if (last_failure == samples_.rbegin()) return Clock::now() - from;
  return std::prev(last_failure)->asked - from;
}

absl::StatusOr<std::unique_ptr<CommitWatch>> CommitWatch::Start(const testing::NetNs& netns) {
  auto kernel = netns.Run([] { return nft::NetlinkKernel::Open({}); });
  if (!kernel.ok()) return kernel.status();
  const absl::StatusOr<uint32_t> generation = (*kernel)->Generation();
  if (!generation.ok()) return generation.status();
  std::unique_ptr<CommitWatch> watch(new CommitWatch(*std::move(kernel)));
  const auto now = std::chrono::steady_clock::now();
  watch->seen_ = {.generation = *generation, .first = now, .last = now};
  watch->thread_ = std::thread([raw = watch.get()] { raw->Run(); });
  return watch;
}

CommitWatch::~CommitWatch() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

CommitWatch::Commits CommitWatch::Seen() const {
  std::lock_guard lock(mutex_);
  return seen_;
}

void CommitWatch::Run() {
  while (!stop_) {
    const absl::StatusOr<uint32_t> generation = kernel_->Generation();
    const auto now = std::chrono::steady_clock::now();
    if (generation.ok()) {
      std::lock_guard lock(mutex_);
      if (*generation != seen_.generation) {
        if (seen_.count == 0) seen_.first = now;
        seen_.last = now;
        seen_.count += *generation - seen_.generation;
        seen_.generation = *generation;
      }
    }
    std::this_thread::sleep_until(now + kEvery);
  }
}

}  // namespace svcmap::bench
