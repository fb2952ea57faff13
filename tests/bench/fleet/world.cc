#include "tests/bench/fleet/world.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/convert/fields.h"
#include "tests/bench/program.h"
#include "tests/support/certificates.h"

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

}  // namespace svcmap::bench
