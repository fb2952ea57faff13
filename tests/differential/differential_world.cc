#include "tests/differential/differential_world.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/netns/service_world.h"
#include "tests/support/netns.h"
#include "tests/support/process.h"

namespace svcmap::testing {
namespace {

void Append(const Place& place, uint16_t port, const std::string& name,
            std::vector<Binding>& bindings) {
  for (const Protocol protocol : kProtocols) {
    bindings.push_back({protocol, place.v4, port, name});
    bindings.push_back({protocol, place.v6, port, name});
  }
}

// Returns the bindings of an endpoint. The server names, such as "pod-a/8080", contain the port, so
// that tests detect a wrong port translation.
std::vector<Binding> EndpointBindings(const EndpointHost& host) {
  std::vector<Binding> bindings;
  const auto append = [&](uint16_t port) {
    Append(host.ip, port, absl::StrCat(host.name, "/", port), bindings);
  };
  for (const uint16_t port : kEndpointPorts) append(port);
  // Connections to port ranges keep their port.
  if (&host != &kOnNode) {
    for (const uint16_t port : kProbedPorts) append(port);
  }
  return bindings;
}

std::vector<Place> OutsidePlaces() {
  std::vector<Place> places(std::begin(kClusterIps), std::end(kClusterIps));
  places.insert(places.end(), std::begin(kExternalIps), std::end(kExternalIps));
  places.insert(places.end(), std::begin(kLoadBalancerIps), std::end(kLoadBalancerIps));
  return places;
}

// Routes packets between the other node and its pods through this node.
absl::Status RouteEverythingByTheNode(const Topology& net,
                                      const std::vector<const Host*>& remote_pods) {
  for (const bool v6 : {false, true}) {
    const std::string remote = kOnRemote.ip.in(v6);
    std::string batch = absl::StrCat("route add ", v6 ? "::/0" : "0.0.0.0/0", " via ",
                                     v6 ? kNodeV6 : kNodeV4, " dev eth0 table 100\n");
    for (const Host* pod : remote_pods) {
      absl::StrAppend(&batch, "rule add iif ", pod->device(), " lookup 100\n",
                      "rule add iif lo from ", remote, " to ", pod->address(v6), " lookup 100\n");
    }
    const absl::Status status = RunOk({.argv = {"ip", v6 ? "-6" : "-4", "-batch", "-"},
                                       .netns = &net.remote().netns(),
                                       .stdin_text = batch})
                                    .status();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status AddPlace(Topology& net, const Host& host, const Place& place) {
  if (absl::Status status = net.AddPrefix(host, absl::StrCat(place.v4, "/32")); !status.ok()) {
    return status;
  }
  return net.AddPrefix(host, absl::StrCat(place.v6, "/128"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DifferentialWorld>> DifferentialWorld::Create() {
  auto world = std::make_unique<DifferentialWorld>();
  if (absl::Status status = world->Build(); !status.ok()) return status;
  return world;
}

absl::Status DifferentialWorld::Build() {
  if (absl::Status status = NetNsAvailable(); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<Topology>> topology = Topology::Create();
  if (!topology.ok()) return topology.status();
  topology_ = *std::move(topology);
  Topology& net = *topology_;

  std::vector<const Host*> pods;
  for (size_t i = 0; i < 4; ++i) {
    const EndpointHost& place = kEndpointHosts[i];
    const auto pod = i < 2 ? net.AddLocalPod(place.name) : net.AddRemotePod(place.name);
    if (!pod.ok()) return pod.status();
    if ((*pod)->v4() != place.ip.v4 || (*pod)->v6() != place.ip.v6) {
      return absl::InternalError(absl::StrCat(place.name, " is at ", (*pod)->v4(), " and ",
                                              (*pod)->v6(), ", not where places.h says"));
    }
    pods.push_back(*pod);
    sources_.push_back({*pod, place.ip, i < 2 ? (*pod)->device() : "remote"});
    if (absl::Status status = Serve(**pod, EndpointBindings(place)); !status.ok()) return status;
  }
  if (absl::Status status = RouteEverythingByTheNode(net, {pods[2], pods[3]}); !status.ok()) {
    return status;
  }
  sources_.push_back({&net.remote(), kOnRemote.ip, "remote"});
  if (absl::Status status = Serve(net.remote(), EndpointBindings(kOnRemote)); !status.ok()) {
    return status;
  }

  std::vector<Binding> on_node = EndpointBindings(kOnNode);
  for (const Place& place : {kNodePlaces[0], kNodePlaces[1], kLoopback}) {
    sources_.push_back({&net.node(), place, ""});
    for (const uint16_t port : kProbedPorts) Append(place, port, kNodeProcess, on_node);
  }
  if (absl::Status status = Serve(net.node(), on_node); !status.ok()) return status;

  const auto client = net.AddClient("client");
  if (!client.ok()) return client.status();
  if (absl::Status status = AddPlace(net, **client, kClientPlaces[1]); !status.ok()) return status;
  for (const Place& place : kClientPlaces) {
    sources_.push_back({*client, place, (*client)->device()});
  }

  const auto outside = net.AddClient("outside");
  if (!outside.ok()) return outside.status();
  std::vector<Binding> bindings;
  for (const Place& place : OutsidePlaces()) {
    if (absl::Status status = AddPlace(net, **outside, place); !status.ok()) return status;
    for (const uint16_t port : kProbedPorts) Append(place, port, "outside", bindings);
  }
  // Only the node answers echo requests to Service addresses.
  if (absl::Status status = DropEchoRequests((*outside)->netns(), "silent"); !status.ok()) {
    return status;
  }
  return Serve(**outside, bindings);
}

absl::Status DifferentialWorld::Serve(const Host& host, const std::vector<Binding>& bindings) {
  absl::StatusOr<std::unique_ptr<EchoServer>> server = EchoServer::Start(host.netns());
  if (!server.ok()) return server.status();
  servers_.push_back(*std::move(server));
  return servers_.back()->Listen(bindings);
}

absl::Status DifferentialWorld::RestartAgent(const std::vector<std::string>& flags) {
  if (agent_) {
    if (absl::Status status = agent_->Stop(); !status.ok()) return status;
  }
  absl::StatusOr<std::unique_ptr<Agent>> agent = Agent::Start(node().netns(), flags);
  if (!agent.ok()) return agent.status();
  agent_ = *std::move(agent);
  return absl::OkStatus();
}

std::vector<std::string> DifferentialWorld::NodeAddresses() {
  return {kNodePlaces[0].v4, kNodePlaces[0].v6, kNodePlaces[1].v4,
          kNodePlaces[1].v6, kLoopback.v4,      kLoopback.v6};
}

}  // namespace svcmap::testing
