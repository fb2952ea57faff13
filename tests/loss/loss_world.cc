#include "tests/loss/loss_world.h"

#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace svcmap::testing {
namespace {

// Number of endpoints of each counted Service. Each of these numbers has its own pick chain.
constexpr int kEndpointNumbers[] = {1, 2, 3, 4, 8, 12};
constexpr int kEndpointsApart = 16;

constexpr char kClients[] = "counted-clients";
constexpr char kEndpoints[] = "counted-endpoints";

// Returns the hosts of the counted traffic, which all tests of the process share.
absl::StatusOr<CountedHosts> HostsOf(World& world) {
  if (!world.cast.contains(kClients)) {
    const absl::StatusOr<CountedHosts> hosts = AddCountedHosts(*world.topology);
    if (!hosts.ok()) return hosts;
    world.cast[kClients] = hosts->clients;
    world.cast[kEndpoints] = hosts->endpoints;
  }
  return CountedHosts{world.cast.at(kClients), world.cast.at(kEndpoints)};
}

// Options for new and open TCP connections to all steady Services.
TrafficOptions SteadyConnections(const World& world) {
  TrafficOptions options = SteadyTargets(world);
  std::erase_if(options.targets, [](const TrafficTarget& target) {
    return target.request.protocol != Protocol::kTcp;
  });
  options.connect_every = std::chrono::milliseconds(2);
  options.message_every = std::chrono::milliseconds(8);
  return options;
}

}  // namespace

int64_t LossTest::Rewrites(int64_t quick) {
  return NumberFromEnvironment("SVCMAP_LOSS_REWRITES", quick);
}

void LossTest::SetUp() {
  RecoveryTest::SetUp();
  if (HasFatalFailure()) return;
  ASSERT_OK_AND_ASSIGN(hosts_, HostsOf(*world()));
  int number = 0;
  for (const int endpoints : kEndpointNumbers) {
    CountedService service = {number, absl::StrCat("counted/s", number), {}};
    for (int i = 0; i < endpoints; ++i) service.endpoints.insert(number * kEndpointsApart + i);
    services_.push_back(std::move(service));
    ++number;
  }
  ASSERT_OK(agent().Replace(Everything()));
}

void LossTest::TearDown() {
  traffic_.reset();
  connections_.reset();
  RecoveryTest::TearDown();
}

Objects LossTest::Everything() const {
  Objects objects = Basics() + SteadyServices(*world());
  for (const CountedService& service : services_) objects = objects + service.All();
  return objects;
}

void LossTest::StartTraffic() {
  ASSERT_OK_AND_ASSIGN(connections_,
                       SteadyTraffic::Start(client().netns(), SteadyConnections(*world())));
  ASSERT_OK_AND_ASSIGN(traffic_, CountedTraffic::Start(node().netns(), hosts_, services_));
}

absl::Status LossTest::Change(const std::vector<CountedService>& changed,
                              std::vector<v1::Change> others) {
  const absl::StatusOr<std::unique_ptr<PushStream>> stream = agent().Push();
  if (!stream.ok()) return stream.status();
  if (traffic_) {
    if (absl::Status status = traffic_->Change(changed); !status.ok()) return status;
  }
  std::vector<v1::Change> changes = std::move(others);
  for (const CountedService& service : changed) {
    const CountedService& old = counted(service.number);
    if (service.key != old.key || !service.exists) {
      changes.push_back(Removal(ServiceRef(old.key)));
      changes.push_back(Removal(SliceRef(absl::StrCat(old.key, "-1"))));
    }
    const bool changed_service =
        !old.exists || service.Service().SerializeAsString() != old.Service().SerializeAsString();
    if (service.exists && changed_service) changes.push_back(Upsert(service.Service()));
    if (service.exists) changes.push_back(Upsert(service.Slice()));
    counted(service.number) = service;
  }
  const absl::StatusOr<v1::Ack> ack = (*stream)->Batch(changes);
  return ack.ok() ? CheckAck(*ack) : ack.status();
}

void LossTest::StopTraffic(LossCounts& counts, TrafficReport& tcp) {
  tcp = connections_->Stop();
  ASSERT_OK_AND_ASSIGN(counts, traffic_->Stop());
}

void LossTest::ExpectNoLoss(const std::string& scenario, int64_t rewrites,
                            const std::set<int>& rejected, const std::set<int>& dropped) {
  LossCounts counts;
  TrafficReport tcp;
  ASSERT_NO_FATAL_FAILURE(StopTraffic(counts, tcp));
  std::cout << scenario << ": rewrites=" << rewrites << " " << counts.ToString()
            << " tcp_connections=" << tcp.connect.attempts << " tcp_failures=" << tcp.failures()
            << " tcp_retransmitted=" << tcp.connect.sent_twice << "\n";
  EXPECT_EQ(Sum(counts.escaped), 0) << "by source port:\n" << ToText(counts.escaped);
  for (const CountedService& service : services_) {
    const std::string port = absl::StrCat(service.source_port());
    SCOPED_TRACE("source port " + port);
    if (!rejected.contains(service.number)) {
      EXPECT_EQ(counts.untranslated[port], 0);
    }
    if (!dropped.contains(service.number)) {
      EXPECT_EQ(counts.dropped[port], 0);
    }
  }
  EXPECT_EQ(Sum(counts.misdirected), 0) << ToText(counts.misdirected);
  EXPECT_EQ(tcp.failures(), 0) << tcp.ToString();
}

std::vector<CountedService> LossTest::EachCounted(
    const std::function<void(CountedService&)>& edit) const {
  std::vector<CountedService> services = services_;
  for (CountedService& service : services) edit(service);
  return services;
}

void LossTest::ExpectNoLossDuring(const std::string& scenario, int64_t rewrites,
                                  const std::function<absl::Status(int64_t)>& rewrite,
                                  const std::set<int>& rejected, const std::set<int>& dropped) {
  ASSERT_NO_FATAL_FAILURE(StartTraffic());
  for (int64_t i = 0; i < rewrites; ++i) {
    SCOPED_TRACE(absl::StrCat("rewrite ", i));
    ASSERT_OK(rewrite(i)) << agent().log();
    ASSERT_OK(LetTrafficFlow());
  }
  ExpectNoLoss(scenario, rewrites, rejected, dropped);
}

}  // namespace svcmap::testing
