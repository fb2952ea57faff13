// The compared implementation "netlink" is the lower bound for the duration of a sync. "netlink"
// sends the minimum that a proxy with one map element per endpoint must send to the kernel, as
// prepared batches over a raw socket.
//
// "netlink" fills two maps and a set that no rule references. The keys of the first map consist of
// a Service's address, protocol and port. The values consist of the Service's group and number of
// endpoints. The keys of the second map consist of a group and a slot, and the values are
// endpoints. The set contains the node's endpoints for hairpin connections. A nodePort is stored as
// an additional Service address. "netlink" does not support comments, session affinity, traffic
// policies, dumps or state files. Batches are built before the time measurement starts.
#include <time.h>

#include <map>
#include <utility>

#include "nft/model/transaction.h"
#include "nft/netlink/answer.h"
#include "nft/netlink/batch.h"
#include "nft/netlink/messages.h"
#include "nft/netlink/session.h"
#include "tests/bench/opponents/opponent.h"

namespace svcmap::bench {
namespace {

using nft::Field;
using nft::FieldBytes;

enum FloorSet : uint8_t { kServices, kEndpoints, kHairpins };

nft::TableSpec FloorTable() {
  const Field address = Field::kIpv4Addr;
  // Group numbers have the type IPv4 address, so that nft can list the maps.
  return {.family = Family::kIpv4,
          .name = "floor",
          .sets = {{.name = "services",
                    .key = {address, Field::kInetProto, Field::kInetService},
                    .data = {Field::kIpv4Addr, Field::kInetService}},
                   {.name = "endpoints",
                    .key = {Field::kIpv4Addr, Field::kInetService},
                    .data = {address, Field::kInetService}},
                   {.name = "hairpins",
                    .key = {address, address, Field::kInetProto, Field::kInetService}}}};
}

double ThreadCpuSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// The elements of one transaction.
class FloorRows {
 public:
  explicit FloorRows(nft::Transaction& transaction) : transaction_(transaction) {}

  // Adds the difference between the old and the new Service port. `before` or `after` is null if
  // the port does not exist. The elements in the map of Services are always rewritten, because
  // these elements contain the number of endpoints.
  void Change(uint32_t group, const ServicePort* before, const ServicePort* after) {
    static const std::vector<BenchEndpoint> kNone;
    const std::vector<BenchEndpoint>& old = before ? before->endpoints : kNone;
    const std::vector<BenchEndpoint>& now = after ? after->endpoints : kNone;
    if (before) Services(nft::Verb::kDelete, group, *before);
    for (size_t slot = 0; slot < old.size(); ++slot) {
      const bool stays = slot < now.size() && now[slot].address == old[slot].address;
      if (!stays) Endpoint(nft::Verb::kDelete, group, slot, *before);
    }
    for (size_t slot = 0; slot < now.size(); ++slot) {
      const bool stays = slot < old.size() && now[slot].address == old[slot].address;
      if (!stays) Endpoint(nft::Verb::kAdd, group, slot, *after);
    }
    if (after) Services(nft::Verb::kAdd, group, *after);
  }

 private:
  static uint8_t Number(const ServicePort& port) { return static_cast<uint8_t>(port.protocol); }

  void Write(nft::Verb verb, FloorSet set, const FieldBytes& key, const FieldBytes& data = {}) {
    const nft::ElementView element = {{Family::kIpv4, set}, key.bytes(), data.bytes(), {}};
    verb == nft::Verb::kAdd ? transaction_.Add(element) : transaction_.Delete(element);
  }

  void Service(nft::Verb verb, uint32_t group, const ServicePort& port,
               std::span<const uint8_t> address, uint16_t number) {
    FieldBytes key;
    key.Append(address).AppendU8(Number(port)).AppendU16Be(number).PadToWord();
    FieldBytes data;
    data.AppendU32Be(group).AppendU16Be(static_cast<uint16_t>(port.endpoints.size())).PadToWord();
    Write(verb, kServices, key, data);
  }

  void Services(nft::Verb verb, uint32_t group, const ServicePort& port) {
    Service(verb, group, port, port.cluster_ip.bytes(), port.port);
    for (const auto* more : {&port.external_ips, &port.load_balancer_ips}) {
      for (const IpAddress& ip : *more) Service(verb, group, port, ip.bytes(), port.port);
    }
    if (port.node_port == 0) return;
    constexpr uint8_t kAnyNode[16] = {};
    Service(verb, group, port, {kAnyNode, port.cluster_ip.size()}, port.node_port);
  }

  void Endpoint(nft::Verb verb, uint32_t group, size_t slot, const ServicePort& port) {
    const BenchEndpoint& endpoint = port.endpoints[slot];
    const std::span<const uint8_t> address = endpoint.address.ip.bytes();
    FieldBytes key;
    key.AppendU32Be(group).AppendU16Be(static_cast<uint16_t>(slot)).PadToWord();
    FieldBytes data;
    data.Append(address).AppendU16Be(endpoint.address.port).PadToWord();
    Write(verb, kEndpoints, key, data);
    if (endpoint.node != 0) return;
    FieldBytes pair;
    pair.Append(address).Append(address).AppendU8(Number(port));
    pair.AppendU16Be(endpoint.address.port).PadToWord();
    Write(verb, kHairpins, pair);
  }

  nft::Transaction& transaction_;
};

class Netlink final : public Opponent {
 public:
  Netlink(nft::Session session, const OpponentSettings& settings)
      : session_(std::move(session)), settings_(settings) {}

  absl::StatusOr<Cost> Load(const Cluster& cluster) override {
    return Write(cluster, /*replace=*/false);
  }

  absl::StatusOr<Cost> Change(const Cluster&, const std::vector<ClusterChange>& changes) override {
    nft::Transaction transaction;
    FloorRows rows(transaction);
    for (const ClusterChange& change : changes) {
      const ServicePort* before = change.before ? &*change.before : nullptr;
      const ServicePort* after = change.after ? &*change.after : nullptr;
      const ServicePort& either = after ? *after : *before;
      rows.Change(GroupOf(either), before, after);
      if (!after) groups_.erase(either.Text());
    }
    return Send(transaction);
  }

  absl::StatusOr<Cost> Resync(const Cluster& cluster) override {
    return Write(cluster, /*replace=*/true);
  }

  ProcessMemory Memory() const override { return {}; }

 private:
  uint32_t GroupOf(const ServicePort& port) {
    const auto [entry, fresh] = groups_.try_emplace(port.Text(), next_group_);
    if (fresh) ++next_group_;
    return entry->second;
  }

  // Writes the table and all elements in one batch.
  absl::StatusOr<Cost> Write(const Cluster& cluster, bool replace) {
    nft::Transaction transaction;
    if (replace) transaction.DropTable(Family::kIpv4);
    transaction.CreateTable({Family::kIpv4});
    FloorRows rows(transaction);
    for (const ServicePort& port : cluster.ports()) rows.Change(GroupOf(port), nullptr, &port);
    return Send(transaction);
  }

  absl::StatusOr<Cost> Send(const nft::Transaction& transaction) {
    nft::Batch batch(tables_, session_.sequence());
    batch.Append(transaction);
    batch.Finish();
    session_.SkipTo(batch.next_sequence());

    const double cpu = ThreadCpuSeconds();
    const auto start = std::chrono::steady_clock::now();
    absl::Status status = session_.Send(batch.bytes());
    if (status.ok()) status = AwaitVerdict(batch);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (!status.ok()) return status;
    if (took > settings_.time_limit) {
      return absl::DeadlineExceededError("a batch took longer than the time limit");
    }
    return Cost{.seconds = took.count(),
                .kernel_seconds = took.count(),
                .longest_commit_seconds = took.count(),
                .cpu_seconds = ThreadCpuSeconds() - cpu};
  }

  // The kernel sends errors before it acknowledges the last message of the batch.
  absl::Status AwaitVerdict(const nft::Batch& batch) {
    for (;;) {
      const absl::StatusOr<std::span<const uint8_t>> datagram = session_.Receive();
      if (!datagram.ok()) return datagram.status();
      for (const nlmsghdr* message : nft::Messages(*datagram)) {
        if (message->nlmsg_type != NLMSG_ERROR) continue;
        const nft::Answer answer = nft::ReadAnswer(message);
        if (answer.error != 0) return answer.ToStatus(batch.Describe(message->nlmsg_seq));
        if (message->nlmsg_seq == batch.last_sequence()) return absl::OkStatus();
      }
    }
  }

  nft::Session session_;
  const OpponentSettings settings_;
  const nft::TableSpecs tables_ = {FloorTable()};
  // Group number of each Service port, by ServicePort::Text().
  std::map<std::string, uint32_t> groups_;
  uint32_t next_group_ = 1;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Opponent>> MakeNetlink(const testing::NetNs& netns,
                                                      const OpponentSettings& settings) {
  absl::StatusOr<nft::Session> session =
      netns.Run([&] { return nft::Session::Open({.answer_timeout = settings.time_limit}); });
  if (!session.ok()) return session.status();
  return std::make_unique<Netlink>(*std::move(session), settings);
}

}  // namespace svcmap::bench
