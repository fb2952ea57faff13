// Makes changes that valgrind --tool=callgrind --instr-atstart=no counts. Writes one profile for
// each CALLGRIND_DUMP_STATS_AT.
//
// svcmap-instructions SERVICESxENDPOINTS: loads a cluster into the core and makes kCounted changes
// of each kind. svcmap-instructions DIMENSION N: adds, changes and removes a Service that is large
// in one dimension.
#include <valgrind/callgrind.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/intake/intake.h"
#include "nft/model/kernel.h"
#include "nft/netlink/batch.h"
#include "proxy/reconcile/loop.h"
#include "tests/bench/cluster/cluster.h"
#include "tests/support/builders.h"
#include "tests/support/encoded.h"

namespace svcmap::instructions {
namespace {

// A kernel that builds the netlink batch of each transaction like the real kernel interface, and
// stores nothing, so that only the core is measured.
class SinkKernel final : public nft::Kernel {
 public:
  explicit SinkKernel(nft::TableSpecs tables) : tables_(std::move(tables)) {}

  nft::ApplyResult Apply(const nft::Transaction& transaction) override {
    nft::Batch batch(tables_, sequence_);
    batch.Append(transaction);
    batch.Finish();
    sequence_ = batch.next_sequence();
    return {};
  }
  absl::StatusOr<bool> HasTable(Family) override { return false; }
  absl::StatusOr<std::vector<nft::Element>> ReadSet(nft::SetRef) override {
    return std::vector<nft::Element>();
  }
  absl::StatusOr<std::vector<std::optional<nft::Element>>> ReadElements(
      nft::SetRef, std::span<const nft::FieldBytes> keys) override {
    return std::vector<std::optional<nft::Element>>(keys.size());
  }
  absl::StatusOr<std::optional<nft::TableContent>> ReadTable(Family) override {
    return std::optional<nft::TableContent>();
  }
  absl::StatusOr<uint32_t> Generation() override { return 1; }
  absl::StatusOr<nft::TableContent> ReferenceContent(const nft::TableSpec&) override {
    return nft::TableContent();
  }

 private:
  const nft::TableSpecs tables_;
  uint32_t sequence_ = 1;
};

// svcmapd without its sockets to the controller and the kernel. The input is a serialized batch,
// and the output is the response to this batch. The core does the same work as svcmapd without
// --state-dir, because another thread writes the saved state.
class Core {
 public:
  // Loads the cluster in the same way as a controller's snapshot.
  explicit Core(const bench::Cluster& cluster);
  // Creates a core with an empty store and with `node_addresses`, all of which accept nodePorts.
  explicit Core(std::vector<IpAddress> node_addresses);
  ~Core() { loop_.Stop(); }

  // Sends a serialized PushRequest with a batch and waits for its response. Exits the process
  // unless the response is a commit without findings.
  void Push(const std::string& request);

  // Submits a batch and returns its result. Exits the process if the batch is not accepted.
  proxy::BatchResult Submit(proxy::Batch::Mark mark, const envelope::v1::Batch& batch);

  // Number of times the tables were rewritten completely.
  uint64_t recreations() const { return loop_.status().recreations; }

 private:
  explicit Core(proxy::NodePortAddresses node_port_addresses);
  void Commit(proxy::Batch::Mark mark, const envelope::v1::Batch& batch);

  const nft::TableSpecs tables_ = proxy::MakeTables({});
  SinkKernel kernel_{tables_};
  proxy::Reconciler reconciler_;
  proxy::Loop loop_;
  api::Intake intake_;
  std::mutex session_;
};

using Mark = proxy::Batch::Mark;

constexpr int kServicesAtOnce = 500;
constexpr std::chrono::hours kNever{10000};

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

proxy::LoopOptions Options() {
  proxy::LoopOptions options;
  options.schedule.first_audit = kNever;
  return options;
}

Core::Core(proxy::NodePortAddresses node_port_addresses)
    : reconciler_(kernel_,
                  {.node_name = bench::kThisNode, .node_port_addresses = node_port_addresses}),
      loop_(reconciler_, Options()),
      intake_(loop_, {.node_name = bench::kThisNode}) {
  loop_.Start(proxy::Received::kNothing);
}

Core::Core(std::vector<IpAddress> node_addresses)
    : Core(proxy::NodePortAddresses{.primary = false, .prefixes = {}}) {
  loop_.SetInterfaceAddresses(std::move(node_addresses));
  Submit(Mark::kSnapshotBegin, {});
  Submit(Mark::kSnapshotEnd, {});
}

Core::Core(const bench::Cluster& cluster) : Core(proxy::NodePortAddresses()) {
  Commit(Mark::kSnapshotBegin, {});
  v1::Batch batch;
  for (const bench::ServicePort& port : cluster.ports()) {
    *batch.add_changes()->mutable_service() = ServiceMessage(port);
    for (v1::EndpointSlice& slice : SliceMessages(port)) {
      *batch.add_changes()->mutable_endpoint_slice() = std::move(slice);
    }
    if (batch.changes_size() < 2 * kServicesAtOnce && &port != &cluster.ports().back()) continue;
    Commit(Mark::kNone, testing::Encoded(batch));
    batch.Clear();
  }
  Commit(Mark::kSnapshotEnd, {});
}

proxy::BatchResult Core::Submit(Mark mark, const envelope::v1::Batch& batch) {
  std::promise<proxy::BatchResult> answer;
  const absl::Status status = intake_.Submit(
      {mark}, batch.changes_size(),
      [&](int i) { return api::ConvertChange(batch.changes(i), intake_.context()); },
      [&answer](proxy::BatchResult result) { answer.set_value(std::move(result)); }, {},
      [this] { return std::unique_lock(session_); });
  if (!status.ok()) Die(status.ToString());
  return answer.get_future().get();
}

void Core::Commit(Mark mark, const envelope::v1::Batch& batch) {
  const proxy::BatchResult result = Submit(mark, batch);
  if (!result.findings.empty()) Die(result.findings.front().ToString());
  if (mark == Mark::kNone && result.outcome != proxy::BatchResult::Outcome::kCommitted) {
    Die("nothing was committed for: " + batch.ShortDebugString());
  }
}

void Core::Push(const std::string& request) {
  envelope::v1::PushRequest parsed;
  if (!parsed.ParseFromString(request)) Die("not a PushRequest: " + request);
  Commit(Mark::kNone, parsed.batch());
}

// Number of uncounted changes at the start, for initializations and first allocations.
constexpr int kWarmUp = 8;
// Number of counted changes per kind of change.
constexpr int kCounted = 32;
// Number of the first Service. The number is large, so that all Service names have the same length.
constexpr int kFirstService = 100'000;
constexpr size_t kStride = 17;

using MakeChange = std::function<bench::ClusterChange(size_t position)>;

class Counter {
 public:
  explicit Counter(const bench::ClusterShape& shape)
      : cluster_(shape, kFirstService), core_(cluster_), recreations_(core_.recreations()) {
    CALLGRIND_START_INSTRUMENTATION;
  }

  void Count(const char* kind, const MakeChange& make) {
    for (int i = 0; i < kWarmUp; ++i) core_.Push(Next(make));
    std::vector<std::string> requests;
    for (int i = 0; i < kCounted; ++i) requests.push_back(Next(make));
    CALLGRIND_ZERO_STATS;
    for (const std::string& request : requests) core_.Push(request);
    CALLGRIND_DUMP_STATS_AT(kind);
  }

  bench::Cluster& cluster() { return cluster_; }
  bool recreated() const { return core_.recreations() != recreations_; }

 private:
  std::string Next(const MakeChange& make) {
    position_ = (position_ + kStride) % static_cast<size_t>(cluster_.shape().services);
    v1::PushRequest request;
    request.mutable_batch()->set_number(++number_);
    for (v1::Change& message : make(position_).messages) {
      *request.mutable_batch()->add_changes() = std::move(message);
    }
    return request.SerializeAsString();
  }

  bench::Cluster cluster_;
  Core core_;
  const uint64_t recreations_;
  size_t position_ = 0;
  uint64_t number_ = 0;
};

// Makes the same change as ReplaceEndpoint, but as an endpoint delta.
bench::ClusterChange ReplaceByDelta(bench::Cluster& cluster, size_t position) {
  bench::ClusterChange change = cluster.ReplaceEndpoint(position);
  const v1::EndpointSlice slice = change.messages[0].endpoint_slice();
  v1::EndpointDelta& delta = *change.messages[0].mutable_endpoint_delta();
  delta.set_namespace_(slice.metadata().namespace_());
  delta.set_name(slice.metadata().name());
  delta.add_remove(change.before->endpoints[0].address.ip.ToString());
  *delta.add_upsert() = slice.endpoints(0);
  return change;
}

// Adds an external IP that no other Service uses.
bench::ClusterChange AddExternalIp(const bench::Cluster& cluster, size_t position, int number) {
  bench::ClusterChange change{.before = cluster.ports()[position],
                              .after = cluster.ports()[position]};
  change.after->external_ips = {*IpAddress::Parse(absl::StrCat("80.0.0.", number))};
  *change.messages.emplace_back().mutable_service() = ServiceMessage(*change.after);
  return change;
}

int CountChanges(const bench::ClusterShape& shape) {
  Counter counter(shape);
  bench::Cluster& cluster = counter.cluster();
  int externals = 0;
  counter.Count("endpoint replaced", [&](size_t at) { return cluster.ReplaceEndpoint(at); });
  counter.Count("the same by delta", [&](size_t at) { return ReplaceByDelta(cluster, at); });
  counter.Count("endpoint added", [&](size_t at) { return cluster.AddEndpoint(at); });
  counter.Count("endpoint removed", [&](size_t at) { return cluster.RemoveEndpoint(at); });
  counter.Count("Service added", [&](size_t) { return cluster.AddService(shape.endpoints); });
  counter.Count("Service removed", [&](size_t) { return cluster.RemoveLastService(); });
  counter.Count("Service changed",
                [&](size_t at) { return AddExternalIp(cluster, at, ++externals); });
  if (!counter.recreated()) return 0;
  std::fputs("the tables were written whole meanwhile: that is no single change\n", stderr);
  return 1;
}

using svcmap::testing::AService;
using svcmap::testing::ASlice;
using svcmap::testing::Objects;
using svcmap::testing::Protocol;

std::string Address(const std::string& first_byte, int number) {
  return absl::StrCat(first_byte, ".", number >> 16, ".", number >> 8 & 255, ".", number & 255);
}

AService Web() { return AService("shop/web").ClusterIp("10.96.0.10"); }

struct Case {
  Objects objects;  // Objects that are added in one batch and removed in one batch.
  Objects changed;  // A small change between the addition and the removal.
  std::vector<IpAddress> node_addresses = {*IpAddress::Parse("192.0.2.1")};
};

// Every slice has as many ports as a slice may have.
Objects WithPorts(int ports, const std::string& endpoint) {
  constexpr int kPerSlice = 100;
  AService service = Web();
  Objects objects;
  for (int first = 0; first < ports; first += kPerSlice) {
    ASlice slice = ASlice("shop/web").Named(absl::StrCat("web-", first)).Endpoint(endpoint);
    for (int i = first; i < first + kPerSlice; ++i) {
      const Protocol protocol = i % 2 == 0 ? Protocol::kTcp : Protocol::kUdp;
      service.Port(absl::StrCat("p", i), 1 + i, protocol);
      slice.Port(absl::StrCat("p", i), 1 + i, protocol);
    }
    objects.push_back(slice);
  }
  objects.push_back(service);
  return objects;
}

Case Ports(int n) { return {WithPorts(n, "10.244.0.1"), {WithPorts(n, "10.244.0.2")[0]}}; }

Case Slices(int n) {
  Case made{.objects = {Web().Port("", 80)}, .changed = {}};
  for (int i = 0; i < n; ++i) {
    const std::string name = absl::StrCat("web-", i);
    made.objects.push_back(
        ASlice("shop/web").Named(name).Endpoint(Address("10", i)).Port("", 8080));
  }
  made.changed = {ASlice("shop/web").Named("web-0").Endpoint(Address("11", 0)).Port("", 8080)};
  return made;
}

Case Endpoints(int n) {
  constexpr int kPerSlice = 1000;
  Case made{.objects = {Web().Port("", 80).ClientIpAffinity()}, .changed = {}};
  for (int i = 0; i < n; i += kPerSlice) {
    ASlice slice = ASlice("shop/web").Named(absl::StrCat("web-", i)).Port("", 8080);
    for (int j = i; j < i + kPerSlice; ++j) slice.Endpoint(Address("10", j));
    made.objects.push_back(slice);
  }
  made.changed = {ASlice("shop/web").Named("web-0").Endpoint("11.0.0.1").Port("", 8080)};
  return made;
}

Objects WithSourceRanges(int ranges, int first) {
  AService service = Web().Port("", 80).LoadBalancerIp("203.0.113.1");
  for (int i = 0; i < ranges; ++i) service.SourceRange(Address("10", 2 * i + first) + "/32");
  return {service, ASlice("shop/web").Endpoint("10.244.0.1").Port("", 8080)};
}

Case SourceRanges(int n) { return {WithSourceRanges(n, 0), {WithSourceRanges(n, 2)[0]}}; }

Objects WithAddresses(int addresses, const std::string& first_byte) {
  AService service = Web().ExternalPolicy("Local").Type("LoadBalancer");
  ASlice slice("shop/web");
  slice.Endpoint("10.244.0.1", bench::kThisNode);
  for (int i = 0; i < 4; ++i) {
    service.Port(absl::StrCat("p", i), 80 + i);
    slice.Port(absl::StrCat("p", i), 8080 + i);
  }
  for (int i = 0; i < addresses; ++i) {
    service.ExternalIp(Address(first_byte, i));
    service.LoadBalancerIp(Address("80", i));
  }
  return {service, slice};
}

Case Addresses(int n) { return {WithAddresses(n, "78"), {WithAddresses(n, "79")[0]}}; }

Case NodeAddresses(int n) {
  Case made{.objects = {Web().Port("", 80).NodePort(30080),
                        ASlice("shop/web").Endpoint("10.244.0.1").Port("", 8080)},
            .changed = {Web().Port("", 80).NodePort(30081)},
            .node_addresses = {}};
  for (int i = 0; i < n; ++i) made.node_addresses.push_back(*IpAddress::Parse(Address("172", i)));
  return made;
}

// Returns Services that all claim the same external address and nodePort.
Case Claims(int n) {
  Case made;
  for (int i = 0; i < n; ++i) {
    made.objects.push_back(AService(absl::StrCat("shop/web-", i))
                               .ClusterIp(Address("10", i))
                               .ExternalIp("203.0.113.1")
                               .Port("", 80)
                               .NodePort(30080)
                               .CreatedAt(n - i));
  }
  made.changed = {AService(absl::StrCat("shop/web-", n - 1))
                      .ClusterIp(Address("10", n - 1))
                      .Port("", 80)
                      .CreatedAt(1)};
  return made;
}

v1::ObjectRef RefOf(const v1::Object& object) {
  const v1::ObjectMeta& metadata =
      object.has_service() ? object.service().metadata() : object.endpoint_slice().metadata();
  const std::string name = absl::StrCat(metadata.namespace_(), "/", metadata.name());
  return object.has_service() ? svcmap::testing::ServiceRef(name) : svcmap::testing::SliceRef(name);
}

void Count(Core& core, const char* operation, const v1::Batch& batch) {
  const envelope::v1::Batch encoded = svcmap::testing::Encoded(batch);
  CALLGRIND_ZERO_STATS;
  const proxy::BatchResult result = core.Submit(proxy::Batch::Mark::kNone, encoded);
  CALLGRIND_DUMP_STATS_AT(operation);
  if (result.outcome == proxy::BatchResult::Outcome::kCommitted) return;
  std::fprintf(stderr, "%s: not committed: %s\n", operation, result.error.ToString().c_str());
  std::exit(1);
}

int CountScaling(const Case& given) {
  v1::Batch add, change, remove;
  for (const v1::Object& object : given.objects) {
    *add.add_changes() = svcmap::testing::Upsert(object);
    *remove.add_changes() = svcmap::testing::Removal(RefOf(object));
  }
  for (const v1::Object& object : given.changed) {
    *change.add_changes() = svcmap::testing::Upsert(object);
  }
  Core core(given.node_addresses);
  CALLGRIND_START_INSTRUMENTATION;
  Count(core, "add", add);
  Count(core, "change", change);
  Count(core, "remove", remove);
  return 0;
}

int Main(int argc, char** argv) {
  const std::map<std::string, std::function<Case(int)>> cases = {
      {"ports", Ports},         {"slices", Slices},
      {"endpoints", Endpoints}, {"source-ranges", SourceRanges},
      {"addresses", Addresses}, {"node-addresses", NodeAddresses},
      {"claims", Claims}};
  if (argc == 3 && cases.contains(argv[1])) {
    return CountScaling(cases.at(argv[1])(std::atoi(argv[2])));
  }
  const auto shape = bench::ParseShape(argc == 2 ? argv[1] : "");
  if (shape.ok()) return CountChanges(*shape);
  std::fputs("usage: svcmap-instructions SERVICESxENDPOINTS | DIMENSION N\n", stderr);
  return 2;
}

}  // namespace
}  // namespace svcmap::instructions

int main(int argc, char** argv) { return svcmap::instructions::Main(argc, argv); }
