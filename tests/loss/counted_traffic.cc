#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/loss/counted_traffic.h"
#include "tests/support/kernel_check.h"
#include "tests/support/topology.h"
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

namespace {

using std::chrono::duration;
using std::chrono::milliseconds;

constexpr int kBatch = 64;
constexpr milliseconds kTick{1};
// The generator skips flows that are later than this time, because a burst could overflow the
// queues of the virtual devices.
constexpr milliseconds kLatest{20};

}  // namespace

struct FlowGenerator::Datagram {
  iphdr ip;
  udphdr udp;
  std::array<uint8_t, 8> payload;
};

absl::StatusOr<std::unique_ptr<FlowGenerator>> FlowGenerator::Start(const NetNs& netns,
                                                                    FlowOptions options) {
  UniqueFd socket =
      netns.Run([] { return UniqueFd(::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW)); });
  if (!socket.ok()) return absl::ErrnoToStatus(errno, "raw socket");
  std::unique_ptr<FlowGenerator> generator(
      new FlowGenerator(std::move(socket), std::move(options)));
  generator->thread_ = std::thread([raw = generator.get()] { raw->Send(); });
  return generator;
}

FlowGenerator::~FlowGenerator() { Stop(); }

void FlowGenerator::Stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

double FlowGenerator::per_second() const {
  return static_cast<double>(sent_) / duration<double>(end_ - start_).count();
}

absl::Status FlowGenerator::Go(int64_t flows) const {
  const int64_t goal = sent_ + flows;
  if (WaitUntil([&] { return sent_ >= goal; })) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat("sent only ", sent(), " datagrams"));
}

void FlowGenerator::Send() {
  Clock::time_point origin = start_;  // Moves forward when flows are skipped.
  while (!stop_ && Clock::now() < start_ + options_.longest) {
    const auto late = Clock::now() - origin;
    const auto due = static_cast<int64_t>(duration<double>(late).count() * options_.per_second);
    const auto most = static_cast<int64_t>(duration<double>(kLatest).count() * options_.per_second);
    const int64_t behind = due - sent_;
    if (behind > most) origin += kLatest;
    if (behind <= 0) {
      std::this_thread::sleep_for(kTick);
      continue;
    }
    sent_ += SendBatch(sent_, static_cast<int>(std::min<int64_t>(behind, kBatch)));
  }
  end_ = Clock::now();
}

int FlowGenerator::SendBatch(int64_t first, int count) {
  std::array<Datagram, kBatch> datagrams = {};
  std::array<sockaddr_in, kBatch> destinations = {};
  std::array<iovec, kBatch> buffers = {};
  std::array<mmsghdr, kBatch> messages = {};
  const auto targets = static_cast<int64_t>(options_.targets.size());
  for (int i = 0; i < count; ++i) {
    const FlowTarget& target = options_.targets[static_cast<size_t>((first + i) % targets)];
    const int64_t source = (first + i) / targets % options_.sources;
    sockaddr_in& destination = destinations[i];
    destination.sin_family = AF_INET;
    ::inet_pton(AF_INET, target.address.c_str(), &destination.sin_addr);
    Datagram& datagram = datagrams[i];
    // The kernel writes the identification and the header checksum. The UDP checksum 0 means that
    // the sender has not computed a checksum.
    datagram.ip.version = 4;
    datagram.ip.ihl = sizeof(iphdr) / 4;
    datagram.ip.tot_len = htons(sizeof(Datagram));
    datagram.ip.ttl = 64;
    datagram.ip.protocol = IPPROTO_UDP;
    datagram.ip.saddr = htonl(options_.first_source + static_cast<uint32_t>(source));
    datagram.ip.daddr = destination.sin_addr.s_addr;
    datagram.udp.source = htons(target.source_port);
    datagram.udp.dest = htons(target.port);
    datagram.udp.len = htons(sizeof(Datagram) - sizeof(iphdr));
    buffers[i] = {&datagram, sizeof(datagram)};
    messages[i].msg_hdr.msg_name = &destination;
    messages[i].msg_hdr.msg_namelen = sizeof(destination);
    messages[i].msg_hdr.msg_iov = &buffers[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  // A full queue is not a loss, because the watch counts datagrams when they enter the node.
  return std::max(0, ::sendmmsg(socket_.get(), messages.data(), static_cast<unsigned>(count), 0));
}

namespace {

constexpr char kWatchTable[] = "loss-watch";
constexpr char kFlowSet[] =
    "{ typeof udp sport . ip daddr . udp dport; size 65535; flags dynamic; }\n";
constexpr char kPortSet[] = "{ typeof udp sport; size 64; flags dynamic; }\n";

std::string SetOf(const char* name, const char* spec) {
  return absl::StrCat("set ", name, " ", spec);
}

std::string NodeTable() {
  const std::string flow = absl::StrCat("ip saddr ", kCountedSources, " ip protocol udp ");
  const std::string to_service =
      absl::StrCat(flow, "ip daddr { ", kServiceCidrV4, ", ", kCountedLoadBalancers, " } ");
  const std::string to_endpoint = absl::StrCat(flow, "ip daddr ", kCountedEndpoints, " ");
  return absl::StrCat(
      "table ip ", kWatchTable, " {\n", SetOf("entered", kPortSet), SetOf("repeated", kPortSet),
      SetOf("untranslated", kPortSet), SetOf("escaped", kPortSet), SetOf("left", kFlowSet),
      // Before connection tracking.
      "chain enter { type filter hook prerouting priority -300;\n", to_service,
      "update @entered { udp sport counter }\n}\n",
      // After connection tracking and before destination NAT.
      "chain track { type filter hook prerouting priority -150;\n", to_service,
      "ct state != new update @repeated { udp sport counter }\n}\n",
      // Trace messages only for destination NAT.
      "chain trace { type filter hook prerouting priority -101;\n", to_service,
      "meta nftrace set 1\n}\n",
      "chain untrace { type filter hook prerouting priority -99;\nmeta nftrace set 0\n}\n",
      // Before svcmapd's rejects, so that a rejected datagram counts as untranslated.
      "chain forward { type filter hook forward priority -300;\n", to_service,
      "update @untranslated { udp sport counter }\n}\n",
      // After svcmapd's rejects.
      "chain escape { type filter hook forward priority 100;\n", to_service,
      "update @escaped { udp sport counter }\n}\n",
      // After source NAT.
      "chain leave { type filter hook postrouting priority 300;\n", to_endpoint,
      "update @left { udp sport . ip daddr . udp dport counter }\n}\n}\n");
}

std::string EndpointTable() {
  return absl::StrCat("table ip ", kWatchTable, " {\n", SetOf("arrived", kFlowSet),
                      "chain arrive { type filter hook prerouting priority -300;\n", "ip saddr ",
                      kCountedSources,
                      " ip protocol udp update @arrived { udp sport . ip daddr . udp dport "
                      "counter } drop\n}\n}\n");
}

// Creates the table, without the counters of a previous test.
absl::Status Replace(const NetNs& netns, const std::string& table) {
  return RunNft(netns, absl::StrCat("table ip ", kWatchTable, "\ndelete table ip ", kWatchTable,
                                    "\n", table));
}

// Opens a socket that receives the trace messages of the namespace. The kernel discards the
// messages when the small buffer of the socket is full.
absl::StatusOr<UniqueFd> ReceiveTrace(const NetNs& netns) {
  UniqueFd fd = netns.Run(
      [] { return UniqueFd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER)); });
  const int size = 1;  // The kernel uses its minimum.
  const int group = NFNLGRP_NFTRACE;
  if (!fd.ok() || ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)) != 0 ||
      ::setsockopt(fd.get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) != 0) {
    return absl::ErrnoToStatus(errno, "trace socket");
  }
  return fd;
}

// Sums up a column of hexadecimal numbers, with one line for each CPU.
int64_t SumOfColumn(std::istream& file, size_t column) {
  int64_t sum = 0;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string word;
    for (size_t i = 0; i <= column; ++i) words >> word;
    sum += std::strtoll(word.c_str(), nullptr, 16);
  }
  return sum;
}

// Returns the position of `name` in the first line of the file.
absl::StatusOr<size_t> ColumnOf(std::istream& file, const std::string& name) {
  std::string line;
  std::getline(file, line);
  std::istringstream words(line);
  std::string word;
  for (size_t i = 0; words >> word; ++i) {
    if (word == name) return i;
  }
  return absl::NotFoundError(absl::StrCat("no column ", name, " in ", line));
}

}  // namespace

int64_t Sum(const DatagramCounts& counts) {
  int64_t sum = 0;
  for (const auto& [key, count] : counts) sum += count;
  return sum;
}

absl::StatusOr<PacketWatch> PacketWatch::Install(const NetNs& node, const NetNs& endpoints) {
  if (absl::Status status = Replace(node, NodeTable()); !status.ok()) return status;
  if (absl::Status status = Replace(endpoints, EndpointTable()); !status.ok()) return status;
  absl::StatusOr<UniqueFd> trace = ReceiveTrace(node);
  if (!trace.ok()) return trace.status();
  return PacketWatch(node, endpoints, *std::move(trace));
}

absl::StatusOr<DatagramCounts> PacketWatch::Read(const NetNs& netns, const std::string& set) {
  const absl::StatusOr<std::string> listing =
      Nft(netns, absl::StrCat("-n list set ip ", kWatchTable, " ", set));
  if (!listing.ok()) return listing.status();
  DatagramCounts counts;
  for (const ElementsAt& list : FindElements(*listing)) {
    for (const std::string& element : list.elements) {
      constexpr std::string_view kCounter = " counter packets ";
      const size_t at = element.find(kCounter);
      if (at == std::string::npos) return absl::DataLossError("no counter: " + element);
      counts[element.substr(0, at)] =
          std::strtoll(element.c_str() + at + kCounter.size(), nullptr, 10);
    }
  }
  return counts;
}

absl::StatusOr<ConntrackLosses> ReadConntrackLosses(const NetNs& netns) {
  return netns.Run([]() -> absl::StatusOr<ConntrackLosses> {
    ConntrackLosses losses;
    for (const auto& [name, value] :
         {std::pair("insert_failed", &losses.insert_failed), std::pair("drop", &losses.dropped)}) {
      std::ifstream file("/proc/thread-self/net/stat/nf_conntrack");
      const absl::StatusOr<size_t> column = ColumnOf(file, name);
      if (!column.ok()) return column.status();
      *value = SumOfColumn(file, *column);
    }
    return losses;
  });
}

absl::StatusOr<int64_t> ReadQueueDrops() {
  constexpr size_t kDropped = 1;
  std::ifstream file("/proc/net/softnet_stat");
  if (!file) return absl::NotFoundError("/proc/net/softnet_stat");
  return SumOfColumn(file, kDropped);
}

std::string CountedEndpoint(int n) { return absl::StrCat("10.244.1.", 128 + n); }

std::string CountedService::cluster_ip() const { return absl::StrCat("10.96.0.", 50 + number); }

std::string CountedService::address() const {
  return load_balancer ? absl::StrCat("203.0.113.", 1 + number) : cluster_ip();
}

v1::Object CountedService::Service() const {
  AService service(key);
  service.ClusterIp(cluster_ip())
      .Port("dns", first_port == 0 ? kCountedPort : first_port, Protocol::kUdp);
  for (int i = 0; i < other_ports; ++i) {
    service.Port(absl::StrCat("other-", i), 20000 + i, Protocol::kUdp);
  }
  if (affinity_seconds != 0) service.ClientIpAffinity(affinity_seconds);
  // With the policy Local, the clients are not masqueraded.
  if (load_balancer) service.LoadBalancerIp(address()).ExternalPolicy("Local");
  for (int i = 0; i < other_ranges; ++i) service.SourceRange(absl::StrCat("100.65.", i, ".0/25"));
  if (other_ranges > 0 && permitted) service.SourceRange(kCountedSources);
  v1::Object object = service;
  if (last_port > first_port) {
    object.mutable_service()->mutable_spec()->mutable_ports(0)->set_end_port(last_port);
  }
  return object;
}

v1::Object CountedService::Slice() const {
  ASlice slice(key);
  for (const int endpoint : endpoints) {
    slice.Endpoint(CountedEndpoint(endpoint), node);
    if (weighted) slice.Weight(endpoint % 2 == 0 ? 1 : 3);
  }
  for (const int endpoint : remote_endpoints) {
    slice.Endpoint(CountedEndpoint(endpoint), kOtherNode);
  }
  for (int i = 0; i < other_ports; ++i) {
    slice.Port(absl::StrCat("other-", i), 30000 + i, Protocol::kUdp);
  }
  return slice.Port("dns", target_port(), Protocol::kUdp);
}

}  // namespace svcmap::testing
