// svcmap-bench-fleet: simulates many nodes of a fleet in one process. Each simulated node uses the
// client of svcmap-etcd with its own connection to a real etcd, and an agent that stores hashes of
// the objects instead of programming them. For comparison, plain watches receive equal objects and
// changes below a second prefix and ignore them. With --floor, the same number of streams also
// receives the same bytes from a server that does nothing but write them to all streams.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <malloc.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <future>
#include <list>
#include <mutex>
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
#include "tests/support/agent.h"
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
constexpr char kFloorAddress[] = "127.0.0.1:2374";
constexpr char kSend[] = "/floor/Send";
constexpr size_t kChangesPerTransaction = 120;
constexpr int kHungTransactions = 50;  // Events of about 3 MB for each watch.

// The nodes read the head if they do not receive a new head for 30 s.
constexpr std::chrono::seconds kHeartbeat{20};

struct Options {
  int nodes = 100;
  int plain = -1;  // -1: as many as `nodes`.
  int real = 0;
  int hung = 0;
  ClusterShape shape{.services = 1000, .endpoints = 10};
  int changes = 50;
  int behind = 100;
  int behind_objects = 1;
  int time_limit = 600;
  bool tls = false;
  bool watch_only = false;
  bool floor = false;
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
  // Waits until `gate` is true before each connection. If `first` is not 0, watches from this
  // revision without a list.
  PlainNode(fleet::EtcdServers servers, const std::atomic<bool>& gate, uint64_t first)
      : gate_(gate), first_(first), connection_(std::move(servers)), thread_([this] { Run(); }) {}
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
      const absl::Status end = position() == 0 && first_ == 0 ? List() : Watch();
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
    create.set_start_revision(static_cast<int64_t>(std::max(position(), first_)) + 1);
    stream->Write(request);
    etcdserverpb::WatchResponse response;
    while (stream->Read(&response)) {
      if (response.created() && position() == 0) Reach(first_);
      if (response.events().empty()) continue;
      Reach(static_cast<uint64_t>(response.events().rbegin()->kv().mod_revision()));
    }
    const grpc::Status end = stream->Finish();
    return absl::UnavailableError(end.error_message());
  }

  const std::atomic<bool>& gate_;
  const uint64_t first_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> connected_{false};
  std::atomic<int> failures_{0};
  fleet::EtcdConnection connection_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::thread thread_;
};

// A watch that never reads.
class HungWatch {
 public:
  explicit HungWatch(fleet::EtcdServers servers) : connection_(std::move(servers)) {
    Need(connection_.Connect());
    context_.set_wait_for_ready(true);
    stream_ = etcdserverpb::Watch::NewStub(connection_.channel())->Watch(&context_);
    etcdserverpb::WatchRequest request;
    request.mutable_create_request()->set_key(absl::StrCat(kPlainPrefix, "/state/"));
    request.mutable_create_request()->set_range_end(absl::StrCat(kPlainPrefix, "/state0"));
    if (!stream_->Write(request)) Fail("a watch that never reads cannot be created");
  }
  ~HungWatch() {
    context_.TryCancel();
    stream_->Finish();
  }

 private:
  fleet::EtcdConnection connection_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<etcdserverpb::WatchRequest, etcdserverpb::WatchResponse>>
      stream_;
};

// The server of --floor: writes the message of each call of kSend to all streams of etcd's Watch
// method.
// Streams exist until the process ends.
class Floor : public grpc::CallbackGenericService {
 public:
  // Runs the server until the process ends. Without a certificate, the server does not use TLS.
  static int Run(const std::string& certificate, const std::string& key, const std::string& ca) {
    std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
    if (!certificate.empty()) {
      const api::TlsMaterial tls = Need(api::ReadTlsFiles({certificate, key, ca}));
      grpc::SslServerCredentialsOptions options(
          GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
      options.pem_root_certs = tls.ca;
      options.pem_key_cert_pairs.push_back({tls.key, tls.certificate});
      credentials = grpc::SslServerCredentials(options);
    }
    Floor floor;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(kFloorAddress, credentials).RegisterCallbackGenericService(&floor);
    const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    if (server == nullptr) Fail(absl::StrCat("cannot listen on ", kFloorAddress));
    std::printf("ready\n");
    std::fflush(stdout);
    server->Wait();
    return 0;
  }

 private:
  class Stream : public grpc::ServerGenericBidiReactor {
   public:
    Stream(Floor& floor, bool sends) : floor_(floor), sends_(sends) { StartRead(&request_); }

   private:
    void OnReadDone(bool ok) override {
      if (!ok) return;
      if (sends_) {
        floor_.Broadcast(request_);
        return StartWriteAndFinish(&floor_.created_, {}, grpc::Status::OK);
      }
      {
        const std::lock_guard lock(floor_.mutex_);
        floor_.streams_.push_back(this);
      }
      StartWrite(&floor_.created_);
    }
    void OnDone() override {}

    Floor& floor_;
    const bool sends_;
    grpc::ByteBuffer request_;
  };

  Floor() {
    etcdserverpb::WatchResponse created;
    created.set_created(true);
    created_ = Buffer(created.SerializeAsString());
  }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Stream(*this, context->method() == kSend);
  }

  // The caller waits until all streams have received the previous message.
  void Broadcast(const grpc::ByteBuffer& message) {
    message_ = message;
    std::vector<Stream*> streams;
    {
      const std::lock_guard lock(mutex_);
      streams = streams_;
    }
    for (Stream* stream : streams) stream->StartWrite(&message_);
  }

 public:
  static grpc::ByteBuffer Buffer(const std::string& bytes) {
    const grpc::Slice slice(bytes);
    return {&slice, 1};
  }

 private:
  grpc::ByteBuffer created_, message_;
  std::mutex mutex_;
  std::vector<Stream*> streams_;  // Guarded by mutex_.
};

// Runs svcmapd in its own namespace, and svcmap-etcd.
class RealNode {
 public:
  RealNode(const fleet::EtcdServers& servers, const testing::NetNs& etcd, const std::string& folder)
      : netns_(Need(testing::NetNs::Create())) {
    const std::string address = "unix://" + folder + "/svcmapd.sock";
    agent_ = Need(testing::Agent::Start(
        netns_, {"--listen", address, "--healthz-bind-address=", "--metrics-bind-address="}));
    std::vector<std::string> argv = {SVCMAP_BIN_DIR "/svcmap-etcd",
                                     "--prefix",
                                     testing::kEtcdPrefix,
                                     "--agent",
                                     address,
                                     "--node-name",
                                     testing::kAgentNode};
    const bool tls = !servers.tls.ca.empty();
    argv.push_back(absl::StrCat("--etcd-endpoints=", tls ? "https" : "http",
                                "://127.0.0.1:", testing::kEtcdPort));
    if (tls) {
      argv.insert(argv.end(), {"--etcd-ca", servers.tls.ca, "--etcd-cert", servers.tls.certificate,
                               "--etcd-key", servers.tls.key});
    }
    source_ = Need(testing::ChildProcess::Start({.argv = std::move(argv), .netns = &etcd}));
  }

  // Returns the digest of the objects in svcmapd.
  uint64_t Digest() {
    ObjectSet objects;
    for (const v1::Object& object : Need(agent_->List()))
      objects.Apply(api::Serialize(ChangeOf(object)));
    return objects.digest();
  }
  bool CheckServing() { return agent_->CheckServing().ok(); }

 private:
  static v1::Change ChangeOf(const v1::Object& object) {
    v1::Change change;
    if (object.has_service()) *change.mutable_service() = object.service();
    if (object.has_endpoint_slice()) *change.mutable_endpoint_slice() = object.endpoint_slice();
    return change;
  }

  testing::NetNs netns_;
  std::unique_ptr<testing::Agent> agent_;
  std::unique_ptr<testing::ChildProcess> source_;
};

// Resources that were used during a part of the run.
struct Usage {
  double seconds = 0, etcd_cpu = 0, own_cpu = 0, megabytes = 0;  // etcd_cpu is that of server_.
  double etcd_before_mb = 0, etcd_peak_mb = 0;
};

struct Results {
  Usage cold, changes, back;
  // Milliseconds since the write was sent, for each change.
  std::vector<double> answered, p50, p99, last;
  double rss_mb = 0;  // RSS of server_ after the changes.
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
    server_ = etcd_->pid();
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
    const uint64_t first = options_.watch_only ? Position(Plain()) : 0;
    plain.cold = ColdStart(plain_, options_.plain, Plain(),
                           [&] { return std::make_unique<PlainNode>(servers_, gate_, first); });
    ours.cold = ColdStart(nodes_, options_.nodes, Ours(), [&] {
      etcd::EtcdOptions options{servers_, {.prefix = testing::kEtcdPrefix}};
      options.follower.node_name = absl::StrCat("n", nodes_.size());
      // The value that docs/fleet.md recommends.
      options.follower.list_delay = std::chrono::milliseconds(50 * options_.nodes);
      return std::make_unique<Node>(std::move(options), options_.lose_change && nodes_.empty());
    });
    uint64_t failures = 0;
    for (const auto& node : nodes_) failures += node->facts().failures;
    std::printf("cold start: %.1f s, failed requests and connections %lu\n", ours.cold.seconds,
                failures);
    for (int i = 0; i < options_.real; ++i) StartRealNode(i);
    MeasureChanges(plain, ours);
    const double idle_mb = Now().etcd_before_mb;
    std::printf("memory of etcd with idle watches: %.0f MiB\n", idle_mb);
    if (options_.hung > 0) MeasureWithHungWatches(plain, ours);
    if (options_.behind > 0) {
      Disconnect();
      ours.back = Return(nodes_, Ours(), [&] { SetLoopback("up"); });
      plain.back = Return(plain_, Plain(), [&] {
        gate_ = true;
        gate_.notify_all();
      });
    }
    Print(plain, ours);
    const int code = Verify();
    if (options_.floor) MeasureFloor(plain);
    return code;
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

  void StartRealNode(int i) {
    const std::string folder = absl::StrCat(folder_.path(), "/real-", i);
    if (mkdir(folder.c_str(), 0700) != 0) Fail("mkdir " + folder);
    real_.push_back(std::make_unique<RealNode>(servers_, netns_, folder));
  }

  void MeasureChanges(Results& plain, Results& ours) {
    std::printf("change  plain watch: write answered, p50 p99 last; svcmap-etcd: the same (ms)\n");
    for (int i = 0; i < options_.changes; ++i) {
      const testing::Objects change = NextChange();
      Measure([&] { return Put(Plain(), change); }, plain_, plain);
      Measure([&] { return Put(Ours(), change); }, nodes_, ours);
      std::printf("%5d  %.1f  %.1f %.1f %.1f    %.1f  %.1f %.1f %.1f\n", i + 1,
                  plain.answered.back(), plain.p50.back(), plain.p99.back(), plain.last.back(),
                  ours.answered.back(), ours.p50.back(), ours.p99.back(), ours.last.back());
    }
  }

  // First writes more bytes than flow control permits on a connection that is not read.
  void MeasureWithHungWatches(const Results& plain, const Results& ours) {
    const double before_mb = Now().etcd_before_mb;
    std::list<HungWatch> hung;
    for (int i = 0; i < options_.hung; ++i) hung.emplace_back(servers_);
    for (int i = 0; i < kHungTransactions; ++i) WriteBehind(kChangesPerTransaction);
    AwaitAll(plain_, Position(Plain()));
    AwaitAll(nodes_, Position(Ours()));
    Results hung_plain, hung_ours;
    MeasureChanges(hung_plain, hung_ours);
    std::printf(
        "\n| %d watches that never read | before | with them | ratio |\n| --- | ---: | ---: | ---: "
        "|\n",
        options_.hung);
    Row("plain watch: p50, ms", Median(plain.p50), Median(hung_plain.p50));
    Row("plain watch: p99, ms", Median(plain.p99), Median(hung_plain.p99));
    Row("svcmap-etcd: p50, ms", Median(ours.p50), Median(hung_ours.p50));
    Row("svcmap-etcd: p99, ms", Median(ours.p99), Median(hung_ours.p99));
    Row("RSS of etcd, MiB", before_mb, Now().etcd_before_mb);
  }

  // Replaces the plain watches by streams from the server of --floor.
  void MeasureFloor(const Results& plain) {
    plain_.clear();
    std::vector<std::string> argv = {"/proc/self/exe", "floor", "", "", ""};
    if (options_.tls) {
      const std::string server = folder_.path() + "/server";
      argv = {"/proc/self/exe", "floor", server + ".crt", server + ".key", servers_.tls.ca};
    }
    const auto process =
        Need(testing::ChildProcess::Start({.argv = std::move(argv), .netns = &netns_}));
    if (!process->WaitForOutput("ready", testing::kHangLimit)) Fail("floor: " + process->err());
    server_ = process->pid();
    fleet::EtcdServers servers = servers_;
    servers.endpoints = {Need(fleet::ParseEndpoint(absl::StrCat("http://", kFloorAddress)))};
    fleet::EtcdConnection connection(servers);
    Need(connection.Connect());
    grpc::GenericStub stub(connection.channel());
    Results floor;
    uint64_t position = 1;
    floor.cold = ColdStart(plain_, options_.plain, position,
                           [&] { return std::make_unique<PlainNode>(servers, gate_, 1); });
    for (int i = 0; i < options_.changes; ++i) {
      const grpc::ByteBuffer message = Floor::Buffer(WatchResponseOf(NextChange(), ++position));
      Measure(
          [&] {
            grpc::ClientContext context;
            context.set_wait_for_ready(true);
            grpc::ByteBuffer answer;
            std::promise<grpc::Status> end;
            stub.UnaryCall(&context, kSend, {}, &message, &answer,
                           [&end](grpc::Status status) { end.set_value(std::move(status)); });
            if (const grpc::Status status = end.get_future().get(); !status.ok()) {
              Fail("floor: " + status.error_message());
            }
            return position;
          },
          plain_, floor);
    }
    std::printf("\n| %d streams | floor | plain watch | ratio |\n| --- | ---: | ---: | ---: |\n",
                options_.plain);
    Rows(floor, plain, options_.plain);
    Row("RSS, MiB", Now().etcd_before_mb, plain.rss_mb);
  }

  // The bytes that etcd writes to a watch of all objects.
  static std::string WatchResponseOf(const testing::Objects& objects, uint64_t revision) {
    etcdserverpb::WatchResponse response;
    response.set_watch_id(0);
    response.mutable_header()->set_revision(static_cast<int64_t>(revision));
    const auto add = [&](const std::string& key, const std::string& value) {
      auto& kv = *response.add_events()->mutable_kv();
      kv.set_key(kPlainPrefix + key);
      kv.set_value(value);
      kv.set_mod_revision(static_cast<int64_t>(revision));
    };
    for (const v1::Object& object : objects)
      add(testing::EtcdKey(object), testing::EtcdValue(object));
    add("/state/head", R"({"format":1,"seq":10000,"epoch":1,"nonce":"12345678901234567890"})");
    return response.SerializeAsString();
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
    usage.etcd_cpu = CpuSecondsOf(server_);
    usage.own_cpu = CpuSecondsOf(getpid());
    std::ifstream file("/proc/thread-self/net/dev");
    std::string word;
    for (double bytes = 0; file >> word;) {
      if (word == "lo:" && file >> bytes) usage.megabytes = bytes / 1e6;
    }
    usage.etcd_before_mb = static_cast<double>(MemoryOf(server_).rss_kib) / 1024;
    return usage;
  }

  Usage Start() const {
    // Resets VmHWM.
    std::ofstream(absl::StrCat("/proc/", server_, "/clear_refs")) << "5" << std::flush;
    return Now();
  }

  Usage Since(const Usage& start) const {
    Usage usage = Now();
    usage.seconds -= start.seconds;
    usage.etcd_cpu -= start.etcd_cpu;
    usage.own_cpu -= start.own_cpu;
    usage.megabytes -= start.megabytes;
    usage.etcd_before_mb = start.etcd_before_mb;
    usage.etcd_peak_mb = static_cast<double>(MemoryOf(server_).peak_kib) / 1024;
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
  Usage ColdStart(Nodes& nodes, int count, const Writer& writer, const New& make) {
    return ColdStart(nodes, count, Position(writer), make);
  }
  template <typename Nodes, typename New>
  Usage ColdStart(Nodes& nodes, int count, uint64_t position, const New& make) {
    const Usage start = Start();
    for (int i = 0; i < count; ++i) nodes.push_back(make());
    AwaitAll(nodes, position);
    return Since(start);
  }

  // Returns the position of the state with the change.
  uint64_t Put(Writer& writer, const testing::Objects& change) {
    Need(writer.Put(change));
    return Position(writer);
  }

  // Calls `send`, which returns the position of a change, and measures when the nodes acknowledge
  // it. The time begins when the write is sent, because with many nodes, most of them receive the
  // change before the writer receives the answer.
  template <typename Nodes, typename Send>
  void Measure(const Send& send, const Nodes& nodes, Results& results) {
    const Usage start = Start();
    const auto sent = Clock::now();
    const uint64_t position = send();
    results.answered.push_back(Milliseconds(Clock::now() - sent));
    AwaitAll(nodes, position);
    const Usage usage = Since(start);
    results.changes.etcd_cpu += usage.etcd_cpu / options_.changes;
    results.changes.own_cpu += usage.own_cpu / options_.changes;
    results.changes.megabytes += usage.megabytes / options_.changes;
    results.rss_mb = Now().etcd_before_mb;
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
    size_t noticed = 0, plain_noticed = 0;
    Await("all nodes to notice that the network is down", [&] {
      while (noticed < nodes_.size() && nodes_[noticed]->facts().failures > failures[noticed]) {
        ++noticed;
      }
      while (plain_noticed < plain_.size() && !plain_[plain_noticed]->connected()) ++plain_noticed;
      return noticed == nodes_.size() && plain_noticed == plain_.size();
    });
    double bytes = 0;
    for (int i = 0; i < options_.behind; ++i) bytes += WriteBehind(options_.behind_objects);
    std::printf("missed: %d transactions with %.1f MB of values\n", options_.behind, bytes / 1e6);
  }

  // Writes a transaction with `count` changes. Returns the size of the values.
  double WriteBehind(size_t count) {
    testing::Objects objects;
    double bytes = 0;
    count = std::min(count, cluster_.ports().size());  // A transaction contains a key once.
    while (objects.size() < count) {
      for (v1::Object& object : NextChange()) {
        bytes += static_cast<double>(testing::EtcdValue(object).size());
        objects.push_back(std::move(object));
      }
    }
    for (const auto& writer : writers_) Need(writer->Put(objects));
    return bytes;
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

  // `a` has options_.plain nodes, and `b` has `count` nodes.
  void Rows(const Results& a, const Results& b, int count) const {
    Row("change: write answered, ms", Median(a.answered), Median(b.answered));
    Row("change: p50, ms", Median(a.p50), Median(b.p50));
    Row("change: p99, ms", Median(a.p99), Median(b.p99));
    Row("change: last node, ms", Median(a.last), Median(b.last));
    Row("change: CPU of the server, ms", 1000 * a.changes.etcd_cpu, 1000 * b.changes.etcd_cpu);
    Row("change: CPU of all nodes, ms", 1000 * a.changes.own_cpu, 1000 * b.changes.own_cpu);
    Row("change: bytes per node", 1e6 * a.changes.megabytes / options_.plain,
        1e6 * b.changes.megabytes / count);
  }

  void Print(const Results& plain, const Results& ours) const {
    std::printf("\n%d nodes, %s, %s, %d changes, %d behind\n\n", options_.nodes,
                ShapeText(options_.shape).c_str(), options_.tls ? "TLS" : "no TLS",
                options_.changes, options_.behind);
    std::printf("| | plain watch | svcmap-etcd | ratio |\n| --- | ---: | ---: | ---: |\n");
    Rows(plain, ours, options_.nodes);
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
  int Verify() {
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
    if (real_.empty()) return 0;
    for (const auto& node : real_) {
      Await("a node with svcmapd to have the written objects",
            [&] { return node->Digest() == expected_.digest(); });
      if (!node->CheckServing()) Fail("svcmapd is not serving");
    }
    std::printf("all %zu nodes with svcmapd have the written objects\n", real_.size());
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
  pid_t server_ = 0;  // The measured server: etcd, or the server of --floor.
  std::vector<std::unique_ptr<Writer>> writers_;
  std::atomic<bool> gate_{false};  // Whether plain watches may connect.
  std::vector<std::unique_ptr<PlainNode>> plain_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<RealNode>> real_;
};

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("svcmap-bench-fleet simulates the nodes of a fleet on etcd.");
  app.add_option("--nodes", options.nodes)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--plain", options.plain, "Number of plain watches [as many as --nodes]")
      ->check(CLI::PositiveNumber);
  app.add_option("--real", options.real, "Number of additional nodes with svcmapd and svcmap-etcd")
      ->capture_default_str();
  app.add_option("--hung", options.hung,
                 "Number of watches that never read. Changes are measured without and with them")
      ->capture_default_str();
  app.add_option("--services", options.shape.services)->capture_default_str();
  app.add_option("--endpoints", options.shape.endpoints, "Endpoints of each Service")
      ->capture_default_str();
  app.add_option("--changes", options.changes, "Measured changes")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--behind", options.behind,
                 "Number of transactions while all nodes are disconnected")
      ->capture_default_str();
  app.add_option("--behind-objects", options.behind_objects,
                 "Number of objects in each of these transactions")
      ->capture_default_str()
      ->check(CLI::Range(1, static_cast<int>(kChangesPerTransaction)));
  app.add_option("--time-limit", options.time_limit, "Seconds for each step")
      ->capture_default_str();
  app.add_flag("--tls", options.tls, "Mutual TLS between nodes and etcd");
  app.add_flag("--watch-only", options.watch_only, "Plain watches do not list the objects");
  app.add_flag("--floor", options.floor,
               "Measure a server that only writes the same bytes to as many streams as --plain");
  app.add_flag("--lose-change", options.lose_change,
               "The agent of the first node ignores a change, so that the final check must fail");
  app.add_flag("--log", options.log, "Print the warnings of the nodes");
  CLI11_PARSE(app, argc, argv);
  if (options.plain < 0) options.plain = options.nodes;
  spdlog::set_level(options.log ? spdlog::level::warn : spdlog::level::off);
  return Bench(options).Run();
}

}  // namespace
}  // namespace svcmap::bench

int main(int argc, char** argv) {
  if (argc == 5 && std::string_view(argv[1]) == "floor") {
    return svcmap::bench::Floor::Run(argv[2], argv[3], argv[4]);
  }
  return svcmap::bench::Main(argc, argv);
}
