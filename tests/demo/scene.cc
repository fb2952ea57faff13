#include "tests/demo/scene.h"

#include <utility>

namespace svcmap::demo {
namespace {

using testing::Host;

constexpr uint16_t kBackendPort = 8080;  // targetPort in deploy/examples/demo.yaml.

}  // namespace

absl::StatusOr<std::unique_ptr<Scene>> Scene::Set() {
  std::unique_ptr<Scene> scene(new Scene);
  absl::StatusOr<std::unique_ptr<testing::Topology>> topology = testing::Topology::Create();
  if (!topology.ok()) return topology.status();
  scene->topology_ = *std::move(topology);
  testing::Topology& net = *scene->topology_;
  for (const absl::StatusOr<const Host*>& backend :
       {net.AddLocalPod("backend-1"), net.AddLocalPod("backend-2"),
        net.AddRemotePod("backend-3")}) {
    if (!backend.ok()) return backend.status();
    scene->backends_.push_back(*backend);
    auto server = testing::EchoServer::StartAll((*backend)->netns(), (*backend)->v4(),
                                                (*backend)->v6(), kBackendPort, (*backend)->name());
    if (!server.ok()) return server.status();
    scene->servers_.push_back(*std::move(server));
  }
  const absl::StatusOr<const Host*> pod = net.AddLocalPod("pod");
  if (!pod.ok()) return pod.status();
  scene->pod_ = *pod;
  const absl::StatusOr<const Host*> client = net.AddClient("client");
  if (!client.ok()) return client.status();
  scene->client_ = *client;
  absl::StatusOr<std::unique_ptr<testing::Agent>> agent =
      testing::Agent::Start(scene->node().netns());
  if (!agent.ok()) return agent.status();
  scene->agent_ = *std::move(agent);
  return scene;
}

std::string Scene::NameOf(const std::string& address) const {
  std::vector<const Host*> hosts = backends_;
  hosts.insert(hosts.end(), {&node(), pod_, client_});
  for (const Host* host : hosts) {
    if (host->v4() == address || host->v6() == address) return host->name();
  }
  return address;
}

}  // namespace svcmap::demo
