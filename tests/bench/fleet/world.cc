#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/convert/fields.h"
#include "api/convert/kinds.h"
#include "svcmap/etcd/v3/etcd.pb.h"
#include "tests/bench/fleet/world.h"
#include "tests/bench/program.h"
#include "tests/support/certificates.h"
#include "tests/support/wait.h"

namespace svcmap::bench {

namespace {

// gRPC 1.51 runs the timers of all connections of a process in a few threads, one after the other.
// On a busy machine, many connections whose TLS handshakes time out can delay a ping timer by more
// than the 10 s of svcmap-etcd. gRPC then schedules the timer twice, and can crash
// (grpc/grpc#32085).
std::chrono::seconds PingInterval(int connections) {
  return std::chrono::seconds(connections > 500 ? 60 : 10);
}

v1::Object ObjectOf(const v1::Change& change) {
  v1::Object object;
  if (change.has_service()) *object.mutable_service() = change.service();
  if (change.has_endpoint_slice()) *object.mutable_endpoint_slice() = change.endpoint_slice();
  return object;
}

}  // namespace

World::World(const ClusterShape& shape, bool tls, int connections)
    : netns_(Need(testing::NetNs::Create())),
      folder_(Need(testing::TemporaryFolder::Make())),
      cluster_(shape) {
  Need(netns_.Enter());  // Threads and sockets of gRPC stay in this namespace.
  servers_.ping_interval = PingInterval(connections);
  servers_.endpoints = {
      Need(fleet::ParseEndpoint(absl::StrCat("http://127.0.0.1:", testing::kEtcdPort)))};
  etcd_ = Need(testing::EtcdServer::Start(netns_, folder_.path(),
                                          tls ? TlsFlags() : std::vector<std::string>()));
  for (const char* prefix : {testing::kEtcdPrefix, kPlainPrefix}) {
    writers_.push_back(std::make_unique<Writer>(etcd_->socket(), 1, prefix));
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

std::vector<std::string> World::TlsFlags() {
  const testing::CertificateAuthority ca("fleet");
  const auto write = [&](const std::string& name, const std::string& text) {
    const std::string path = folder_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  };
  const std::string trusted = write("ca.crt", ca.certificate());
  const auto issue = [&](const std::string& name, const std::string& host) {
    const testing::KeyPair pair = ca.Issue(name, host);
    return api::TlsFiles{.certificate = write(name + ".crt", pair.certificate),
                         .key = write(name + ".key", pair.key),
                         .ca = trusted};
  };
  server_files_ = issue("etcd", "IP:127.0.0.1");
  servers_.tls = issue("node", "DNS:node");
  return {"--cert-file=" + server_files_.certificate, "--key-file=" + server_files_.key,
          "--trusted-ca-file=" + trusted, "--client-cert-auth"};
}

uint64_t World::Position(const Writer& writer) const {
  return &writer == writers_[0].get() ? writer.seq() : static_cast<uint64_t>(writer.revision());
}

uint64_t World::Put(Writer& writer, const testing::Objects& objects) {
  Need(writer.Put(objects));
  return Position(writer);
}

testing::Objects World::NextChange() {
  const auto messages = cluster_.ReplaceEndpoint(change_++ % cluster_.ports().size()).messages;
  testing::Objects objects;
  for (const v1::Change& change : messages) {
    expected_.Apply(api::Serialize(change));
    objects.push_back(ObjectOf(change));
  }
  return objects;
}

double World::WriteChanges(size_t count) {
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

void World::SetLoopback(const std::string& state) {
  Need(testing::RunOk({.argv = {"ip", "link", "set", "lo", state}, .netns = &netns_}).status());
}

std::string WatchResponseOf(const testing::Objects& objects, uint64_t revision) {
  etcdserverpb::WatchResponse response;
  response.set_watch_id(0);
  response.mutable_header()->set_revision(static_cast<int64_t>(revision));
  const auto add = [&](const std::string& key, const std::string& value) {
    auto& kv = *response.add_events()->mutable_kv();
    kv.set_key(kPlainPrefix + key);
    kv.set_value(value);
    kv.set_mod_revision(static_cast<int64_t>(revision));
  };
  for (const v1::Object& object : objects) {
    add(testing::EtcdKey(object), testing::EtcdValue(object));
  }
  add("/state/head", R"({"format":1,"seq":10000,"epoch":1,"nonce":"12345678901234567890"})");
  return response.SerializeAsString();
}

namespace {

constexpr char kFloorAddress[] = "127.0.0.1:2374";
constexpr char kFloorSend[] = "/floor/Send";

grpc::ByteBuffer BufferOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

// Streams exist until the process ends.
class Floor : public grpc::CallbackGenericService {
 public:
  Floor() {
    etcdserverpb::WatchResponse created;
    created.set_created(true);
    created_ = BufferOf(created.SerializeAsString());
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

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Stream(*this, context->method() == kFloorSend);
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

  grpc::ByteBuffer created_, message_;
  std::mutex mutex_;
  std::vector<Stream*> streams_;  // Guarded by mutex_.
};

}  // namespace

int RunFloor(const api::TlsFiles& files) {
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (!files.certificate.empty()) {
    const api::TlsMaterial tls = Need(api::ReadTlsFiles(files));
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
  if (server == nullptr) Fail(std::string("cannot listen on ") + kFloorAddress);
  std::printf("ready\n");
  std::fflush(stdout);
  server->Wait();
  return 0;
}

FloorServer::FloorServer(const testing::NetNs& netns, const fleet::EtcdServers& etcd,
                         const api::TlsFiles& files)
    : servers_(etcd),
      process_(Need(testing::ChildProcess::Start(
          {.argv = {"/proc/self/exe", "floor", files.certificate, files.key, files.ca},
           .netns = &netns}))) {
  if (!process_->WaitForOutput("ready", testing::kHangLimit)) Fail("floor: " + process_->err());
  servers_.endpoints = {Need(fleet::ParseEndpoint(std::string("http://") + kFloorAddress))};
  connection_ = std::make_unique<fleet::EtcdConnection>(servers_);
  Need(connection_->Connect());
}

void FloorServer::Send(const std::string& message) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  const grpc::ByteBuffer request = BufferOf(message);
  grpc::ByteBuffer answer;
  std::promise<grpc::Status> end;
  grpc::GenericStub stub(connection_->channel());
  stub.UnaryCall(&context, kFloorSend, {}, &request, &answer,
                 [&end](grpc::Status status) { end.set_value(std::move(status)); });
  if (const grpc::Status status = end.get_future().get(); !status.ok()) {
    Fail("floor: " + status.error_message());
  }
}

void ObjectSet::Apply(const std::string& bytes) {
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

void Node::Acknowledge() {
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

bool CheckNodes(const std::vector<std::unique_ptr<Node>>& nodes, uint64_t digest) {
  std::string wrong;
  int count = 0;
  etcd::FollowerFacts sum;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const etcd::FollowerFacts facts = nodes[i]->facts();
    sum.lists += facts.lists;
    sum.watches += facts.watches;
    sum.failures += facts.failures;
    sum.gaps += facts.gaps;
    sum.silences += facts.silences;
    if (nodes[i]->digest() == digest && facts.rejected_keys == 0) continue;
    if (++count <= 3) absl::StrAppend(&wrong, " n", i);
  }
  std::printf("lists %lu, watches %lu, failed requests %lu, gaps %lu, silences %lu\n", sum.lists,
              sum.watches, sum.failures, sum.gaps, sum.silences);
  if (count > 0) {
    std::printf("objects differ from the written objects on %d of %zu nodes, for example%s\n",
                count, nodes.size(), wrong.c_str());
  } else {
    std::printf("all %zu nodes have the written objects\n", nodes.size());
  }
  return count == 0;
}

void PlainNode::Run() {
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

absl::Status PlainNode::List() {
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

absl::Status PlainNode::Watch() {
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

HungWatch::HungWatch(fleet::EtcdServers servers) : connection_(std::move(servers)) {
  Need(connection_.Connect());
  context_.set_wait_for_ready(true);
  stream_ = etcdserverpb::Watch::NewStub(connection_.channel())->Watch(&context_);
  etcdserverpb::WatchRequest request;
  request.mutable_create_request()->set_key(absl::StrCat(kPlainPrefix, "/state/"));
  request.mutable_create_request()->set_range_end(absl::StrCat(kPlainPrefix, "/state0"));
  if (!stream_->Write(request)) Fail("a watch that never reads cannot be created");
}

}  // namespace svcmap::bench
