// svcmap-bench-fleet: simulates many nodes of a fleet in one process. Each simulated node uses the
// client of svcmap-etcd with its own connection to a real etcd, and an agent that stores hashes of
// the objects instead of programming them. For comparison, the same number of plain watches
// receives equal objects and changes below a second prefix and ignores them.
#include <malloc.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/convert/fields.h"
#include "api/convert/kinds.h"
#include "api/etcd/client.h"
#include "svcmap/etcd/v3/etcd.grpc.pb.h"
#include "tests/bench/cluster/cluster.h"
#include "tests/bench/process_figures.h"
#include "tests/bench/program.h"
#include "tests/bench/record/statistics.h"
#include "tests/support/certificates.h"
#include "tests/support/etcd_server.h"
#include "tests/support/temporary_folder.h"

// The client of svcmap-etcd trims the heap before each watch. In this process, which contains the
// heaps of all nodes, this would take longer than everything that is measured.
extern "C" int malloc_trim(size_t) noexcept { return 0; }

namespace svcmap::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kPlainPrefix[] = "/svcmap/v1/plain";
constexpr size_t kChangesPerTransaction = 120;

// The nodes read the head if they do not receive a new head for 30 s.
constexpr std::chrono::seconds kHeartbeat{20};

struct Options {
  int nodes = 100;
  ClusterShape shape{.services = 1000, .endpoints = 10};
  int changes = 50;
  int behind = 100;
  int time_limit = 600;
  bool tls = false;
  bool lose_change = false;
  bool log = false;
};

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// The hashes of a set of objects, and a digest that equal sets have in common.
class ObjectSet {
 public:
  void Apply(const std::string& bytes) {
    v1::Change change;
    if (!change.ParseFromString(bytes)) Fail("a change cannot be decoded");
    std::string key;
    if (change.has_remove()) {
      const v1::ObjectRef& ref = change.remove();
      key = absl::StrCat(ref.kind(), "/", ref.namespace_(), "/", ref.name());
    } else {
      const v1::ObjectMeta& metadata = *api::FindMetadata(change);
      key = absl::StrCat(api::FindKindOfField(change.change_case())->proto, "/",
                         metadata.namespace_(), "/", metadata.name());
    }
    const uint64_t hash = change.has_remove() ? 0 : std::hash<std::string>()(bytes);
    digest_ += hash - std::exchange(hashes_[key], hash);
  }
  uint64_t digest() const { return digest_; }

 private:
  std::unordered_map<std::string, uint64_t> hashes_;
  uint64_t digest_ = 0;
};

// The position that a node has acknowledged, and when. Thread-safe.
class Progress {
 public:
  uint64_t position() const { return position_; }
  Clock::time_point reached() const { return reached_; }

 protected:
  void Reach(uint64_t position) {
    reached_ = Clock::now();
    position_ = position;
  }

 private:
  std::atomic<Clock::time_point> reached_{};
  std::atomic<uint64_t> position_{0};
};

// Positions are sequence numbers in the head.
class Node : public Progress {
 public:
  // With `loses_change`, the agent ignores the first change after the initial list.
  Node(etcd::EtcdOptions options, bool loses_change)
      : loses_change_(loses_change),
        client_(etcd::Client::Start(std::move(options), mirror_)),
        agent_([this] { Acknowledge(); }) {}
  ~Node() {
    mirror_.End();
    agent_.join();
  }

  etcd::FollowerFacts facts() const { return client_->facts(); }
  // Must not be called while changes arrive.
  uint64_t digest() const { return objects_.digest(); }

 private:
  void Acknowledge() {
    for (;;) {
      const etcd::Mirror::Wake wake = mirror_.Wait(Clock::now() + std::chrono::hours(1));
      if (wake == etcd::Mirror::Wake::kEnded) return;
      if (wake == etcd::Mirror::Wake::kSnapshot) {
        mirror_.StartSnapshot();
        objects_ = {};
      }
      for (const std::string& change : mirror_.TakeChanges(1 << 20, 1 << 24)) {
        if (position() == 0 || !std::exchange(loses_change_, false)) objects_.Apply(change);
      }
      if (const auto sent = mirror_.SentPosition()) Reach(*sent);
    }
  }

  bool loses_change_;
  ObjectSet objects_;
  etcd::Mirror mirror_;
  const std::unique_ptr<etcd::Client> client_;
  std::thread agent_;
};

// Lists a prefix and watches it, with the pages and the connection of svcmap-etcd. Positions are
// revisions. Destroy a PlainNode only while it watches.
class PlainNode : public Progress {
 public:
  // Waits until `gate` is true before each connection.
  PlainNode(fleet::EtcdServers servers, const std::atomic<bool>& gate)
      : gate_(gate), connection_(std::move(servers)), thread_([this] { Run(); }) {}
  ~PlainNode() {
    stop_ = true;
    context_->TryCancel();
    thread_.join();
  }

  bool connected() const { return connected_; }
  // Failures while `gate` was true.
  int failures() const { return failures_; }

 private:
  void Run() {
    while (!stop_) {
      gate_.wait(false);
      connected_ = true;
      Need(connection_.Connect());
      const absl::Status end = position() == 0 ? List() : Watch();
      if (!end.ok() && gate_ && !stop_) ++failures_;
      if (!end.ok()) connection_.Drop();
      connected_ = false;
    }
  }

  absl::Status List() {
    std::string key = absl::StrCat(kPlainPrefix, "/state/");
    for (int64_t revision = 0;;) {
      etcdserverpb::TxnRequest read;
      etcdserverpb::RangeRequest& range = *read.add_success()->mutable_request_range();
      range.set_key(key);
      range.set_range_end(absl::StrCat(kPlainPrefix, "/state0"));
      range.set_limit(etcd::FollowerOptions().page_size);
      range.set_revision(revision);
      grpc::ClientContext context;
      context.set_wait_for_ready(true);
      const auto page = connection_.Txn(read, std::chrono::minutes(10), context);
      if (!page.ok()) return page.status();
      if (revision == 0) revision = page->header().revision();
      const auto& response = page->responses(0).response_range();
      if (!response.more()) {
        Reach(static_cast<uint64_t>(revision));
        return absl::OkStatus();
      }
      key = response.kvs().rbegin()->key() + std::string(1, '\0');
    }
  }

  // Always returns an error.
  absl::Status Watch() {
    context_ = std::make_unique<grpc::ClientContext>();
    context_->set_wait_for_ready(true);
    const auto stub = etcdserverpb::Watch::NewStub(connection_.channel());
    const auto stream = stub->Watch(context_.get());
    etcdserverpb::WatchRequest request;
    etcdserverpb::WatchCreateRequest& create = *request.mutable_create_request();
    create.set_key(absl::StrCat(kPlainPrefix, "/state/"));
    create.set_range_end(absl::StrCat(kPlainPrefix, "/state0"));
    create.set_start_revision(static_cast<int64_t>(position()) + 1);
    stream->Write(request);
    etcdserverpb::WatchResponse response;
    while (stream->Read(&response)) {
      if (response.events().empty()) continue;
      Reach(static_cast<uint64_t>(response.events().rbegin()->kv().mod_revision()));
    }
    const grpc::Status end = stream->Finish();
    return absl::UnavailableError(end.error_message());
  }

  const std::atomic<bool>& gate_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> connected_{false};
  std::atomic<int> failures_{0};
  fleet::EtcdConnection connection_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::thread thread_;
};

// Resources that were used during a part of the run.
struct Usage {
  double seconds = 0, etcd_cpu = 0, own_cpu = 0, megabytes = 0;
  double etcd_before_mb = 0, etcd_peak_mb = 0;
};

struct Results {
  Usage cold, changes, back;
  // Milliseconds since the write was sent, for each change.
  std::vector<double> answered, p50, p99, last;
};

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        netns_(Need(testing::NetNs::Create())),
        folder_(Need(testing::TemporaryFolder::Make())),
        cluster_(options.shape) {
    Need(netns_.Enter());  // Threads and sockets of gRPC stay in this namespace.
    servers_.endpoints = {
        Need(fleet::ParseEndpoint(absl::StrCat("http://127.0.0.1:", testing::kEtcdPort)))};
    etcd_ = Need(testing::EtcdServer::Start(netns_, folder_.path(), TlsFlags()));
    for (const char* prefix : {testing::kEtcdPrefix, kPlainPrefix}) {
      writers_.push_back(std::make_unique<testing::EtcdWriter>(etcd_->socket(), 1, prefix));
    }
    testing::Objects part;
    const std::vector<v1::Change> all = AllMessages(cluster_);
    for (const v1::Change& change : all) {
      part.push_back(ObjectOf(change));
      expected_.Apply(api::Serialize(change));
      if (part.size() < kChangesPerTransaction && &change != &all.back()) continue;
      for (const auto& writer : writers_) Need(writer->Put(part));
      part.clear();
    }
  }

  int Run() {
    Results plain, ours;
    gate_ = true;
    plain.cold = ColdStart(plain_, [&] { return std::make_unique<PlainNode>(servers_, gate_); });
    ours.cold = ColdStart(nodes_, [&] {
      etcd::EtcdOptions options{servers_, {.prefix = testing::kEtcdPrefix}};
      options.follower.node_name = absl::StrCat("n", nodes_.size());
      // The value that docs/fleet.md recommends.
      options.follower.list_delay = std::chrono::milliseconds(50 * options_.nodes);
      return std::make_unique<Node>(std::move(options), options_.lose_change && nodes_.empty());
    });
    std::printf("change  plain watch: write answered, p50 p99 last; svcmap-etcd: the same (ms)\n");
    for (int i = 0; i < options_.changes; ++i) {
      const testing::Objects change = NextChange();
      Measure(change, Plain(), plain_, plain);
      Measure(change, Ours(), nodes_, ours);
      std::printf("%5d  %.1f  %.1f %.1f %.1f    %.1f  %.1f %.1f %.1f\n", i + 1,
                  plain.answered.back(), plain.p50.back(), plain.p99.back(), plain.last.back(),
                  ours.answered.back(), ours.p50.back(), ours.p99.back(), ours.last.back());
    }
    Disconnect();
    ours.back = Return(nodes_, Ours(), [&] { SetLoopback("up"); });
    plain.back = Return(plain_, Plain(), [&] {
      gate_ = true;
      gate_.notify_all();
    });
    Print(plain, ours);
    return Verify();
  }

 private:
  using Writer = testing::EtcdWriter;
  Writer& Ours() { return *writers_[0]; }
  Writer& Plain() { return *writers_[1]; }
  uint64_t Position(const Writer& writer) const {
    return &writer == writers_[0].get() ? writer.seq() : static_cast<uint64_t>(writer.revision());
  }

  std::vector<std::string> TlsFlags() {
    if (!options_.tls) return {};
    const testing::CertificateAuthority ca("fleet");
    const auto write = [&](const std::string& name, const std::string& text) {
      const std::string path = folder_.path() + "/" + name;
      std::ofstream(path) << text;
      return path;
    };
    const testing::KeyPair server = ca.Issue("etcd", "IP:127.0.0.1");
    const testing::KeyPair client = ca.Issue("node", "DNS:node");
    servers_.tls = {.certificate = write("client.crt", client.certificate),
                    .key = write("client.key", client.key),
                    .ca = write("ca.crt", ca.certificate())};
    return {"--cert-file=" + write("server.crt", server.certificate),
            "--key-file=" + write("server.key", server.key), "--trusted-ca-file=" + servers_.tls.ca,
            "--client-cert-auth"};
  }

  static v1::Object ObjectOf(const v1::Change& change) {
    v1::Object object;
    if (change.has_service()) *object.mutable_service() = change.service();
    if (change.has_endpoint_slice()) *object.mutable_endpoint_slice() = change.endpoint_slice();
    return object;
  }

  // Replaces an endpoint of the next Service.
  testing::Objects NextChange() {
    const auto messages = cluster_.ReplaceEndpoint(change_++ % cluster_.ports().size()).messages;
    testing::Objects objects;
    for (const v1::Change& change : messages) {
      expected_.Apply(api::Serialize(change));
      objects.push_back(ObjectOf(change));
    }
    return objects;
  }

  Usage Now() const {
    Usage usage;
    usage.seconds = Seconds(Clock::now().time_since_epoch());
    usage.etcd_cpu = CpuSecondsOf(etcd_->pid());
    usage.own_cpu = CpuSecondsOf(getpid());
    std::ifstream file("/proc/thread-self/net/dev");
    std::string word;
    for (double bytes = 0; file >> word;) {
      if (word == "lo:" && file >> bytes) usage.megabytes = bytes / 1e6;
    }
    usage.etcd_before_mb = static_cast<double>(MemoryOf(etcd_->pid()).rss_kib) / 1024;
    return usage;
  }

  Usage Start() const {
    // Resets VmHWM.
    std::ofstream(absl::StrCat("/proc/", etcd_->pid(), "/clear_refs")) << "5" << std::flush;
    return Now();
  }

  Usage Since(const Usage& start) const {
    Usage usage = Now();
    usage.seconds -= start.seconds;
    usage.etcd_cpu -= start.etcd_cpu;
    usage.own_cpu -= start.own_cpu;
    usage.megabytes -= start.megabytes;
    usage.etcd_before_mb = start.etcd_before_mb;
    usage.etcd_peak_mb = static_cast<double>(MemoryOf(etcd_->pid()).peak_kib) / 1024;
    return usage;
  }

  // Writes the head every 20 s meanwhile.
  template <typename Condition>
  void Await(const std::string& what, const Condition& condition) {
    const auto end = Clock::now() + std::chrono::seconds(options_.time_limit);
    auto heartbeat = Clock::now() + kHeartbeat;
    while (!condition()) {
      if (Clock::now() > end) {
        std::string error;
        for (const auto& node : nodes_) error = std::max(error, node->facts().last_error);
        Fail("in vain waited for " + what + "; last error: " + error);
      }
      if (Clock::now() > heartbeat) {
        Need(Ours().Write({}));
        heartbeat = Clock::now() + kHeartbeat;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  template <typename Nodes>
  void AwaitAll(const Nodes& nodes, uint64_t position) {
    size_t reached = 0;
    Await(absl::StrCat("all nodes to acknowledge position ", position), [&] {
      while (reached < nodes.size() && nodes[reached]->position() >= position) ++reached;
      return reached == nodes.size();
    });
  }

  template <typename Nodes, typename New>
  Usage ColdStart(Nodes& nodes, const New& make) {
    const Usage start = Start();
    const uint64_t position =
        Position(static_cast<const void*>(&nodes) == &nodes_ ? Ours() : Plain());
    for (int i = 0; i < options_.nodes; ++i) nodes.push_back(make());
    AwaitAll(nodes, position);
    return Since(start);
  }

  // Writes a change and measures when the nodes acknowledge it. The time begins when the write is
  // sent, because with many nodes, most of them receive the change before the writer receives the
  // answer.
  template <typename Nodes>
  void Measure(const testing::Objects& change, Writer& writer, const Nodes& nodes,
               Results& results) {
    const Usage start = Start();
    const auto sent = Clock::now();
    Need(writer.Put(change));
    results.answered.push_back(Milliseconds(Clock::now() - sent));
    AwaitAll(nodes, Position(writer));
    const Usage usage = Since(start);
    results.changes.etcd_cpu += usage.etcd_cpu / options_.changes;
    results.changes.own_cpu += usage.own_cpu / options_.changes;
    results.changes.megabytes += usage.megabytes / options_.changes;
    std::vector<double> delays;
    for (const auto& node : nodes) delays.push_back(Milliseconds(node->reached() - sent));
    results.p50.push_back(Percentile(delays, 0.5));
    results.p99.push_back(Percentile(delays, 0.99));
    results.last.push_back(Percentile(delays, 1));
  }

  void SetLoopback(const std::string& state) {
    Need(testing::RunOk({.argv = {"ip", "link", "set", "lo", state}, .netns = &netns_}).status());
  }

  // Interrupts all connections, waits until all nodes have noticed it, and writes changes.
  void Disconnect() {
    std::vector<uint64_t> failures;
    for (const auto& node : nodes_) failures.push_back(node->facts().failures);
    gate_ = false;
    SetLoopback("down");
    size_t noticed = 0;
    Await("all nodes to notice that the network is down", [&] {
      while (noticed < nodes_.size() && nodes_[noticed]->facts().failures > failures[noticed] &&
             !plain_[noticed]->connected()) {
        ++noticed;
      }
      return noticed == nodes_.size();
    });
    for (int i = 0; i < options_.behind; ++i) {
      const testing::Objects change = NextChange();
      for (const auto& writer : writers_) Need(writer->Put(change));
    }
  }

  template <typename Nodes, typename Connect>
  Usage Return(const Nodes& nodes, const Writer& writer, const Connect& connect) {
    const uint64_t position = Position(writer);
    const Usage start = Start();
    connect();
    AwaitAll(nodes, position);
    return Since(start);
  }

  static void Row(const char* name, double plain, double ours) {
    std::printf("| %s | %.1f | %.1f | %.2f |\n", name, plain, ours, plain > 0 ? ours / plain : 0);
  }

  void Print(const Results& plain, const Results& ours) const {
    std::printf("\n%d nodes, %s, %s, %d changes, %d behind\n\n", options_.nodes,
                ShapeText(options_.shape).c_str(), options_.tls ? "TLS" : "no TLS",
                options_.changes, options_.behind);
    std::printf("| | plain watch | svcmap-etcd | ratio |\n| --- | ---: | ---: | ---: |\n");
    const auto median = [](const char* name, const auto& a, const auto& b) {
      Row(name, Median(a), Median(b));
    };
    median("change: write answered, ms", plain.answered, ours.answered);
    median("change: p50, ms", plain.p50, ours.p50);
    median("change: p99, ms", plain.p99, ours.p99);
    median("change: last node, ms", plain.last, ours.last);
    Row("change: CPU of etcd, ms", 1000 * plain.changes.etcd_cpu, 1000 * ours.changes.etcd_cpu);
    Row("change: CPU of all nodes, ms", 1000 * plain.changes.own_cpu, 1000 * ours.changes.own_cpu);
    Row("change: bytes per node", 1e6 * plain.changes.megabytes / options_.nodes,
        1e6 * ours.changes.megabytes / options_.nodes);
    const auto phase = [](const std::string& name, const Usage& a, const Usage& b) {
      Row((name + ": seconds").c_str(), a.seconds, b.seconds);
      Row((name + ": MB").c_str(), a.megabytes, b.megabytes);
      Row((name + ": CPU of etcd, s").c_str(), a.etcd_cpu, b.etcd_cpu);
      Row((name + ": CPU of all nodes, s").c_str(), a.own_cpu, b.own_cpu);
      Row((name + ": RSS of etcd before, MiB").c_str(), a.etcd_before_mb, b.etcd_before_mb);
      Row((name + ": peak RSS of etcd, MiB").c_str(), a.etcd_peak_mb, b.etcd_peak_mb);
    };
    phase("cold start", plain.cold, ours.cold);
    phase("return", plain.back, ours.back);
  }

  // Compares the objects of each node with the objects that were written.
  int Verify() const {
    std::string wrong;
    int count = 0;
    int plain_failures = 0;
    for (const auto& node : plain_) plain_failures += node->failures();
    etcd::FollowerFacts sum;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const etcd::FollowerFacts facts = nodes_[i]->facts();
      sum.lists += facts.lists;
      sum.watches += facts.watches;
      sum.failures += facts.failures;
      sum.gaps += facts.gaps;
      sum.silences += facts.silences;
      if (nodes_[i]->digest() == expected_.digest() && facts.rejected_keys == 0) continue;
      if (++count <= 3) absl::StrAppend(&wrong, " n", i);
    }
    std::printf("\nfailed plain watches and lists %d\n", plain_failures);
    std::printf("lists %lu, watches %lu, failed requests %lu, gaps %lu, silences %lu\n", sum.lists,
                sum.watches, sum.failures, sum.gaps, sum.silences);
    if (count > 0) {
      std::printf("objects differ from the written objects on %d of %d nodes, for example%s\n",
                  count, options_.nodes, wrong.c_str());
      return 1;
    }
    std::printf("all %d nodes have the written objects\n", options_.nodes);
    return 0;
  }

  const Options options_;
  testing::NetNs netns_;
  testing::TemporaryFolder folder_;
  Cluster cluster_;
  size_t change_ = 0;
  ObjectSet expected_;
  fleet::EtcdServers servers_;
  std::unique_ptr<testing::EtcdServer> etcd_;
  std::vector<std::unique_ptr<Writer>> writers_;
  std::atomic<bool> gate_{false};  // Whether plain watches may connect.
  std::vector<std::unique_ptr<PlainNode>> plain_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("svcmap-bench-fleet simulates the nodes of a fleet on etcd.");
  app.add_option("--nodes", options.nodes)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--services", options.shape.services)->capture_default_str();
  app.add_option("--endpoints", options.shape.endpoints, "Endpoints of each Service")
      ->capture_default_str();
  app.add_option("--changes", options.changes, "Measured changes")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--behind", options.behind, "Changes while all nodes are disconnected")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--time-limit", options.time_limit, "Seconds for each step")
      ->capture_default_str();
  app.add_flag("--tls", options.tls, "Mutual TLS between nodes and etcd");
  app.add_flag("--lose-change", options.lose_change,
               "The agent of the first node ignores a change, so that the final check must fail");
  app.add_flag("--log", options.log, "Print the warnings of the nodes");
  CLI11_PARSE(app, argc, argv);
  spdlog::set_level(options.log ? spdlog::level::warn : spdlog::level::off);
  return Bench(options).Run();
}

}  // namespace
}  // namespace svcmap::bench

int main(int argc, char** argv) { return svcmap::bench::Main(argc, argv); }
