#include "tests/loss/loss_world.h"

#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace svcmap::testing {
namespace {

// Number of endpoints of each counted Service. Each of these numbers has its own pick chain.
constexpr int kEndpointNumbers[] = {1, 2, 3, 4, 8, 12};
constexpr int kEndpointsApart = 16;
constexpr int64_t kFlowsBetweenChanges = 500;

constexpr char kClients[] = "counted-clients";
constexpr char kEndpoints[] = "counted-endpoints";

// Adds the hosts of the counted traffic to the world.
absl::Status AddHosts(World& world) {
  for (const auto& [name, prefix] :
       {std::pair(kClients, kCountedSources), std::pair(kEndpoints, kCountedEndpoints)}) {
    const absl::StatusOr<const Host*> host = world.topology->AddLocalPod(name);
    if (!host.ok()) return host.status();
    if (absl::Status status = world.topology->AddPrefix(**host, prefix); !status.ok()) {
      return status;
    }
    world.cast[name] = *host;
  }
  // Short timeouts keep the table far below its maximum. The maximum of the initial namespace
  // applies to all namespaces.
  for (const char* timeout : {"udp_timeout", "tcp_timeout_time_wait"}) {
    absl::Status status =
        world.node().netns().WriteSysctl(absl::StrCat("net/netfilter/nf_conntrack_", timeout), "1");
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
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

std::string ToText(const DatagramCounts& counts) {
  std::string text;
  for (const auto& [key, count] : counts) absl::StrAppend(&text, "  ", key, ": ", count, "\n");
  return text;
}

}  // namespace

std::string LossCounts::ToString() const {
  return absl::StrCat("flows=", flows, " flows_per_second=", static_cast<int64_t>(per_second),
                      " untranslated=", Sum(untranslated), " dropped=", Sum(dropped),
                      " misdirected=", Sum(misdirected), " tcp_connections=", tcp.connect.attempts,
                      " tcp_failures=", tcp.failures(),
                      " tcp_retransmitted=", tcp.connect.sent_twice);
}

int64_t LossTest::Rewrites(int64_t quick) {
  return NumberFromEnvironment("SVCMAP_LOSS_REWRITES", quick);
}

void LossTest::SetUp() {
  RecoveryTest::SetUp();
  if (HasFatalFailure()) return;
  if (!world()->cast.contains(kClients)) {
    ASSERT_OK(AddHosts(*world()));
  }
  int number = 0;
  for (const int endpoints : kEndpointNumbers) {
    CountedService service = {number, absl::StrCat("counted/s", number), {}};
    for (int i = 0; i < endpoints; ++i) service.endpoints.insert(number * kEndpointsApart + i);
    services_.push_back(std::move(service));
    ++number;
  }
  ASSERT_OK(agent().Replace(Everything()));
  ASSERT_OK_AND_ASSIGN(watch_,
                       PacketWatch::Install(node().netns(), world()->cast.at(kEndpoints)->netns()));
}

void LossTest::TearDown() {
  flows_.reset();
  connections_.reset();
  RecoveryTest::TearDown();
}

Objects LossTest::Everything() const {
  Objects objects = Basics() + SteadyServices(*world());
  for (const CountedService& service : services_) objects = objects + service.All();
  return objects;
}

void LossTest::StartTraffic() {
  for (const CountedService& service : services_) judge_.Change(service);
  ASSERT_OK_AND_ASSIGN(conntrack_before_, ReadConntrackLosses(node().netns()));
  ASSERT_OK_AND_ASSIGN(queue_drops_before_, ReadQueueDrops());
  FlowOptions options;
  for (const CountedService& service : services_) {
    options.targets.push_back({service.source_port(), service.address(), service.port()});
  }
  options.first_source = kFirstCountedSource;
  options.sources = kCountedSourceCount;
  ASSERT_OK_AND_ASSIGN(connections_,
                       SteadyTraffic::Start(client().netns(), SteadyConnections(*world())));
  ASSERT_OK_AND_ASSIGN(flows_, FlowGenerator::Start(world()->cast.at(kClients)->netns(), options));
  ASSERT_OK(LetTrafficFlow());
}

absl::Status LossTest::LetTrafficFlow() const { return flows_->Go(kFlowsBetweenChanges); }

absl::Status LossTest::Change(const std::vector<CountedService>& changed,
                              std::vector<v1::Change> others) {
  const absl::StatusOr<std::unique_ptr<PushStream>> stream = agent().Push();
  if (!stream.ok()) return stream.status();
  const absl::StatusOr<DatagramCounts> left = watch_->Left();
  if (!left.ok()) return left.status();
  judge_.Judge(*left);
  std::vector<v1::Change> changes = std::move(others);
  for (const CountedService& service : changed) {
    judge_.Change(service);
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

absl::Status LossTest::WaitUntilCounted() const {
  int64_t last = -1;
  return Eventually("all sent datagrams have been counted, and the counters are constant", [&] {
    const absl::StatusOr<DatagramCounts> entered = watch_->Entered();
    const absl::StatusOr<DatagramCounts> left = watch_->Left();
    const absl::StatusOr<DatagramCounts> arrived = watch_->Arrived();
    const absl::StatusOr<int64_t> drops = ReadQueueDrops();
    if (!entered.ok() || !left.ok() || !arrived.ok() || !drops.ok()) return false;
    // On the way to and from the node, only a full receive queue may lose datagrams.
    const int64_t dropped = *drops - queue_drops_before_;
    const int64_t total = Sum(*entered) + Sum(*left) + Sum(*arrived);
    const int64_t before = std::exchange(last, total);
    return flows_->sent() - Sum(*entered) <= dropped && Sum(*left) - Sum(*arrived) <= dropped &&
           total == before;
  });
}

void LossTest::StopTraffic(LossCounts& counts) {
  flows_->Stop();
  counts.tcp = connections_->Stop();
  ASSERT_OK(WaitUntilCounted());
  ASSERT_OK_AND_ASSIGN(const DatagramCounts entered, watch_->Entered());
  ASSERT_OK_AND_ASSIGN(const DatagramCounts repeated, watch_->Repeated());
  ASSERT_OK_AND_ASSIGN(const DatagramCounts left, watch_->Left());
  ASSERT_OK_AND_ASSIGN(const DatagramCounts arrived, watch_->Arrived());
  ASSERT_OK_AND_ASSIGN(const ConntrackLosses conntrack, ReadConntrackLosses(node().netns()));
  ASSERT_OK_AND_ASSIGN(const int64_t queue_drops, ReadQueueDrops());
  EXPECT_EQ(entered.size(), services_.size());
  EXPECT_EQ(Sum(repeated), 0) << ToText(repeated);
  EXPECT_EQ(conntrack.insert_failed, conntrack_before_.insert_failed);
  EXPECT_EQ(conntrack.dropped, conntrack_before_.dropped);
  // Between the node and the endpoints, only a full receive queue may lose datagrams.
  EXPECT_LE(Sum(left) - Sum(arrived), queue_drops - queue_drops_before_);

  counts.flows = Sum(entered);
  counts.per_second = flows_->per_second();
  ASSERT_OK_AND_ASSIGN(counts.untranslated, watch_->Untranslated());
  ASSERT_OK_AND_ASSIGN(counts.escaped, watch_->Escaped());
  counts.dropped = entered;
  for (const DatagramCounts& others : {counts.untranslated, left}) {
    for (const auto& [key, count] : others) counts.dropped[key.substr(0, key.find(' '))] -= count;
  }
  judge_.Judge(left);
  counts.misdirected = judge_.misdirected();
}

void LossTest::ExpectNoLoss(const std::string& scenario, int64_t rewrites,
                            const std::set<int>& rejected, const std::set<int>& dropped) {
  LossCounts counts;
  ASSERT_NO_FATAL_FAILURE(StopTraffic(counts));
  std::cout << scenario << ": rewrites=" << rewrites << " " << counts.ToString() << "\n";
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
  EXPECT_EQ(counts.tcp.failures(), 0) << counts.tcp.ToString();
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
