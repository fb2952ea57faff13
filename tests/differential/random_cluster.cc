#include "tests/differential/random_cluster.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"
#include "tests/differential/places.h"
#include "tests/support/agent.h"

namespace svcmap::testing {
namespace {

constexpr const char* kZones[] = {"za", "zb", "zc"};
constexpr const char* kNodeNames[] = {"n1", "n2", "n3"};
constexpr Protocol kMostlyTcp[] = {Protocol::kTcp, Protocol::kTcp, Protocol::kUdp, Protocol::kSctp};

constexpr const char* kRanges[] = {
    "203.0.113.0/25",
    " 203.0.113.0/24 ",
    "203.0.113.9/32",
    "203.0.113.200/32",
    "203.0.113.77/24",    // The range contains host bits.
    "203.0.113.000/025",  // S-5: leading zeros are permitted.
    "10.244.0.0/16",
    "10.244.1.0/24",
    "10.244.1.11/32",
    "192.168.77.0/24",  // The node's own range (S-118).
    "192.168.77.1/32",
    "198.18.7.10/32",
    "198.51.100.0/24",  // A range that contains the LoadBalancer IPs.
    "2001:db8:203::/64",
    " 2001:db8::/32",
    "2001:db8:204::200/128",
    "fd00:10:244::/48",
    "fd00:10:244:1::/64",
    "fd00:77::/64",
    "fd00:77::1/128",
    "fd00:78::10/128",
    "2001:db8:51::/64",
    "0.0.0.0/0",
    "::/0",
    "nonsense",
    "203.0.113.9",
    "300.0.0.0/8",
    "10.0.0.0/33",
};

std::string ProtocolOf(const v1::ServicePort& port) {
  return port.protocol().empty() ? "TCP" : port.protocol();
}

bool HasRange(const v1::Service& service) {
  return std::any_of(service.spec().ports().begin(), service.spec().ports().end(),
                     [](const v1::ServicePort& port) { return port.end_port() != 0; });
}

using State = RandomEndpoint::State;
using google::protobuf::util::MessageDifferencer;

bool Terminating(State state) {
  return state == State::kReadyTerminating || state == State::kServingTerminating ||
         state == State::kUnsetTerminating || state == State::kDown;
}

void SetConditions(State state, v1::Endpoint& endpoint) {
  struct Conditions {
    std::optional<bool> ready, serving, terminating;
  };
  static const std::map<State, Conditions> kConditions = {
      {State::kReady, {true, true, {}}},
      {State::kReadyTerminating, {true, {}, true}},
      {State::kServingTerminating, {false, true, true}},
      {State::kUnsetTerminating, {false, {}, true}},
      {State::kServingOnly, {false, true, {}}},
      {State::kNotReady, {false, false, false}},
      {State::kDown, {false, false, true}},
  };
  if (state == State::kUnset) return;
  const auto& [ready, serving, terminating] = kConditions.at(state);
  v1::EndpointConditions& conditions = *endpoint.mutable_conditions();
  if (ready) conditions.set_ready(*ready);
  if (serving) conditions.set_serving(*serving);
  if (terminating) conditions.set_terminating(*terminating);
}

// Adds leading zeros, for example "010.244.001.011" for "10.244.1.11".
std::string WithLeadingZeros(const std::string& ip) {
  if (ip.find(':') != std::string::npos) return ip;
  std::string text;
  std::string octet;
  for (const char c : ip + ".") {
    if (c != '.') {
      octet += c;
      continue;
    }
    absl::StrAppend(&text, std::string(3 - octet.size(), '0'), octet, ".");
    octet.clear();
  }
  text.pop_back();
  return text;
}

void AddEndpoint(const RandomEndpoint& endpoint, bool v6, size_t slice_index,
                 v1::EndpointSlice& slice) {
  const EndpointHost& host = kEndpointHosts[endpoint.host];
  v1::Endpoint& added = *slice.add_endpoints();
  const std::string ip = host.ip.in(v6);
  added.add_addresses(endpoint.leading_zeros ? WithLeadingZeros(ip) : ip);
  if (endpoint.weight) added.set_weight(*endpoint.weight);
  if (endpoint.second_address) added.add_addresses(kEndpointHosts[3].ip.in(v6));
  if (endpoint.node_name) added.set_node_name(host.node);
  const bool leaving_here =
      endpoint.slice != slice_index && endpoint.terminating_twin && !Terminating(endpoint.state);
  SetConditions(leaving_here ? State::kServingTerminating : endpoint.state, added);
  for (const std::string& zone : endpoint.zones) {
    added.mutable_hints()->add_for_zones()->set_name(zone);
  }
  for (const std::string& node : endpoint.nodes) {
    added.mutable_hints()->add_for_nodes()->set_name(node);
  }
}

std::pair<v1::Kind, std::string> KeyOf(const v1::Object& object) {
  switch (object.object_case()) {
    case v1::Object::kService:
      return {v1::KIND_SERVICE, absl::StrCat(object.service().metadata().namespace_(), "/",
                                             object.service().metadata().name())};
    case v1::Object::kEndpointSlice:
      return {v1::KIND_ENDPOINT_SLICE,
              absl::StrCat(object.endpoint_slice().metadata().namespace_(), "/",
                           object.endpoint_slice().metadata().name())};
    case v1::Object::kNode:
      return {v1::KIND_NODE, object.node().metadata().name()};
    case v1::Object::kServiceCidr:
      return {v1::KIND_SERVICE_CIDR, object.service_cidr().metadata().name()};
    case v1::Object::OBJECT_NOT_SET:
      break;
  }
  return {};
}

v1::ObjectRef RefOf(const std::pair<v1::Kind, std::string>& key) {
  switch (key.first) {
    case v1::KIND_SERVICE:
      return ServiceRef(key.second);
    case v1::KIND_ENDPOINT_SLICE:
      return SliceRef(key.second);
    case v1::KIND_NODE:
      return NodeRef(key.second);
    default:
      return ServiceCidrRef(key.second);
  }
}

}  // namespace

RandomCluster::RandomCluster(uint64_t seed, std::string name_space,
                             std::vector<std::string> pod_cidrs)
    : dice_(seed), name_space_(std::move(name_space)), pod_cidrs_(std::move(pod_cidrs)) {
  RollNode();
  RollServiceCidrs();
  const size_t count = 2 + dice_.Below(3);
  for (size_t i = 0; i < count; ++i) entries_.push_back(NewEntry(i));
}

void RandomCluster::RollNode() {
  node_.reset();
  if (dice_.Chance(3)) return;
  ANode node(kAgentNode);
  for (const std::string& cidr : pod_cidrs_) node.PodCidr(cidr);
  if (dice_.Chance(70)) node.Zone(dice_.OneOf(kZones));
  const size_t addresses = dice_.Below(10);
  // Without addresses in the Node object, the node's address is unknown (S-110).
  if (addresses != 0) {
    const Place& primary = kNodePlaces[addresses == 1 ? 1 : 0];
    if (addresses != 2) node.InternalIp(primary.v4);
    if (addresses != 3) node.InternalIp(primary.v6);
    if (addresses == 4) node.InternalIp(kNodePlaces[1].v4).InternalIp(kNodePlaces[1].v6);
  }
  node_ = node;
}

void RandomCluster::RollServiceCidrs() {
  service_cidrs_.clear();
  switch (dice_.Below(10)) {
    case 0:
      break;
    case 1:
      service_cidrs_.push_back(AServiceCidr("kubernetes", {kServiceCidrV4}));
      break;
    case 2:
      service_cidrs_.push_back(AServiceCidr("kubernetes", {"10.96.0.0/15", kServiceCidrV6}));
      service_cidrs_.push_back(AServiceCidr("more", {kServiceCidrV4}));
      break;
    case 3:
      service_cidrs_.push_back(AServiceCidr("kubernetes", {kServiceCidrV6, kServiceCidrV4}));
      service_cidrs_.push_back(AServiceCidr("more", {"fd00:97::/112"}));
      break;
    default:
      service_cidrs_.push_back(AServiceCidr("kubernetes", {kServiceCidrV4, kServiceCidrV6}));
  }
}

// ---- Services ----

RandomCluster::Entry RandomCluster::NewEntry(size_t index) {
  Entry entry;
  entry.service = AService(absl::StrCat(name_space_, "/svc", index)).proto();
  const char* const types[] = {"ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer"};
  entry.service.mutable_spec()->set_type(dice_.OneOf(types));
  if (dice_.Chance(20)) entry.service.mutable_spec()->set_reset_stale_tcp(dice_.Chance(50));
  entry.has_slices = !dice_.Chance(4);
  entry.hints = dice_.Chance(55) ? Hints::kNone : static_cast<Hints>(1 + dice_.Below(4));
  if (dice_.Chance(25)) entry.oddity = static_cast<Oddity>(1 + dice_.Below(9));
  RollClusterIps(entry);
  RollLabels(entry);
  RollPorts(entry);
  RollExternalIps(entry);
  RollLoadBalancer(entry);
  RollRanges(entry);
  RollPolicies(entry);
  RollAffinity(entry);
  RollPick(entry);
  RollCreation(entry);
  RollEndpoints(entry);
  return entry;
}

bool RandomCluster::ClusterIpTaken(const std::string& ip) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    const auto& ips = entry.service.spec().cluster_ips();
    return std::find(ips.begin(), ips.end(), ip) != ips.end();
  });
}

void RandomCluster::RollClusterIps(Entry& entry) {
  v1::ServiceSpec& spec = *entry.service.mutable_spec();
  spec.clear_cluster_ip();
  spec.clear_cluster_ips();
  spec.clear_ip_families();
  if (dice_.Chance(3)) spec.set_cluster_ip("None");
  // The Service is headless or has no clusterIP yet.
  if (!spec.cluster_ip().empty() || dice_.Chance(2)) return;

  Place ip = dice_.OneOf(kClusterIps);
  while (!dice_.Chance(6) && (ClusterIpTaken(ip.v4) || ClusterIpTaken(ip.v6))) {
    ip = dice_.OneOf(kClusterIps);
  }
  const std::string v4 = dice_.Chance(3) ? WithLeadingZeros(ip.v4) : ip.v4;
  const size_t families = dice_.Below(8);
  if (families == 0) {
    spec.add_cluster_ips(v4);
  } else if (families == 1) {
    spec.add_cluster_ips(ip.v6);
  } else if (families == 2) {
    spec.add_cluster_ips(ip.v6);
    spec.add_cluster_ips(v4);
  } else {
    spec.add_cluster_ips(v4);
    spec.add_cluster_ips(ip.v6);
  }
  spec.set_cluster_ip(spec.cluster_ips(0));
  const bool one = families < 2;
  if (one && dice_.Chance(30)) return;  // S-3: a Service may omit a family.
  for (const std::string& text : spec.cluster_ips()) {
    spec.add_ip_families(text.find(':') == std::string::npos ? "IPv4" : "IPv6");
  }
  if (one && dice_.Chance(30)) spec.clear_cluster_ips();
}

void RandomCluster::RollLabels(Entry& entry) {
  entry.service.mutable_metadata()->clear_labels();
  if (dice_.Chance(4)) {
    (*entry.service.mutable_metadata()
          ->mutable_labels())["service.kubernetes.io/service-proxy-name"] =
        dice_.Chance(50) ? "" : "other";
  }
}

void RandomCluster::RollPorts(Entry& entry) {
  v1::ServiceSpec& spec = *entry.service.mutable_spec();
  spec.clear_ports();
  const size_t count = 1 + dice_.Below(3);
  std::vector<std::pair<uint16_t, Protocol>> seen;
  while (seen.size() < count) {
    const std::pair<uint16_t, Protocol> key = {dice_.OneOf(kServicePorts), dice_.OneOf(kMostlyTcp)};
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) continue;
    v1::ServicePort& port = *spec.add_ports();
    port.set_port(key.first);
    if (key.second != Protocol::kTcp || dice_.Chance(80)) port.set_protocol(ApiName(key.second));
    if (count > 1 || dice_.Chance(50)) port.set_name(absl::StrCat("p", seen.size()));
    seen.push_back(key);
  }
  if (dice_.Chance(30) && !HasNodeEndpoint(entry)) MakeRanges(spec);
  RollNodePorts(entry);
  RollTargets(entry);
}

bool RandomCluster::HasNodeEndpoint(const Entry& entry) {
  return std::any_of(entry.endpoints.begin(), entry.endpoints.end(), [](const auto& endpoint) {
    return &kEndpointHosts[endpoint.host] == &kOnNode;
  });
}

// Ranges of a Service with the same protocol must not overlap, so there is one for each protocol.
// Services with ranges have no endpoint at the node's address. Such connections have the
// destination of a nodePort with the same number after the translation, and if this nodePort has no
// endpoints, they are rejected. The model does not contain this.
void RandomCluster::MakeRanges(v1::ServiceSpec& spec) {
  std::set<std::string> with_range;
  for (v1::ServicePort& port : *spec.mutable_ports()) {
    if (!with_range.insert(ProtocolOf(port)).second) continue;
    const int last_ports[] = {port.port(), port.port() + 1, 443, 511, 30079, 30081, 65535};
    const int last = dice_.OneOf(last_ports);
    if (last < port.port()) continue;
    port.set_end_port(last);
    if (last > 443 && dice_.Chance(50)) port.set_port(dice_.Chance(50) ? 1 : 256);
  }
}

// S-8: a nodePort takes effect for every Service type.
void RandomCluster::RollNodePorts(Entry& entry) {
  v1::ServiceSpec& spec = *entry.service.mutable_spec();
  const unsigned percent = spec.type() == "ClusterIP" ? 5 : 80;
  std::vector<std::pair<int, std::string>> seen;
  for (v1::ServicePort& port : *spec.mutable_ports()) {
    port.clear_node_port();
    if (port.end_port() != 0 || !dice_.Chance(percent)) continue;
    const std::pair<int, std::string> key = {dice_.OneOf(kNodePorts), ProtocolOf(port)};
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) continue;
    seen.push_back(key);
    port.set_node_port(key.first);
  }
}

void RandomCluster::RollExternalIps(Entry& entry) {
  v1::ServiceSpec& spec = *entry.service.mutable_spec();
  spec.clear_external_ips();
  if (!dice_.Chance(35)) return;
  const size_t count = 1 + dice_.Below(2);
  for (size_t i = 0; i < count; ++i) {
    const Place& place = dice_.Chance(20) ? dice_.OneOf(kNodePlaces)
                         : dice_.Chance(12)
                             ? dice_.OneOf(kClusterIps)  // Another Service may have this address.
                             : dice_.OneOf(kExternalIps);
    if (dice_.Chance(85)) {
      spec.add_external_ips(dice_.Chance(5) ? WithLeadingZeros(place.v4) : place.v4);
    }
    if (dice_.Chance(85)) spec.add_external_ips(place.v6);
  }
  if (dice_.Chance(8)) spec.add_external_ips(dice_.Chance(50) ? " " : "not-an-address");
}

// S-7: a load balancer IP takes effect for every Service type.
void RandomCluster::RollLoadBalancer(Entry& entry) {
  entry.service.clear_status();
  if (!dice_.Chance(entry.service.spec().type() == "LoadBalancer" ? 90 : 4)) return;
  v1::LoadBalancerStatus& status = *entry.service.mutable_status()->mutable_load_balancer();
  const size_t count = 1 + dice_.Below(2);
  for (size_t i = 0; i < count; ++i) {
    const Place& place = dice_.Chance(15) ? kNodePlaces[1] : dice_.OneOf(kLoadBalancerIps);
    for (const bool v6 : {false, true}) {
      if (!dice_.Chance(85)) continue;
      v1::LoadBalancerIngress& ingress = *status.add_ingress();
      ingress.set_ip(place.in(v6));
      if (dice_.Chance(12)) {
        ingress.set_ip_mode("Proxy");
      } else if (dice_.Chance(30)) {
        ingress.set_ip_mode("VIP");
      }
    }
  }
  if (dice_.Chance(5)) status.add_ingress()->set_hostname("lb.example.com");
}

void RandomCluster::RollRanges(Entry& entry) {
  v1::ServiceSpec& spec = *entry.service.mutable_spec();
  spec.clear_load_balancer_source_ranges();
  if (!dice_.Chance(40)) return;
  const size_t count = 1 + dice_.Below(5);
  for (size_t i = 0; i < count; ++i) spec.add_load_balancer_source_ranges(dice_.OneOf(kRanges));
}

void RandomCluster::RollPolicies(Entry& entry) {
  v1::ServiceSpec& spec = *entry.service.mutable_spec();
  spec.clear_external_traffic_policy();
  spec.clear_internal_traffic_policy();
  entry.service.mutable_metadata()->clear_annotations();
  if (dice_.Chance(50)) {
    spec.set_external_traffic_policy("Local");
    if (dice_.Chance(25)) {
      (*entry.service.mutable_metadata()->mutable_annotations())["svcmap/no-local-endpoint"] =
          "route";
    }
  } else if (dice_.Chance(50)) {
    spec.set_external_traffic_policy("Cluster");
  }
  if (dice_.Chance(30)) {
    spec.set_internal_traffic_policy("Local");
  } else if (dice_.Chance(50)) {
    spec.set_internal_traffic_policy("Cluster");
  }
}

void RandomCluster::RollAffinity(Entry& entry) {
  v1::ServiceSpec& spec = *entry.service.mutable_spec();
  spec.clear_session_affinity();
  spec.clear_session_affinity_config();
  if (!dice_.Chance(25)) return;
  spec.set_session_affinity("ClientIP");
  const int timeouts[] = {0, 60, 3600, 86400};  // Timeouts in seconds. 0 keeps the default.
  if (const int timeout = dice_.OneOf(timeouts)) {
    spec.mutable_session_affinity_config()->mutable_client_ip()->set_timeout_seconds(timeout);
  }
}

void RandomCluster::RollPick(Entry& entry) {
  v1::ServiceSpec& spec = *entry.service.mutable_spec();
  spec.clear_endpoint_pick();
  spec.clear_pick_table_size();
  if (!dice_.Chance(30)) return;
  const std::string picks[] = {"Random", "ClientIP", "ClientIP", "ClientIPAndPort"};
  spec.set_endpoint_pick(dice_.OneOf(picks));
  const int sizes[] = {0, 251, 1021, 4093};
  if (const int size = dice_.OneOf(sizes)) spec.set_pick_table_size(size);
}

void RandomCluster::RollCreation(Entry& entry) {
  entry.service.mutable_metadata()->clear_creation_timestamp();
  if (dice_.Chance(20)) return;
  entry.service.mutable_metadata()->mutable_creation_timestamp()->set_seconds(
      1700000000 + static_cast<int64_t>(dice_.Below(3)));
}

// ---- Endpoints ----

// S-22: slices may map a Service port to different target ports.
void RandomCluster::RollTargets(Entry& entry) {
  entry.targets.assign(2, {});
  for (int i = 0; i < entry.service.spec().ports_size(); ++i) {
    const uint16_t number = dice_.OneOf(kEndpointPorts);
    entry.targets[0].push_back(number);
    entry.targets[1].push_back(dice_.Chance(15) ? dice_.OneOf(kEndpointPorts) : number);
  }
}

void RandomCluster::RollHints(RandomEndpoint& endpoint, Hints hints) {
  endpoint.zones.clear();
  endpoint.nodes.clear();
  const bool patchy = hints == Hints::kPatchy;
  if (hints == Hints::kZones || hints == Hints::kBoth || (patchy && dice_.Chance(80))) {
    endpoint.zones.emplace_back(dice_.OneOf(kZones));
    if (dice_.Chance(20)) endpoint.zones.emplace_back(dice_.OneOf(kZones));
  }
  if (hints == Hints::kNodes || hints == Hints::kBoth || (patchy && dice_.Chance(50))) {
    endpoint.nodes.emplace_back(dice_.OneOf(kNodeNames));
    if (dice_.Chance(20)) endpoint.nodes.emplace_back(dice_.OneOf(kNodeNames));
  }
}

RandomEndpoint RandomCluster::NewEndpoint(size_t host, Hints hints) {
  RandomEndpoint endpoint;
  endpoint.host = host;
  endpoint.state = dice_.Chance(60) ? State::kReady : static_cast<State>(dice_.Below(8));
  RollHints(endpoint, hints);
  if (dice_.Chance(10)) (dice_.Chance(50) ? endpoint.v4 : endpoint.v6) = false;
  endpoint.slice = dice_.Below(2);
  endpoint.twin = dice_.Chance(12);
  endpoint.terminating_twin = dice_.Chance(50);
  endpoint.node_name = !dice_.Chance(4);
  endpoint.second_address = dice_.Chance(3);
  endpoint.leading_zeros = dice_.Chance(5);
  if (dice_.Chance(15)) endpoint.weight = dice_.Below(kMaxRandomWeight + 1);
  return endpoint;
}

void RandomCluster::RollEndpoints(Entry& entry) {
  entry.endpoints.clear();
  if (dice_.Chance(8)) return;
  for (size_t host = 0; host < std::size(kEndpointHosts); ++host) {
    // See the limit in MakeRanges.
    if (&kEndpointHosts[host] == &kOnNode && HasRange(entry.service)) continue;
    if (dice_.Chance(host < 4 ? 50 : 12)) {
      entry.endpoints.push_back(NewEndpoint(host, entry.hints));
    }
  }
}

void RandomCluster::AddSlicePorts(const Entry& entry, size_t index, v1::EndpointSlice& slice) {
  const auto& ports = entry.service.spec().ports();
  for (int i = entry.oddity == Oddity::kMissingPort ? 1 : 0; i < ports.size(); ++i) {
    v1::EndpointPort& port = *slice.add_ports();
    port.set_name(ports[i].name());
    if (!ports[i].protocol().empty()) port.set_protocol(ports[i].protocol());
    port.set_port(entry.targets[index][static_cast<size_t>(i)]);
    if (i > 0) continue;
    if (entry.oddity == Oddity::kPortWithoutName) port.clear_name();
    if (entry.oddity == Oddity::kPortWithoutNumber) port.clear_port();
    if (entry.oddity == Oddity::kOtherProtocol) {
      port.set_protocol(ports[i].protocol() == "UDP" ? "TCP" : "UDP");
    }
  }
  if (entry.oddity == Oddity::kExtraPort) {
    v1::EndpointPort& port = *slice.add_ports();
    port.set_name("extra");
    port.set_port(kEndpointPorts[2]);
  }
}

v1::Object RandomCluster::RenderSlice(const Entry& entry, bool v6, size_t index) const {
  const v1::Service& service = entry.service;
  v1::Object object;
  v1::EndpointSlice& slice = *object.mutable_endpoint_slice();
  v1::ObjectMeta& metadata = *slice.mutable_metadata();
  metadata.set_namespace_(name_space_);
  metadata.set_name(absl::StrCat(service.metadata().name(), v6 ? "-v6-" : "-v4-", index));
  (*metadata.mutable_labels())["kubernetes.io/service-name"] = service.metadata().name();
  slice.set_address_type(v6 ? "IPv6" : "IPv4");
  AddSlicePorts(entry, index, slice);
  if (entry.oddity == Oddity::kEndpointWithoutAddress) slice.add_endpoints();
  for (const RandomEndpoint& endpoint : entry.endpoints) {
    if (v6 ? !endpoint.v6 : !endpoint.v4) continue;
    if (endpoint.slice == index || endpoint.twin) AddEndpoint(endpoint, v6, index, slice);
  }
  return object;
}

void RandomCluster::AppendSlices(const Entry& entry, Objects& objects) const {
  for (const bool v6 : {false, true}) {
    for (const size_t index : {0, 1}) {
      const v1::Object slice = RenderSlice(entry, v6, index);
      if (entry.has_slices) objects.push_back(slice);
      if (index == 1 || entry.oddity < Oddity::kUnlabelledSlice) continue;
      // Add a slice that svcmapd must not use. The endpoint of this slice would answer if svcmapd
      // used the slice.
      v1::Object unused = slice;
      v1::ObjectMeta& metadata = *unused.mutable_endpoint_slice()->mutable_metadata();
      metadata.set_name(metadata.name() + "-unused");
      auto& labels = *metadata.mutable_labels();
      if (entry.oddity == Oddity::kUnlabelledSlice) labels.clear();
      if (entry.oddity == Oddity::kHeadlessSlice) labels["service.kubernetes.io/headless"] = "";
      if (entry.oddity == Oddity::kOtherServicesSlice) {
        labels["kubernetes.io/service-name"] = "nobody";
      }
      unused.mutable_endpoint_slice()->clear_endpoints();
      unused.mutable_endpoint_slice()->add_endpoints()->add_addresses(kEndpointHosts[3].ip.in(v6));
      objects.push_back(unused);
    }
  }
}

Objects RandomCluster::Render() const {
  Objects objects = service_cidrs_;
  if (node_) objects.push_back(*node_);
  for (const Entry& entry : entries_) {
    if (entry.exists) {
      v1::Object object;
      *object.mutable_service() = entry.service;
      objects.push_back(object);
    }
    AppendSlices(entry, objects);
  }
  return objects;
}

// ---- Changes ----

std::string RandomCluster::ChangeNode() {
  if (dice_.Chance(50)) {
    RollServiceCidrs();
    return "other ServiceCIDRs";
  }
  RollNode();
  return "another Node";
}

std::string RandomCluster::ChangeService(Entry& entry) {
  constexpr std::pair<const char*, void (RandomCluster::*)(Entry&)> kChanges[] = {
      {"clusterIPs", &RandomCluster::RollClusterIps},
      {"labels", &RandomCluster::RollLabels},
      {"ports", &RandomCluster::RollPorts},
      {"nodePorts", &RandomCluster::RollNodePorts},
      {"externalIPs", &RandomCluster::RollExternalIps},
      {"LoadBalancer IPs", &RandomCluster::RollLoadBalancer},
      {"source ranges", &RandomCluster::RollRanges},
      {"policies", &RandomCluster::RollPolicies},
      {"affinity", &RandomCluster::RollAffinity},
      {"creation", &RandomCluster::RollCreation},
      {"endpoint pick", &RandomCluster::RollPick},
  };
  const size_t number = dice_.Below(std::size(kChanges) + 1);
  if (number == std::size(kChanges)) {
    entry.exists = !entry.exists;
    return entry.exists ? "comes" : "goes";
  }
  const auto& [what, roll] = kChanges[number];
  (this->*roll)(entry);
  return what;
}

std::string RandomCluster::ChangeEndpoints(Entry& entry) {
  switch (dice_.Below(entry.endpoints.empty() ? 2 : 6)) {
    case 0:
      RollEndpoints(entry);
      return "endpoints";
    case 1:
      entry.has_slices = !entry.has_slices;
      return entry.has_slices ? "slices come" : "slices go";
    case 2:
      RollTargets(entry);
      return "endpoint ports";
    case 3:
      entry.endpoints.erase(entry.endpoints.begin() +
                            static_cast<long>(dice_.Below(entry.endpoints.size())));
      return "one endpoint less";
    case 4: {
      RandomEndpoint& endpoint = entry.endpoints[dice_.Below(entry.endpoints.size())];
      RollHints(endpoint, static_cast<Hints>(dice_.Below(5)));
      return "hints of an endpoint";
    }
    default: {
      RandomEndpoint& endpoint = entry.endpoints[dice_.Below(entry.endpoints.size())];
      endpoint = NewEndpoint(endpoint.host, entry.hints);
      return "another state of an endpoint";
    }
  }
}

std::string RandomCluster::Change() {
  if (!before_.empty() && dice_.Chance(30)) {
    std::swap(before_, entries_);
    return "the Services as they were before";
  }
  before_ = entries_;
  std::string what;
  const size_t count = 1 + dice_.Below(3);
  for (size_t i = 0; i < count; ++i) {
    absl::StrAppend(&what, i == 0 ? "" : "; ");
    if (dice_.Chance(10)) {
      absl::StrAppend(&what, ChangeNode());
      continue;
    }
    Entry& entry = entries_[dice_.Below(entries_.size())];
    absl::StrAppend(&what, entry.service.metadata().name(), ": ",
                    dice_.Chance(50) ? ChangeEndpoints(entry) : ChangeService(entry));
  }
  return what;
}

std::vector<v1::Change> Difference(const Objects& before, const Objects& after) {
  std::map<std::pair<v1::Kind, std::string>, const v1::Object*> old;
  for (const v1::Object& object : before) old[KeyOf(object)] = &object;
  std::vector<v1::Change> changes;
  for (const v1::Object& object : after) {
    const auto found = old.find(KeyOf(object));
    const bool known = found != old.end();
    if (!known || !MessageDifferencer::Equals(*found->second, object)) {
      changes.push_back(Upsert(object));
    }
    if (known) old.erase(found);
  }
  for (const auto& [key, object] : old) changes.push_back(Removal(RefOf(key)));
  return changes;
}

}  // namespace svcmap::testing
