#include "tests/unit/api/bad_input_table.h"

#include "absl/strings/str_cat.h"
#include "api/convert/convert.h"
#include "api/manifests/manifests.h"
#include "proxy/desired/service.h"
#include "proxy/state/store.h"

namespace svcmap::api {
namespace {

// Returns a manifest of Service shop/web with the given lines of spec.
std::string WebSpec(std::string_view spec) {
  std::string text =
      "apiVersion: v1\n"
      "kind: Service\n"
      "metadata: {namespace: shop, name: web}\n"
      "spec:\n";
  while (!spec.empty()) {
    const std::string_view line = spec.substr(0, spec.find('\n'));
    absl::StrAppend(&text, "  ", std::string(line), "\n");
    spec.remove_prefix(std::min(line.size() + 1, spec.size()));
  }
  return text;
}

// Returns a manifest of Service shop/web, valid except for the given ports.
std::string WebPorts(std::string_view ports) {
  return WebSpec("clusterIP: 10.96.0.10\nports:\n" + std::string(ports));
}

// Returns a manifest of Service shop/web, valid except for the given additional lines.
std::string WebWith(std::string_view lines) {
  return WebSpec("clusterIP: 10.96.0.10\nports: [{port: 80}]\n" + std::string(lines));
}

constexpr char kBalanced[] =
    "status: {loadBalancer: {ingress: [{ip: 192.0.2.8}, {ip: \"2001:db8::8\"}]}}\n";

std::string Named(std::string_view name_space, std::string_view name, std::string_view created,
                  std::string_view port) {
  return absl::StrCat(
      "apiVersion: v1\nkind: Service\nmetadata: {namespace: ", std::string(name_space),
      ", name: ", std::string(name), ", creationTimestamp: \"", std::string(created),
      "\"}\nspec: {clusterIP: 10.96.0.10, ports: [{", std::string(port), "}]}\n");
}

std::string SliceText(std::string_view fields) {
  return "apiVersion: discovery.k8s.io/v1\n"
         "kind: EndpointSlice\n"
         "metadata:\n"
         "  namespace: shop\n"
         "  name: web-1\n"
         "  labels: {kubernetes.io/service-name: web}\n" +
         std::string(fields);
}

std::string SliceWith(std::string_view fields) {
  return SliceText("addressType: IPv4\nports: [{name: \"\", port: 8080}]\n" + std::string(fields));
}

std::string ManyEndpoints(int count) {
  std::string text = SliceWith("endpoints:\n");
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&text, "- addresses: [10.1.", i / 250, ".", i % 250 + 1, "]\n");
  }
  return text;
}

std::string ManyPorts(int count) {
  std::string text = SliceText("addressType: IPv4\nports:\n");
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&text, "- {name: p", i, ", port: ", 1000 + i, "}\n");
  }
  return text;
}

std::string Cidr(std::string_view cidrs) {
  return "apiVersion: networking.k8s.io/v1\n"
         "kind: ServiceCIDR\n"
         "metadata: {name: kubernetes}\n"
         "spec: {cidrs: [" +
         std::string(cidrs) + "]}\n";
}

// Returns YAML in which each line expands to nine copies of the previous line.
std::string Laughs() {
  std::string text =
      "kind: Service\napiVersion: v1\na0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha]\n";
  for (int i = 1; i < 10; ++i) {
    absl::StrAppend(&text, "a", i, ": &a", i, " [");
    for (int j = 0; j < 9; ++j) absl::StrAppend(&text, j == 0 ? "" : ", ", "*a", i - 1);
    text += "]\n";
  }
  return text;
}

template <typename T>
void Append(const std::vector<T>& messages, std::string& out) {
  for (const T& message : messages) {
    absl::StrAppend(&out, out.empty() ? "" : "\n", message.ToString());
  }
}

}  // namespace

std::string MessagesFor(std::string_view input) {
  std::string out;
  proxy::Store store;
  proxy::Numbers numbers;
  proxy::AffinityTimers timers;
  proxy::AffinityMemory memory;
  const Manifests manifests = ReadManifests(input, "input.yaml");
  Append(manifests.errors, out);
  Append(manifests.warnings, out);
  for (const ManifestObject& object : manifests.objects) {
    const auto converted = ConvertObject(object.object, {.node_name = "n1"});
    if (!converted.ok()) continue;
    Append(converted->findings, out);
    if (converted->change) store.Apply(*converted->change, 1);
  }
  const proxy::NodeFacts node = {
      .place = {.name = "n1", .zone = ""},
      .node_port_addresses = {*IpAddress::Parse("192.0.2.10")},
      .own_ip = {*IpAddress::Parse("192.0.2.10"), *IpAddress::Parse("::1")}};
  proxy::DesiredContext context{store.claims(), node, numbers, timers, memory};
  while (store.FirstDirty() != nullptr) {
    const std::string key = store.TakeDirty().key;
    const proxy::DesiredService desired = MakeDesiredService(store.Find(key), context, nullptr);
    Append(desired.findings, out);
  }
  return out;
}

std::vector<BadInput> BadInputs() {
  constexpr std::string_view kText = "Syntax and types";
  constexpr std::string_view kNames = "Names";
  constexpr std::string_view kAddresses = "Service addresses";
  constexpr std::string_view kPorts = "Service ports";
  constexpr std::string_view kPolicies = "Service policies";
  constexpr std::string_view kSlices = "EndpointSlices";
  constexpr std::string_view kCluster = "Nodes and ServiceCIDRs";
  constexpr std::string_view kConflicts = "Conflicts between Services";
  return {
      {kText, "invalid YAML", "kind: Service\n  name: [web\n",
       R"(input.yaml: document 1, line 2 is not YAML: illegal map value)"},
      {kText, "syntax error in one of several documents",
       "kind: [\n---\n" + WebWith("type: Cluster"),
       R"(input.yaml: document 1, line 2 is not YAML: end of sequence flow not found)"
       "\n"
       R"(Service shop/web rejected: spec.type "Cluster" is not ClusterIP, NodePort, LoadBalancer or ExternalName; the previously accepted version, if any, stays in effect)"},
      {kText, "invalid JSON", "{\"kind\": \"Service\",\n \"metadata\": {\"name\": web}}\n",
       R"(input.yaml: document 1, line 2 is not JSON at "web}}")"},
      {kText, "truncated JSON", "{\"kind\": \"Service\",\n",
       R"(input.yaml: document 1, line 2 is not JSON: it ends too early)"},
      {kText, "binary data",
       "\x7f"
       "ELF\x02\x01\x01\xff\xfe\n",
       R"(input.yaml: document 1, line 1 is not UTF-8 text)"},
      {kText, "document that is not an object", "- 1\n- 2\n",
       R"(input.yaml: document 1, line 1 is not a map)"},
      {kText, "missing kind", "apiVersion: v1\nmetadata: {name: web}\n",
       R"(input.yaml: document 1, line 1: (no kind) web: kind is absent or not a string)"},
      {kText, "missing apiVersion", "kind: Service\nmetadata: {namespace: shop, name: web}\n",
       R"(input.yaml: document 1, line 1: Service shop/web: apiVersion is absent or not a string)"},
      {kText, "unused kind", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n",
       R"(input.yaml: document 1, line 1: Deployment web is of apiVersion "apps/v1", which svcmap does not use; it is skipped)"},
      {kText, "kind Service of another API group",
       "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: web}\n",
       R"(input.yaml: document 1, line 1: Service web is of apiVersion "serving.knative.dev/v1", which svcmap does not use; it is skipped)"},
      {kText, "unsupported API version",
       "apiVersion: discovery.k8s.io/v1beta1\nkind: EndpointSlice\n",
       R"(input.yaml: document 1, line 1: EndpointSlice: apiVersion "discovery.k8s.io/v1beta1" is not discovery.k8s.io/v1)"},
      {kText, "text instead of a number", WebPorts("- port: http"),
       R"(input.yaml: document 1, line 7: Service shop/web: spec.ports[0].port "http" is not an integer)"},
      {kText, "quoted number", WebPorts("- port: \"80\""),
       R"(input.yaml: document 1, line 7: Service shop/web: spec.ports[0].port "80" is not an integer)"},
      {kText, "number that is too large", WebPorts("- port: 99999999999"),
       R"(input.yaml: document 1, line 7: Service shop/web: spec.ports[0].port 99999999999 does not fit into 32 bits)"},
      {kText, "number instead of a string", WebSpec("clusterIP: 10\nports: [{port: 80}]"),
       R"(input.yaml: document 1, line 5: Service shop/web: spec.clusterIP 10 is not a string)"},
      {kText, "map instead of a list", WebSpec("clusterIP: 10.96.0.10\nports: {port: 80}"),
       R"(input.yaml: document 1, line 6: Service shop/web: spec.ports is not a list)"},
      {kText, "invalid time",
       "apiVersion: v1\nkind: Service\nmetadata: {name: web, creationTimestamp: yesterday}\n",
       R"(input.yaml: document 1, line 3: Service web: metadata.creationTimestamp "yesterday" is not a time as in "2026-01-31T12:00:00Z")"},
      {kText, "duplicate field", WebWith("type: ClusterIP\ntype: NodePort"),
       R"(input.yaml: document 1, line 8 has the field "type" twice)"},
      {kText, "merge key", WebWith("<<: {type: NodePort}"),
       R"(input.yaml: document 1, line 7 has a merge key (<<), which is not supported; write the fields out)"},
      {kText, "exponential aliases (billion laughs)", Laughs(),
       R"(input.yaml: document 1, line 8 has aliases that stand for more than 100000 values or 10000000 bytes)"},
      {kText, "deeply nested YAML", std::string(100'000, '['),
       R"(input.yaml: document 1, line 1 has a map or list as a key)"},
      {kText, "deeply nested JSON", "{\"a\":" + std::string(100'000, '['),
       R"(input.yaml: document 1, line 1 is nested deeper than 64 levels)"},
      {kText, "unknown fields (accepted)", WebWith("selector: {app: web}\nwhatever: [1, {a: b}]"),
       ""},

      {kNames, "missing name", "apiVersion: v1\nkind: Service\nmetadata: {namespace: shop}\n",
       R"(Service shop/(no name) rejected: metadata.name is absent; the previously accepted version, if any, stays in effect)"},
      {kNames, "invalid name",
       "apiVersion: v1\nkind: Service\nmetadata: {namespace: shop, name: Web_1}\n",
       R"(Service shop/Web_1 rejected: metadata.name "Web_1" is not a DNS-1123 subdomain (lower case letters, digits, '-' and '.', at most 253 bytes); the previously accepted version, if any, stays in effect)"},
      {kNames, "invalid namespace",
       "apiVersion: v1\nkind: Service\nmetadata: {namespace: shop.eu, name: web}\n",
       R"(Service shop.eu/web rejected: metadata.namespace "shop.eu" is not a DNS-1123 label (lower case letters, digits and '-', at most 63 bytes); the previously accepted version, if any, stays in effect)"},
      {kNames, "long name with control characters",
       "apiVersion: v1\nkind: Service\nmetadata:\n  namespace: shop\n  name: \"\\e[31m" +
           std::string(100, 'x') + "\"\n",
       R"(Service shop/\u001b[31mxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx... rejected: metadata.name "\u001b[31mxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"... is not a DNS-1123 subdomain (lower case letters, digits, '-' and '.', at most 253 bytes); the previously accepted version, if any, stays in effect)"},
      {kNames, "namespace on a cluster-scoped object",
       "apiVersion: v1\nkind: Node\nmetadata: {namespace: shop, name: n1}\n",
       R"(Node n1 rejected: metadata.namespace "shop" is set, but a Node has no namespace; the previously accepted version, if any, stays in effect)"},

      {kAddresses, "missing clusterIP", WebSpec("ports: [{port: 80}]"),
       R"(Service shop/web: spec.clusterIP is absent; nothing of the Service is programmed)"},
      {kAddresses, "invalid clusterIP", WebSpec("clusterIP: 10.96.0.300\nports: [{port: 80}]"),
       R"(Service shop/web rejected: spec.clusterIP "10.96.0.300" is not an IP address; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "unspecified clusterIP", WebSpec("clusterIP: 0.0.0.0\nports: [{port: 80}]"),
       R"(Service shop/web rejected: spec.clusterIP "0.0.0.0" is the unspecified address; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "multicast clusterIP", WebSpec("clusterIP: \"ff02::1\"\nports: [{port: 80}]"),
       R"(Service shop/web rejected: spec.clusterIP "ff02::1" is a multicast address; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "clusterIPs without clusterIP",
       WebSpec("clusterIPs: [10.96.0.10]\nports: [{port: 80}]"),
       R"(Service shop/web rejected: spec.clusterIP is absent, but spec.clusterIPs[0] is "10.96.0.10"; both must be set; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "clusterIPs that do not match clusterIP", WebWith("clusterIPs: [10.96.0.11]"),
       R"(Service shop/web rejected: spec.clusterIPs[0] "10.96.0.11" differs from spec.clusterIP "10.96.0.10"; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "three clusterIPs",
       WebWith("clusterIPs: [10.96.0.10, \"fd00::10\", 10.96.0.11]"),
       R"(Service shop/web rejected: spec.clusterIPs has 3 entries, more than one per address family; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "two clusterIPs of the same family",
       WebWith("clusterIPs: [10.96.0.10, 10.96.0.11]"),
       R"(Service shop/web rejected: spec.clusterIPs[1] "10.96.0.11" is a second IPv4 address; there is one per address family; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "clusterIPs that do not match ipFamilies",
       WebWith("clusterIPs: [10.96.0.10]\nipFamilies: [IPv6]"),
       R"(Service shop/web rejected: spec.clusterIPs[0] "10.96.0.10" is not an IPv6 address as spec.ipFamilies[0] says; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "unknown IP family", WebWith("ipFamilies: [IPv5]"),
       R"(Service shop/web rejected: spec.ipFamilies[0] "IPv5" is not IPv4 or IPv6; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "duplicate IP family", WebWith("ipFamilies: [IPv4, IPv4]"),
       R"(Service shop/web rejected: spec.ipFamilies[1] "IPv4" is listed twice; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "clusterIP without an entry in ipFamilies",
       WebWith("clusterIPs: [10.96.0.10, \"fd00::10\"]\nipFamilies: [IPv4]"),
       R"(Service shop/web: spec.clusterIPs[1] "fd00::10" has no entry in spec.ipFamilies; it is skipped)"},
      {kAddresses, "invalid externalIP (blank entries cause no warning)",
       WebWith("externalIPs: [192.0.2.7, \"\", 10.0.0.999]"),
       R"(Service shop/web: spec.externalIPs[2] "10.0.0.999" is not an IP address; it is skipped)"},
      {kAddresses, "loopback externalIP", WebWith("externalIPs: [127.0.0.1]"), R"(Service shop/web rejected: spec.externalIPs[0] "127.0.0.1" is a loopback address; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "invalid load balancer IP",
       WebWith("") + "status: {loadBalancer: {ingress: [{ip: 1.2.3}, {ip: 192.0.2.8}]}}\n",
       R"(Service shop/web: status.loadBalancer.ingress[0].ip "1.2.3" is not an IP address; it is skipped)"},
      {kAddresses, "unknown ipMode",
       WebWith("") + "status: {loadBalancer: {ingress: [{ip: 192.0.2.8, ipMode: Tunnel}]}}\n",
       R"(Service shop/web rejected: status.loadBalancer.ingress[0].ipMode "Tunnel" is not VIP or Proxy; the previously accepted version, if any, stays in effect)"},

      {kPorts, "missing ports", WebSpec("clusterIP: 10.96.0.10"),
       R"(Service shop/web rejected: spec.ports is empty; a Service with a clusterIP needs a port; the previously accepted version, if any, stays in effect)"},
      {kPorts, "port number out of range",
       WebPorts("- {name: a, port: 80}\n- {name: b, port: 70000}"),
       R"(Service shop/web rejected: spec.ports[1].port 70000: must be between 1 and 65535, inclusive; the previously accepted version, if any, stays in effect)"},
      {kPorts, "port 0", WebPorts("- {port: 0}"),
       R"(Service shop/web rejected: spec.ports[0].port 0: must be between 1 and 65535, inclusive; the previously accepted version, if any, stays in effect)"},
      {kPorts, "negative port number", WebPorts("- {port: -1}"),
       R"(Service shop/web rejected: spec.ports[0].port -1: must be between 1 and 65535, inclusive; the previously accepted version, if any, stays in effect)"},
      {kPorts, "unknown protocol", WebPorts("- {port: 80, protocol: tcp}"),
       R"(Service shop/web rejected: spec.ports[0].protocol "tcp" is not TCP, UDP or SCTP; the previously accepted version, if any, stays in effect)"},
      {kPorts, "duplicate port number",
       WebPorts("- {name: a, port: 53, protocol: UDP}\n- {name: b, port: 53}\n"
                "- {name: c, port: 53, protocol: UDP}"),
       R"(Service shop/web rejected: spec.ports[2].port 53 with protocol UDP is also in spec.ports[0]; the previously accepted version, if any, stays in effect)"},
      {kPorts, "duplicate port name", WebPorts("- {name: a, port: 80}\n- {name: a, port: 81}"),
       R"(Service shop/web rejected: spec.ports[1].name "a" is also the name of spec.ports[0]; the previously accepted version, if any, stays in effect)"},
      {kPorts, "multiple ports without names", WebPorts("- {name: a, port: 80}\n- {port: 81}"),
       R"(Service shop/web rejected: spec.ports[1].name is absent; a Service with several ports names each; the previously accepted version, if any, stays in effect)"},
      {kPorts, "invalid port name", WebPorts("- {name: HTTP, port: 80}"),
       R"(Service shop/web rejected: spec.ports[0].name "HTTP" is not a DNS-1123 label (lower case letters, digits and '-', at most 63 bytes); the previously accepted version, if any, stays in effect)"},
      {kPorts, "nodePort out of range", WebPorts("- {port: 80, nodePort: 65536}"),
       R"(Service shop/web rejected: spec.ports[0].nodePort 65536: must be between 0 and 65535, inclusive; the previously accepted version, if any, stays in effect)"},
      {kPorts, "duplicate nodePort",
       WebPorts("- {name: a, port: 80, nodePort: 30080}\n- {name: b, port: 81, nodePort: 30080}"),
       R"(Service shop/web rejected: spec.ports[1].nodePort 30080 with protocol TCP is also in spec.ports[0]; the previously accepted version, if any, stays in effect)"},

      {kPolicies, "unknown type", WebWith("type: Cluster"),
       R"(Service shop/web rejected: spec.type "Cluster" is not ClusterIP, NodePort, LoadBalancer or ExternalName; the previously accepted version, if any, stays in effect)"},
      {kPolicies, "unknown externalTrafficPolicy", WebWith("externalTrafficPolicy: local"),
       R"(Service shop/web rejected: spec.externalTrafficPolicy "local" is not Cluster or Local; the previously accepted version, if any, stays in effect)"},
      {kPolicies, "unknown internalTrafficPolicy", WebWith("internalTrafficPolicy: Global"),
       R"(Service shop/web rejected: spec.internalTrafficPolicy "Global" is not Cluster or Local; the previously accepted version, if any, stays in effect)"},
      {kPolicies, "unknown sessionAffinity", WebWith("sessionAffinity: Cookie"),
       R"(Service shop/web rejected: spec.sessionAffinity "Cookie" is not None or ClientIP; the previously accepted version, if any, stays in effect)"},
      {kPolicies, "session affinity timeout out of range",
       WebWith("sessionAffinity: ClientIP\n"
               "sessionAffinityConfig: {clientIP: {timeoutSeconds: 86401}}"),
       R"(Service shop/web rejected: spec.sessionAffinityConfig.clientIP.timeoutSeconds 86401: must be between 1 and 86400, inclusive; the previously accepted version, if any, stays in effect)"},
      {kPolicies, "healthCheckNodePort out of range", WebWith("healthCheckNodePort: 65536"),
       R"(Service shop/web rejected: spec.healthCheckNodePort 65536: must be between 0 and 65535, inclusive; the previously accepted version, if any, stays in effect)"},
      {kPolicies, "invalid source range",
       WebWith("loadBalancerSourceRanges: [10.0.0.0/8, 10.1.0.0/33]"),
       R"(Service shop/web: spec.loadBalancerSourceRanges[1] "10.1.0.0/33" is not a CIDR; it is skipped)"},
      {kPolicies, "only invalid source ranges",
       WebWith("loadBalancerSourceRanges: [10.0.0.0]") + kBalanced,
       R"(Service shop/web: spec.loadBalancerSourceRanges[0] "10.0.0.0" is not a CIDR; it is skipped)"
       "\n"
       R"(Service shop/web: spec.loadBalancerSourceRanges holds no IPv4 block; the IPv4 load balancer IPs are open to every source)"},
      {kPolicies, "source ranges for one of two IP families",
       WebWith("clusterIPs: [10.96.0.10, \"fd00::10\"]\nipFamilies: [IPv4, IPv6]\n"
               "loadBalancerSourceRanges: [10.0.0.0/8]") +
           kBalanced,
       R"(Service shop/web: spec.loadBalancerSourceRanges holds no IPv6 block; the IPv6 load balancer IPs are open to every source)"},
      {kPolicies, "externalTrafficPolicy Local without external addresses",
       WebWith("externalTrafficPolicy: Local"),
       R"(Service shop/web: spec.externalTrafficPolicy "Local" has no meaning for type ClusterIP without spec.externalIPs; it is treated as Cluster)"},
      {kPolicies, "missing healthCheckNodePort", WebWith("type: LoadBalancer\nexternalTrafficPolicy: Local"), R"(Service shop/web: spec.healthCheckNodePort is absent or 0; load balancers cannot ask this node whether it has endpoints)"},

      {kSlices, "missing Service name",
       "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
       "metadata: {namespace: shop, name: web-1}\naddressType: IPv4\n",
       R"(EndpointSlice shop/web-1: metadata.labels["kubernetes.io/service-name"] is absent; the slice belongs to no Service and is not used)"},
      {kSlices, "missing addressType", SliceText(""),
       R"(EndpointSlice shop/web-1 rejected: addressType is absent; the previously accepted version, if any, stays in effect)"},
      {kSlices, "unknown addressType", SliceText("addressType: ipv4"),
       R"(EndpointSlice shop/web-1 rejected: addressType "ipv4" is not IPv4, IPv6 or FQDN; the previously accepted version, if any, stays in effect)"},
      {kSlices, "addressType FQDN", SliceText("addressType: FQDN"),
       R"(EndpointSlice shop/web-1: addressType "FQDN" is not used; endpoints need IP addresses)"},
      {kSlices, "address of the wrong IP family",
       SliceWith("endpoints: [{addresses: [\"fd00::1\"]}]"),
       R"(EndpointSlice shop/web-1 rejected: endpoints[0].addresses[0] "fd00::1" is not an IPv4 address as addressType says; the previously accepted version, if any, stays in effect)"},
      {kSlices, "invalid address", SliceWith("endpoints: [{addresses: [pod-1]}]"),
       R"(EndpointSlice shop/web-1 rejected: endpoints[0].addresses[0] "pod-1" is not an IP address; the previously accepted version, if any, stays in effect)"},
      {kSlices, "loopback address",
       SliceWith("endpoints: [{addresses: [10.1.0.1]}, {addresses: [127.0.0.1]}]"),
       R"(EndpointSlice shop/web-1 rejected: endpoints[1].addresses[0] "127.0.0.1" is a loopback address; the previously accepted version, if any, stays in effect)"},
      {kSlices, "link-local address", SliceWith("endpoints: [{addresses: [169.254.1.1]}]"),
       R"(EndpointSlice shop/web-1 rejected: endpoints[0].addresses[0] "169.254.1.1" is a link-local address; the previously accepted version, if any, stays in effect)"},
      {kSlices, "duplicate address",
       SliceWith("endpoints: [{addresses: [10.1.0.1]}, {addresses: [10.1.0.001]}]"),
       R"(EndpointSlice shop/web-1: endpoints[1].addresses[0] "10.1.0.001" is also in endpoints[0]; it is used once)"},
      {kSlices, "endpoint without addresses", SliceWith("endpoints: [{addresses: []}]"),
       R"(EndpointSlice shop/web-1: endpoints[0].addresses is empty; the endpoint is skipped)"},
      {kSlices, "too many hints",
       SliceWith(
           "endpoints: [{addresses: [10.1.0.1], hints: {forZones: [{name: a}, {name: b},\n"
           "  {name: c}, {name: d}, {name: e}, {name: f}, {name: g}, {name: h}, {name: i}]}}]"),
       R"(EndpointSlice shop/web-1 rejected: endpoints[0].hints.forZones has 9 entries, more than 8 (the Kubernetes limit); name fewer; the previously accepted version, if any, stays in effect)"},
      {kSlices, "weight out of range",
       SliceWith("endpoints: [{addresses: [10.1.0.1]}, {addresses: [10.1.0.2], weight: 1001}]"),
       R"(EndpointSlice shop/web-1 rejected: endpoints[1].weight 1001: must be between 0 and 1000, inclusive; the previously accepted version, if any, stays in effect)"},
      {kSlices, "negative weight and non-numeric weight",
       SliceWith("endpoints: [{addresses: [10.1.0.1], weight: -1}]\n---\n") +
           SliceWith("endpoints: [{addresses: [10.1.0.1], weight: \"5\"}]"),
       R"(input.yaml: document 1, line 9: EndpointSlice shop/web-1: endpoints[0].weight -1 is negative
input.yaml: document 2, line 19: EndpointSlice shop/web-1: endpoints[0].weight "5" is not an integer)"},
      {kSlices, "10,000 endpoints", ManyEndpoints(10'000),
       R"(EndpointSlice shop/web-1 rejected: endpoints has 10000 entries, more than 1000 (the Kubernetes limit); split it into more slices; the previously accepted version, if any, stays in effect)"},
      {kSlices, "101 ports", ManyPorts(101),
       R"(EndpointSlice shop/web-1 rejected: ports has 101 entries, more than 100 (the Kubernetes limit); split it into more slices; the previously accepted version, if any, stays in effect)"},
      {kSlices, "port without a number",
       SliceText("addressType: IPv4\nports: [{port: 80}, {name: a}, {name: b, port: 0}]"),
       R"(EndpointSlice shop/web-1: ports[1].port is absent or 0; the port is skipped)"
       "\n"
       R"(EndpointSlice shop/web-1: ports[2].port is absent or 0; the port is skipped)"},
      {kSlices, "port number out of range",
       SliceText("addressType: IPv4\nports: [{name: a, port: 65536}]"),
       R"(EndpointSlice shop/web-1 rejected: ports[0].port 65536: must be between 1 and 65535, inclusive; the previously accepted version, if any, stays in effect)"},
      {kSlices, "duplicate port name",
       SliceText("addressType: IPv4\nports: [{name: a, port: 80}, {name: a, port: 81}]"),
       R"(EndpointSlice shop/web-1 rejected: ports[1].name "a" is also the name of ports[0]; the previously accepted version, if any, stays in effect)"},
      {kSlices, "unknown port protocol",
       SliceText("addressType: IPv4\nports: [{name: a, port: 80, protocol: ICMP}]"),
       R"(EndpointSlice shop/web-1 rejected: ports[0].protocol "ICMP" is not TCP, UDP or SCTP; the previously accepted version, if any, stays in effect)"},

      {kCluster, "invalid node address",
       "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
       "status: {addresses: [{type: Hostname, address: n1}, {type: InternalIP, address: n1}]}\n",
       R"(Node n1: status.addresses[1].address "n1" is not an IP address; it is skipped)"},
      {kCluster, "invalid pod CIDR",
       "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nspec: {podCIDRs: [10.1.0.0]}\n",
       R"(Node n1 rejected: spec.podCIDRs[0] "10.1.0.0" is not a CIDR; the previously accepted version, if any, stays in effect)"},
      {kCluster, "missing CIDR", Cidr(""),
       R"(ServiceCIDR kubernetes rejected: spec.cidrs is empty; the previously accepted version, if any, stays in effect)"},
      {kCluster, "invalid CIDR", Cidr("10.96.0.0/33"),
       R"(ServiceCIDR kubernetes rejected: spec.cidrs[0] "10.96.0.0/33" is not a CIDR; the previously accepted version, if any, stays in effect)"},
      {kCluster, "CIDR with host bits", Cidr("10.96.0.1/12"),
       R"(ServiceCIDR kubernetes rejected: spec.cidrs[0] "10.96.0.1/12" has bits set after the prefix; write 10.96.0.0/12; the previously accepted version, if any, stays in effect)"},
      {kCluster, "CIDR that contains all addresses", Cidr("\"::/0\""),
       R"(ServiceCIDR kubernetes rejected: spec.cidrs[0] "::/0" covers every address; the previously accepted version, if any, stays in effect)"},
      {kCluster, "two CIDRs of the same IP family", Cidr("10.96.0.0/16, 10.97.0.0/16"),
       R"(ServiceCIDR kubernetes rejected: spec.cidrs[1] "10.97.0.0/16" is a second IPv4 block; there is one per address family; the previously accepted version, if any, stays in effect)"},
      {kConflicts, "clusterIP and port of an older Service",
       Named("shop", "web", "2026-01-02T00:00:00Z", "port: 80") + "---\n" +
           Named("shop", "old-web", "2026-01-01T00:00:00Z", "port: 80"),
       R"(Service shop/web: spec.clusterIP 10.96.0.10:80/TCP already belongs to Service shop/old-web, which is older or, at the same age, first by name; it is not programmed)"},
      {kConflicts, "nodePort of a Service of the same age",
       Named("shop", "web", "2026-01-01T00:00:00Z", "port: 80, nodePort: 30080") + "---\n" +
           Named("shop", "api", "2026-01-01T00:00:00Z", "port: 81, nodePort: 30080"),
       R"(Service shop/web: spec.ports[].nodePort 30080/TCP already belongs to Service shop/api, which is older or, at the same age, first by name; it is not programmed)"},
  };
}

}  // namespace svcmap::api
