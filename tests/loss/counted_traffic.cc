#include "tests/loss/counted_traffic.h"

#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/wait.h"

namespace svcmap::testing {
namespace {

constexpr int64_t kFlowsBetweenChanges = 500;

}  // namespace

std::string LossCounts::ToString() const {
  return absl::StrCat("flows=", flows, " flows_per_second=", static_cast<int64_t>(per_second),
                      " untranslated=", Sum(untranslated), " dropped=", Sum(dropped),
                      " misdirected=", Sum(misdirected));
}

std::string ToText(const DatagramCounts& counts) {
  std::string text;
  for (const auto& [key, count] : counts) absl::StrAppend(&text, "  ", key, ": ", count, "\n");
  return text;
}

absl::StatusOr<CountedHosts> AddCountedHosts(Topology& topology) {
  CountedHosts hosts = {};
  for (const auto& [name, prefix, host] :
       {std::tuple("counted-clients", kCountedSources, &hosts.clients),
        std::tuple("counted-endpoints", kCountedEndpoints, &hosts.endpoints)}) {
    const absl::StatusOr<const Host*> added = topology.AddLocalPod(name);
    if (!added.ok()) return added.status();
    if (absl::Status status = topology.AddPrefix(**added, prefix); !status.ok()) return status;
    *host = *added;
  }
  // Short timeouts keep the table far below its maximum. The maximum of the initial namespace
  // applies to all namespaces.
  for (const char* timeout : {"udp_timeout", "tcp_timeout_time_wait"}) {
    absl::Status status = topology.node().netns().WriteSysctl(
        absl::StrCat("net/netfilter/nf_conntrack_", timeout), "1");
    if (!status.ok()) return status;
  }
  return hosts;
}

absl::StatusOr<std::unique_ptr<CountedTraffic>> CountedTraffic::Start(
    const NetNs& node, const CountedHosts& hosts, const std::vector<CountedService>& services) {
  absl::StatusOr<PacketWatch> watch = PacketWatch::Install(node, hosts.endpoints->netns());
  if (!watch.ok()) return watch.status();
  const absl::StatusOr<ConntrackLosses> conntrack = ReadConntrackLosses(node);
  if (!conntrack.ok()) return conntrack.status();
  const absl::StatusOr<int64_t> queue_drops = ReadQueueDrops();
  if (!queue_drops.ok()) return queue_drops.status();
  std::unique_ptr<CountedTraffic> traffic(new CountedTraffic(node, *std::move(watch)));
  traffic->conntrack_before_ = *conntrack;
  traffic->queue_drops_before_ = *queue_drops;
  traffic->services_ = services.size();
  FlowOptions options;
  for (const CountedService& service : services) {
    traffic->judge_.Change(service);
    options.targets.push_back({service.source_port(), service.address(), service.port()});
  }
  options.first_source = kFirstCountedSource;
  options.sources = kCountedSourceCount;
  auto flows = FlowGenerator::Start(hosts.clients->netns(), std::move(options));
  if (!flows.ok()) return flows.status();
  traffic->flows_ = *std::move(flows);
  if (absl::Status status = traffic->LetFlow(); !status.ok()) return status;
  return traffic;
}

absl::Status CountedTraffic::LetFlow() const { return flows_->Go(kFlowsBetweenChanges); }

absl::Status CountedTraffic::Change(const std::vector<CountedService>& changed) {
  const absl::StatusOr<DatagramCounts> left = watch_.Left();
  if (!left.ok()) return left.status();
  judge_.Judge(*left);
  for (const CountedService& service : changed) judge_.Change(service);
  return absl::OkStatus();
}

absl::Status CountedTraffic::WaitUntilCounted() const {
  int64_t last = -1;
  return Eventually("all sent datagrams have been counted, and the counters are constant", [&] {
    const absl::StatusOr<DatagramCounts> entered = watch_.Entered();
    const absl::StatusOr<DatagramCounts> left = watch_.Left();
    const absl::StatusOr<DatagramCounts> arrived = watch_.Arrived();
    const absl::StatusOr<int64_t> drops = ReadQueueDrops();
    if (!entered.ok() || !left.ok() || !arrived.ok() || !drops.ok()) return false;
    // Before and after the node, only a full receive queue may lose datagrams.
    const int64_t dropped = *drops - queue_drops_before_;
    const int64_t total = Sum(*entered) + Sum(*left) + Sum(*arrived);
    const int64_t before = std::exchange(last, total);
    return flows_->sent() - Sum(*entered) <= dropped && Sum(*left) - Sum(*arrived) <= dropped &&
           total == before;
  });
}

absl::StatusOr<LossCounts> CountedTraffic::Stop() {
  flows_->Stop();
  if (absl::Status status = WaitUntilCounted(); !status.ok()) return status;
  LossCounts counts;
  DatagramCounts entered, repeated, left;
  for (const auto& [read, to] :
       {std::pair(watch_.Entered(), &entered), std::pair(watch_.Repeated(), &repeated),
        std::pair(watch_.Left(), &left), std::pair(watch_.Untranslated(), &counts.untranslated),
        std::pair(watch_.Escaped(), &counts.escaped)}) {
    if (!read.ok()) return read.status();
    *to = *read;
  }
  const absl::StatusOr<ConntrackLosses> conntrack = ReadConntrackLosses(node_);
  if (!conntrack.ok()) return conntrack.status();
  if (entered.size() != services_) {
    return absl::DataLossError(absl::StrCat("datagrams to ", entered.size(), " of ", services_,
                                            " Services entered the node"));
  }
  if (Sum(repeated) != 0) {
    return absl::DataLossError("datagrams belong to earlier flows, by source port:\n" +
                               ToText(repeated));
  }
  if (conntrack->insert_failed != conntrack_before_.insert_failed ||
      conntrack->dropped != conntrack_before_.dropped) {
    return absl::DataLossError("connection tracking has dropped packets");
  }
  counts.flows = Sum(entered);
  counts.per_second = flows_->per_second();
  counts.dropped = entered;
  for (const DatagramCounts& others : {counts.untranslated, left}) {
    for (const auto& [key, count] : others) counts.dropped[key.substr(0, key.find(' '))] -= count;
  }
  judge_.Judge(left);
  counts.misdirected = judge_.misdirected();
  return counts;
}

std::set<std::string> EndpointJudge::KeysOf(const CountedService& service) {
  std::set<std::string> keys;
  if (!service.permitted) return keys;
  for (const int endpoint : service.endpoints) {
    keys.insert(absl::StrCat(service.source_port(), " . ", CountedEndpoint(endpoint), " . ",
                             service.target_port()));
  }
  return keys;
}

void EndpointJudge::Judge(const DatagramCounts& left) {
  for (const auto& [key, count] : left) {
    int64_t& judged = judged_[key];
    if (count > judged && !permitted_.contains(key)) misdirected_[key] += count - judged;
    judged = count;
  }
  permitted_.clear();
  for (const auto& [number, keys] : current_) permitted_.insert(keys.begin(), keys.end());
}

void EndpointJudge::Change(const CountedService& changed) {
  current_[changed.number] = KeysOf(changed);
  const std::set<std::string>& keys = current_[changed.number];
  permitted_.insert(keys.begin(), keys.end());
}

}  // namespace svcmap::testing
