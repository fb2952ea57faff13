#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/recovery/recovery_world.h"

namespace svcmap::testing {

namespace {

constexpr int kStickyClients = 32;
// Maximum waiting time. A longer wait counts as a failure.
constexpr std::chrono::seconds kPatience{8};
const Address kPair = ClusterIp(11);
const Address kPublic = ClusterIp(12);

// Returns an endpoint of an "other" Service. The endpoint's address is in the pod range, but no
// server answers.
std::string OtherEndpoint(int service, int endpoint, bool v6) {
  const int number = service * 16 + endpoint;
  return v6 ? absl::StrCat("fd00:10:244:9::", absl::Hex(number + 1))
            : absl::StrCat("10.244.", 100 + number / 250, ".", 1 + number % 250);
}

}  // namespace

Objects SteadyServices(const World& world) {
  return Objects{Web("steady/one", kSteady), Web("steady/pair", kPair),
                 ExternalWeb("steady/public", kPublic),
                 Web("steady/sticky", kSticky).ClientIpAffinity()} +
         WebSlices("steady/one", {world.pod_a}) +
         WebSlices("steady/pair", {world.pod_a, world.remote_pod}) +
         WebSlices("steady/public", {world.pod_a, world.pod_b, world.remote_pod}) +
         WebSlices("steady/sticky", {world.pod_a, world.pod_b, world.remote_pod});
}

TrafficOptions SteadyTargets(const World& world) {
  const std::string a = world.pod_a->name();
  const std::string b = world.pod_b->name();
  const std::string remote = world.remote_pod->name();
  struct Goal {
    const Address& address;
    uint16_t port;
    std::vector<std::string> servers;
  };
  TrafficOptions options;
  for (const Goal& goal :
       {Goal{kSteady, 80, {a}}, Goal{kPair, 80, {a, remote}}, Goal{kPublic, 80, {a, b, remote}},
        Goal{kExternalIp, 80, {a, b, remote}}, Goal{kNode, kNodePort, {a, b, remote}},
        Goal{kSticky, 80, {a, b, remote}}}) {
    for (const bool v6 : {false, true}) {
      for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp}) {
        options.targets.push_back({{.protocol = protocol,
                                    .destination = goal.address.in(v6),
                                    .port = goal.port,
                                    .timeout = kPatience},
                                   goal.servers});
      }
    }
  }
  return options;
}

Address OtherIp(int service) {
  return {absl::StrCat("10.96.", 1 + service / 250, ".", 1 + service % 250),
          absl::StrCat("fd00:96::1:", absl::Hex(service + 1))};
}

v1::Object OtherService(int service, int port) {
  AService made(absl::StrCat("other/s", service));
  made.ClusterIps(OtherIp(service).v4, OtherIp(service).v6).Port("p", port);
  return made;
}

Objects OtherSlices(int service, int endpoints) {
  Objects slices;
  for (const bool v6 : {false, true}) {
    ASlice slice(absl::StrCat("other/s", service));
    slice.Named(absl::StrCat("s", service, v6 ? "-v6" : "-v4")).Port("p", kPodPort);
    for (int i = 0; i < (v6 ? std::min(endpoints, 2) : endpoints); ++i) {
      slice.Endpoint(OtherEndpoint(service, i, v6), i % 2 == 0 ? kAgentNode : "n2");
    }
    v1::Object object = slice;
    object.mutable_endpoint_slice()->set_address_type(v6 ? "IPv6" : "IPv4");
    slices.push_back(std::move(object));
  }
  return slices;
}

Objects OtherServices(int services, int endpoints) {
  Objects objects;
  for (int i = 0; i < services; ++i) {
    objects.push_back(OtherService(i));
    for (v1::Object& slice : OtherSlices(i, endpoints)) objects.push_back(std::move(slice));
  }
  return objects;
}

void RecoveryTest::SetUp() {
  if (world() != nullptr) world()->agent.reset();
  auto folder = TemporaryFolder::Make();
  ASSERT_OK(folder);
  folder_.emplace(*std::move(folder));
  if (world() != nullptr) {
    ASSERT_OK(RunNft(node().netns(), "flush ruleset\n"));
    ASSERT_OK(StartAgent());
  }
  ServiceTest::SetUp();
}

void RecoveryTest::TearDown() {
  ServiceTest::TearDown();
  if (world() == nullptr) return;
  world()->agent.reset();
  EXPECT_OK(RunNft(node().netns(), "flush ruleset\n"));
}

std::vector<std::string> RecoveryTest::Flags(std::vector<std::string> more) const {
  more.insert(more.end(), {"--state-dir", state_folder()});
  return more;
}

absl::Status RecoveryTest::StartAgent(const std::vector<std::string>& more_flags) {
  world()->agent.reset();
  absl::StatusOr<std::unique_ptr<Agent>> agent = Agent::Start(node().netns(), Flags(more_flags));
  if (!agent.ok()) return agent.status();
  world()->agent = *std::move(agent);
  return absl::OkStatus();
}

absl::Status RecoveryTest::EndAgent(bool kill) {
  const absl::Status ended = kill ? agent().Kill() : agent().Stop();
  world()->agent.reset();
  return ended;
}

absl::Status RecoveryTest::WaitUntilServing() {
  absl::Status serving;
  WaitUntil([&] {
    serving = agent().CheckServing();
    if (!serving.ok()) return false;
    const absl::StatusOr<v1::GetStatusResponse> status = agent().GetStatus();
    serving = !status.ok() ? status.status()
              : status->phase() == v1::PHASE_SERVING
                  ? absl::OkStatus()
                  : absl::UnavailableError(v1::Phase_Name(status->phase()));
    return serving.ok();
  });
  return serving;
}

absl::Status RecoveryTest::WaitUntilTheKernelIsAsWanted() {
  absl::Status status;
  WaitUntil([&] {
    status = CheckKernel(agent(), node().netns(), rules_);
    return status.ok();
  });
  return status;
}

void RecoveryTest::RememberRules() {
  ASSERT_OK_AND_ASSIGN(const Listing listing, ReadListing(node().netns()));
  rules_ = listing.rules;
}

std::vector<std::string> RecoveryTest::StickyPlacement() {
  std::vector<Request> requests;
  for (const bool v6 : {false, true}) {
    for (int i = 0; i < kStickyClients; ++i) {
      requests.push_back({.destination = kSticky.in(v6),
                          .port = 80,
                          .source = ClientAddress(i).in(v6),
                          .timeout = kPatience});
    }
  }
  std::vector<std::string> placement;
  for (const Answer& answer : AskAll(client().netns(), requests)) {
    placement.push_back(answer.server.empty() ? answer.ToString() : answer.server);
  }
  return placement;
}

namespace {

constexpr int kSavedOthers = 60;
constexpr int kSavedEndpoints = 5;

}  // namespace

void SavedStateTest::SetUp() {
  RecoveryTest::SetUp();
  if (HasFatalFailure()) return;
  ASSERT_OK(agent().Replace(Everything()));
  RememberRules();
}

void SavedStateTest::TearDown() {
  traffic_.reset();  // Stop the traffic before the tables are deleted.
  RecoveryTest::TearDown();
}

Objects SavedStateTest::Everything() {
  return Basics() + SteadyServices(*world()) + OtherServices(kSavedOthers, kSavedEndpoints);
}

void SavedStateTest::StartTraffic() {
  ASSERT_OK_AND_ASSIGN(traffic_, SteadyTraffic::Start(client().netns(), SteadyTargets(*world())));
}

void SavedStateTest::ExpectNoInterruption() {
  EXPECT_OK(traffic_->Go(40));
  EXPECT_OK(traffic_->Report().Check()) << agent().log();
}

ElementLists SavedStateTest::ReadMarkers() {
  ElementLists markers;
  const absl::StatusOr<Listing> listing = ReadListing(node().netns());
  EXPECT_OK(listing);
  if (!listing.ok()) return markers;
  for (const auto& [set, elements] : listing->elements) {
    if (set.ends_with(" marker")) markers[set] = elements;
  }
  EXPECT_EQ(markers.size(), 2u);
  return markers;
}

void SavedStateTest::ExpectItGoesOn() {
  ASSERT_OK(agent().Apply(Objects{Web("shop/late", kLate)} + WebSlices("shop/late", {&pod_b()})));
  for (const bool v6 : {false, true}) {
    EXPECT_ANSWERED_BY(Ask(pod_a().netns(), {.destination = kLate.in(v6), .port = 80}), "pod-b",
                       pod_a().address(v6));
  }
  EXPECT_OK(CheckKernel(agent(), node().netns(), rules()));
}

}  // namespace svcmap::testing
