#include "tests/bench/packets/packet_world.h"

#include <sys/resource.h>

#include "absl/strings/str_cat.h"
#include "tests/bench/cluster/cluster.h"

namespace svcmap::bench {
namespace {

constexpr uint32_t kFirstSourcePort = 10000;
constexpr uint32_t kSourcePorts = 50000;
constexpr int kSources = 100;

void RaiseFileLimit() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PacketWorld>> PacketWorld::Create() {
  RaiseFileLimit();
  std::unique_ptr<PacketWorld> world(new PacketWorld);
  if (absl::Status status = world->Build(); !status.ok()) return status;
  return world;
}

absl::Status PacketWorld::Build() {
  auto topology = testing::Topology::Create();
  if (!topology.ok()) return topology.status();
  topology_ = *std::move(topology);
  const auto pods = topology_->AddLocalPod("pods");
  if (!pods.ok()) return pods.status();
  const auto client = topology_->AddLocalPod("client");
  if (!client.ok()) return client.status();
  client_ = *client;

  for (const char* prefix : kEndpointPrefixes) {
    if (absl::Status status = topology_->AddPrefix(**pods, prefix); !status.ok()) return status;
  }
  absl::Status status = topology_->AddPrefix(*client_, "10.244.1.128/25");
  if (!status.ok()) return status;
  for (int i = 1; i <= kSources; ++i) {
    const auto source = testing::SocketAddress::Parse(absl::StrCat("10.244.1.", 128 + i), 0);
    if (!source.ok()) return source.status();
    sources_.push_back(*source);
  }

  status = (*pods)->netns().WriteSysctl("net/core/somaxconn", "65535");
  if (!status.ok()) return status;
  auto server = PodServer::Start((*pods)->netns(), kPodPort, cpus_.server);
  if (!server.ok()) return server.status();
  pods_ = *std::move(server);
  return absl::OkStatus();
}

const testing::SocketAddress& PacketWorld::NextSource() {
  testing::SocketAddress& source = sources_[next_source_ / kSourcePorts % sources_.size()];
  const auto port = static_cast<uint16_t>(kFirstSourcePort + next_source_++ % kSourcePorts);
  reinterpret_cast<sockaddr_in*>(source.out())->sin_port = htons(port);
  return source;
}

absl::Status PacketWorld::ForgetFlows() { return testing::FlushConntrack(node()); }

}  // namespace svcmap::bench
