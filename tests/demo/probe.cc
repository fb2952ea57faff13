#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/demo/probe.h"
#include "tests/support/chance.h"
#include "tests/support/client.h"

namespace svcmap::demo {

namespace {

using testing::Answer;
using testing::Outcome;
using testing::Protocol;

// Number of connections per target, which reach each of up to three endpoints.
const int kConnections = testing::TriesToReachAll(3);
constexpr int kRefusals = 5;

bool IsV6(const std::string& address) { return address.find(':') != std::string::npos; }

Protocol ProtocolOf(const std::string& name) {
  return name == "UDP" ? Protocol::kUdp : name == "SCTP" ? Protocol::kSctp : Protocol::kTcp;
}

std::string KeyOf(const v1::ObjectMeta& meta) {
  return absl::StrCat(meta.namespace_(), "/", meta.name());
}

// Returns the names of the hosts that are endpoints of the Service.
std::set<std::string> EndpointNames(const std::vector<v1::Object>& objects, const Scene& scene,
                                    const v1::Service& service, const std::string& port) {
  std::set<std::string> names;
  for (const v1::Object& object : objects) {
    const v1::EndpointSlice& slice = object.endpoint_slice();
    const auto owner = slice.metadata().labels().find("kubernetes.io/service-name");
    if (owner == slice.metadata().labels().end() || owner->second != service.metadata().name() ||
        slice.metadata().namespace_() != service.metadata().namespace_()) {
      continue;
    }
    for (const v1::EndpointPort& slice_port : slice.ports()) {
      if (slice_port.name() != port) continue;
      for (const v1::Endpoint& endpoint : slice.endpoints()) {
        names.insert(scene.NameOf(endpoint.addresses(0)));
      }
    }
  }
  return names;
}

template <typename Addresses>
void AddTarget(Target target, Kind kind, uint16_t port, const Addresses& addresses,
               std::vector<Target>& to) {
  target.kind = kind;
  target.port = port;
  for (const std::string& address : addresses) target.addresses[IsV6(address)] = address;
  if (!target.addresses[0].empty() || !target.addresses[1].empty()) to.push_back(target);
}

Seen Connect(const Scene& scene, const testing::Host& from, const Target& target, bool v6) {
  Seen seen;
  const testing::Request request = {
      .protocol = target.protocol, .destination = target.addresses[v6], .port = target.port};
  const int attempts = target.names.empty() ? kRefusals : kConnections;
  for (int i = 0; i < attempts; ++i) {
    const Answer answer = testing::Ask(from.netns(), request);
    if (answer.outcome == Outcome::kAnswered) {
      ++seen.answers[answer.server];
      // Marks connections from a backend to itself, because svcmap always masquerades these
      // connections.
      const std::string source = scene.NameOf(answer.seen_ip);
      seen.sources.insert(answer.server == from.name() ? "itself: " + source : source);
    } else if (answer.RejectedByRules()) {
      ++seen.rejected;
    } else if (answer.outcome == Outcome::kTimedOut) {
      ++seen.unanswered;
    } else if (seen.strange.empty()) {
      seen.strange = answer.ToString();
    }
  }
  return seen;
}

bool Same(const Seen& seen, const std::set<std::string>& names,
          const std::set<std::string>& sources) {
  if (!seen.strange.empty() || seen.unanswered > 0) return false;
  if (names.empty()) return seen.answers.empty() && seen.rejected > 0;
  std::set<std::string> servers;
  for (const auto& [server, count] : seen.answers) servers.insert(server);
  return seen.rejected == 0 && servers == names && seen.sources == sources;
}

}  // namespace

const char* KindName(Kind kind) {
  switch (kind) {
    case Kind::kClusterIp:
      return "clusterIP";
    case Kind::kNodePort:
      return "nodePort";
    case Kind::kExternalIp:
      return "externalIP";
    case Kind::kLoadBalancerIp:
      return "LoadBalancer";
  }
  return "";
}

std::vector<Target> TargetsOf(const std::vector<v1::Object>& objects, const Scene& scene) {
  std::vector<Target> targets;
  const std::vector<std::string> node = {scene.node().v4(), scene.node().v6()};
  for (const v1::Object& object : objects) {
    if (!object.has_service()) continue;
    const v1::Service& service = object.service();
    std::vector<std::string> ingress;
    for (const auto& entry : service.status().load_balancer().ingress()) {
      ingress.push_back(entry.ip());
    }
    for (const v1::ServicePort& port : service.spec().ports()) {
      const Target target = {.service = KeyOf(service.metadata()),
                             .protocol = ProtocolOf(port.protocol()),
                             .names = EndpointNames(objects, scene, service, port.name())};
      const auto number = static_cast<uint16_t>(port.port());
      AddTarget(target, Kind::kClusterIp, number, service.spec().cluster_ips(), targets);
      if (port.node_port() != 0) {
        AddTarget(target, Kind::kNodePort, static_cast<uint16_t>(port.node_port()), node, targets);
      }
      AddTarget(target, Kind::kExternalIp, number, service.spec().external_ips(), targets);
      AddTarget(target, Kind::kLoadBalancerIp, number, ingress, targets);
    }
  }
  return targets;
}

Row Try(const Scene& scene, const testing::Host& from, const Target& target) {
  Row row = {.from = from.name(), .target = target};
  std::set<std::string> sources;
  if (target.names.empty()) {
    row.expected = "rejected";
  } else {
    // A pod that connects to a clusterIP keeps its source address. All connections from other
    // sources or to other addresses are masqueraded.
    const bool is_pod = from.name() != scene.client().name() && from.name() != scene.node().name();
    const bool keeps = is_pod && target.kind == Kind::kClusterIp;
    const std::string source = keeps ? from.name() : scene.node().name();
    const bool hairpin = target.names.count(from.name()) > 0;
    if (target.names.size() > (hairpin ? 1u : 0u)) sources.insert(source);
    if (hairpin) sources.insert("itself: " + scene.node().name());
    row.expected = hairpin ? absl::StrCat("all ", target.names.size())
                           : absl::StrCat("all ", target.names.size(), ", from ", source);
  }
  row.ok = true;
  for (const bool v6 : {false, true}) {
    if (target.addresses[v6].empty()) continue;
    row.seen[v6] = Connect(scene, from, target, v6);
    row.ok = row.ok && Same(row.seen[v6], target.names, sources);
  }
  return row;
}

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
