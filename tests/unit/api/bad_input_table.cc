#include "tests/unit/api/bad_input_table.h"

#include "absl/strings/str_cat.h"
#include "api/convert/convert.h"
#include "api/manifests/manifests.h"
#include "proxy/desired/service.h"
#include "proxy/state/store.h"

namespace svcmap::api {
namespace {

// Returns a manifest of Service shop/web with the given lines in its spec.
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

// Returns a manifest of Service shop/web, valid except for the number of externalIPs and ports.
std::string ManyExternalIps(int addresses, int ports) {
  std::string spec = "clusterIP: 10.96.0.10\nports:\n";
  for (int i = 1; i <= ports; ++i) absl::StrAppend(&spec, "- {name: p", i, ", port: ", i, "}\n");
  spec += "externalIPs:\n";
  for (int i = 0; i < addresses; ++i) {
    absl::StrAppend(&spec, "- 198.18.", i / 250, ".", i % 250 + 1, "\n");
  }
  return WebSpec(spec);
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

// Returns YAML in which each line expands to nine copies of the previous line ("billion laughs").
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
  proxy::TimerUses timer_uses = {};
  const Manifests manifests = ReadManifests(input, "input.yaml");
  Append(manifests.errors, out);
  Append(manifests.warnings, out);
  for (const ManifestObject& object : manifests.objects) {
    Append(object.unknown_fields, out);
    const auto converted = ConvertObject(object.object, {.node_name = "n1"});
    if (!converted.ok()) continue;
    Append(converted->findings, out);
    if (converted->change) store.Apply(*converted->change, 1);
  }
  const proxy::NodeFacts node = {
      .place = {.name = "n1", .zone = ""},
      .node_port_addresses = {*IpAddress::Parse("192.0.2.10")},
      .own_ip = {*IpAddress::Parse("192.0.2.10"), *IpAddress::Parse("::1")}};
  proxy::DesiredContext context{store.claims(), node, numbers, timers, timer_uses};
  while (store.dirty().First() != nullptr) {
    const std::string key = store.dirty().Take().key;
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
  constexpr std::string_view kConflicts = "Conflicts between objects";
  return {
      {kText, "invalid YAML", "kind: Service\n  name: [web\n",
       R"(input.yaml: document 1, line 2: invalid YAML: mapping values are not allowed in this context)"},
      {kText, "number that starts with 0", WebPorts("- port: 0120\n"),
       R"(input.yaml: document 1, line 7: Service shop/web: Invalid value: "0120": kubectl reads numbers that start with 0 as octal numbers: write the number without the 0, or in quotes)"},
      {kText, "number that starts with 0 in an unused kind",
       "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {mode: 0755}\n",
       R"(input.yaml: document 1, line 1: Deployment web: ignored because svcmap does not support this kind in apiVersion "apps/v1")"},
      {kText, "syntax error in one of several documents",
       "kind: [\n---\n" + WebWith("type: Cluster"),
       R"(input.yaml: document 1, line 2: invalid YAML: while parsing a flow node: did not find expected node content)"
       "\n"
       R"(Service shop/web rejected: spec.type: Unsupported value: "Cluster": supported values: "ClusterIP", "NodePort", "LoadBalancer", "ExternalName"; the previously accepted version, if any, stays in effect)"},
      {kText, "invalid JSON", "{\"kind\": \"Service\",\n \"metadata\": {\"name\": web}}\n",
       R"(input.yaml: document 1, line 2: invalid JSON at "\"name\": w": syntax error while parsing value - invalid literal)"},
      {kText, "truncated JSON", "{\"kind\": \"Service\",\n",
       R"(input.yaml: document 1, line 1: invalid JSON at "\"Service\",<U+000A>": syntax error while parsing object key - unexpected end of input; expected string literal)"},
      {kText, "binary data",
       "\x7f"
       "ELF\x02\x01\x01\xff\xfe\n",
       R"(input.yaml: document 1, line 1: must be UTF-8 text)"},
      {kText, "document that is not an object", "- 1\n- 2\n",
       R"(input.yaml: document 1, line 1: must be a map)"},
      {kText, "missing kind", "apiVersion: v1\nmetadata: {name: web}\n",
       R"(input.yaml: document 1, line 1: (no kind) web: kind: Required value: must be a string)"},
      {kText, "missing apiVersion", "kind: Service\nmetadata: {namespace: shop, name: web}\n",
       R"(input.yaml: document 1, line 1: Service shop/web: apiVersion: Required value: must be a string)"},
      {kText, "unused kind", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n",
       R"(input.yaml: document 1, line 1: Deployment web: ignored because svcmap does not support this kind in apiVersion "apps/v1")"},
      {kText, "kind Service of another API group",
       "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: web}\n",
       R"(input.yaml: document 1, line 1: Service web: ignored because svcmap does not support this kind in apiVersion "serving.knative.dev/v1")"},
      {kText, "unsupported API version",
       "apiVersion: discovery.k8s.io/v1beta1\nkind: EndpointSlice\n",
       R"(input.yaml: document 1, line 1: EndpointSlice: apiVersion: Invalid value: "discovery.k8s.io/v1beta1": must be "discovery.k8s.io/v1")"},
      {kText, "text instead of a number", WebPorts("- port: http"),
       R"(input.yaml: document 1, line 7: Service shop/web: spec.ports[0].port: Invalid value: "http": must be an integer)"},
      {kText, "quoted number", WebPorts("- port: \"80\""),
       R"(input.yaml: document 1, line 7: Service shop/web: spec.ports[0].port: Invalid value: "80": must be an integer)"},
      {kText, "number that is too large", WebPorts("- port: 99999999999"),
       R"(input.yaml: document 1, line 7: Service shop/web: spec.ports[0].port: Invalid value: 99999999999: must fit into 32 bits)"},
      {kText, "number instead of a string", WebSpec("clusterIP: 10\nports: [{port: 80}]"),
       R"(input.yaml: document 1, line 5: Service shop/web: spec.clusterIP: Invalid value: 10: must be a string)"},
      {kText, "map instead of a list", WebSpec("clusterIP: 10.96.0.10\nports: {port: 80}"),
       R"(input.yaml: document 1, line 6: Service shop/web: spec.ports: must be a list)"},
      {kText, "invalid time",
       "apiVersion: v1\nkind: Service\nmetadata: {name: web, creationTimestamp: yesterday}\n",
       R"(input.yaml: document 1, line 3: Service web: metadata.creationTimestamp: Invalid value: "yesterday": must be an RFC 3339 time, such as "2026-01-31T12:00:00Z")"},
      {kText, "duplicate field", WebWith("type: ClusterIP\ntype: NodePort"),
       R"(input.yaml: document 1, line 8: Service shop/web: Duplicate value: "type": a map must not contain a key twice)"},
      {kText, "merge key", WebWith("<<: {type: NodePort}"),
       R"(input.yaml: document 1, line 7: Service shop/web: merge keys (<<) are not supported; write the fields out)"},
      {kText, "exponential aliases (billion laughs)", Laughs(),
       R"(input.yaml: document 1, line 8: aliases must not expand to more than 100000 values or 10000000 bytes)"},
      {kText, "deeply nested YAML", std::string(100'000, '['),
       R"(input.yaml: document 1, line 1: maps and lists must not be nested deeper than 64 levels)"},
      {kText, "deeply nested JSON", "{\"a\":" + std::string(100'000, '['),
       R"(input.yaml: document 1, line 1: maps and lists must not be nested deeper than 64 levels)"},
      {kText, "unknown fields (accepted)",
       WebWith("selector: {app: web}\nexternalTraficPolicy: Local\nwhatever: [1, {a: b}]"),
       R"(input.yaml: document 1, line 8: Service shop/web: spec.externalTraficPolicy: unknown field, which is ignored; did you mean "externalTrafficPolicy"?
input.yaml: document 1, line 9: Service shop/web: spec.whatever: unknown field, which is ignored)"},

      {kNames, "missing name", "apiVersion: v1\nkind: Service\nmetadata: {namespace: shop}\n",
       R"(Service shop/(no name) rejected: metadata.name: Required value; the previously accepted version, if any, stays in effect)"},
      {kNames, "invalid name",
       "apiVersion: v1\nkind: Service\nmetadata: {namespace: shop, name: Web_1}\n",
       R"(Service shop/Web_1 rejected: metadata.name: Invalid value: "Web_1": must be a DNS-1123 label: at most 63 lowercase letters, digits and '-'; the previously accepted version, if any, stays in effect)"},
      {kNames, "invalid namespace",
       "apiVersion: v1\nkind: Service\nmetadata: {namespace: shop.eu, name: web}\n",
       R"(Service shop.eu/web rejected: metadata.namespace: Invalid value: "shop.eu": must be a DNS-1123 label: at most 63 lowercase letters, digits and '-'; the previously accepted version, if any, stays in effect)"},
      {kNames, "long name with control characters",
       "apiVersion: v1\nkind: Service\nmetadata:\n  namespace: shop\n  name: \"\\e[31m" +
           std::string(100, 'x') + "\"\n",
       R"(Service shop/\u001b[31mxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx... rejected: metadata.name: Invalid value: "\u001b[31mxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"...: must be a DNS-1123 label: at most 63 lowercase letters, digits and '-'; the previously accepted version, if any, stays in effect)"},
      {kNames, "namespace on a cluster-scoped object",
       "apiVersion: v1\nkind: Node\nmetadata: {namespace: shop, name: n1}\n",
       R"(Node n1 rejected: metadata.namespace: Invalid value: "shop": must be empty because a Node has no namespace; the previously accepted version, if any, stays in effect)"},

      {kAddresses, "missing clusterIP", WebSpec("ports: [{port: 80}]"),
       R"(Service shop/web: spec.clusterIP: Required value: the Service is not programmed without a cluster IP)"},
      {kAddresses, "invalid clusterIP", WebSpec("clusterIP: 10.96.0.300\nports: [{port: 80}]"),
       R"(Service shop/web rejected: spec.clusterIP: Invalid value: "10.96.0.300": must be a valid IP address; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "unspecified clusterIP",
       WebSpec("clusterIP: 0.0.0.0\nports: [{port: 80}]"), R"(Service shop/web rejected: spec.clusterIP: Invalid value: "0.0.0.0": must not be the unspecified address; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "multicast clusterIP", WebSpec("clusterIP: \"ff02::1\"\nports: [{port: 80}]"),
       R"(Service shop/web rejected: spec.clusterIP: Invalid value: "ff02::1": must not be a multicast address; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "clusterIPs without clusterIP",
       WebSpec("clusterIPs: [10.96.0.10]\nports: [{port: 80}]"),
       R"(Service shop/web rejected: spec.clusterIP: Required value: must be equal to spec.clusterIPs[0] "10.96.0.10"; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "clusterIPs that do not match clusterIP", WebWith("clusterIPs: [10.96.0.11]"),
       R"(Service shop/web rejected: spec.clusterIPs[0]: Invalid value: "10.96.0.11": must be equal to spec.clusterIP "10.96.0.10"; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "three clusterIPs",
       WebWith("clusterIPs: [10.96.0.10, \"fd00::10\", 10.96.0.11]"),
       R"(Service shop/web rejected: spec.clusterIPs: Too many: 3: must have at most 2 items; use one for each IP family; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "two clusterIPs of the same family",
       WebWith("clusterIPs: [10.96.0.10, 10.96.0.11]"),
       R"(Service shop/web rejected: spec.clusterIPs[1]: Invalid value: "10.96.0.11": must be an IPv6 address because spec.clusterIPs[0] is an IPv4 address; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "clusterIPs that do not match ipFamilies",
       WebWith("clusterIPs: [10.96.0.10]\nipFamilies: [IPv6]"),
       R"(Service shop/web rejected: spec.clusterIPs[0]: Invalid value: "10.96.0.10": must be an IPv6 address because spec.ipFamilies[0] is "IPv6"; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "unknown IP family", WebWith("ipFamilies: [IPv5]"),
       R"(Service shop/web rejected: spec.ipFamilies[0]: Unsupported value: "IPv5": supported values: "IPv4", "IPv6"; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "duplicate IP family", WebWith("ipFamilies: [IPv4, IPv4]"),
       R"(Service shop/web rejected: spec.ipFamilies[1]: Duplicate value: "IPv4"; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "clusterIP without an entry in ipFamilies",
       WebWith("clusterIPs: [10.96.0.10, \"fd00::10\"]\nipFamilies: [IPv4]"),
       R"(Service shop/web: spec.clusterIPs[1]: Invalid value: "fd00::10": has no matching entry in spec.ipFamilies; the address is ignored)"},
      {kAddresses, "invalid externalIP (blank entries cause no warning)",
       WebWith("externalIPs: [192.0.2.7, \"\", 10.0.0.999]"),
       R"(Service shop/web: spec.externalIPs[2]: Invalid value: "10.0.0.999": must be a valid IP address; the entry is ignored)"},
      {kAddresses, "addresses with leading zeros",
       WebSpec("clusterIP: 010.96.0.10\nports: [{port: 80}]\nexternalIPs: [192.0.2.007]"),
       R"(Service shop/web: spec.clusterIP: Invalid value: "010.96.0.10": must not have leading 0s; 10.96.0.10 is used)"
       "\n"
       R"(Service shop/web: spec.externalIPs[0]: Invalid value: "192.0.2.007": must not have leading 0s; 192.0.2.7 is used)"},
      {kAddresses, "IPv4-mapped clusterIP",
       WebSpec("clusterIP: \"::ffff:10.96.0.10\"\nports: [{port: 80}]"),
       R"(Service shop/web rejected: spec.clusterIP: Invalid value: "::ffff:10.96.0.10": must not be an IPv4-mapped IPv6 address; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "IPv4-mapped externalIP", WebWith("externalIPs: [\"::FFFF:192.0.2.7\"]"),
       R"(Service shop/web: spec.externalIPs[0]: Invalid value: "::FFFF:192.0.2.7": must not be an IPv4-mapped IPv6 address; the entry is ignored)"},
      {kAddresses, "loopback externalIP", WebWith("externalIPs: [127.0.0.1]"),
       R"(Service shop/web rejected: spec.externalIPs[0]: Invalid value: "127.0.0.1": must not be a loopback address; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "multicast externalIP",
       WebWith("externalIPs: [239.1.1.1, 192.0.2.7, \"ff05::1\"]"),
       R"(Service shop/web: spec.externalIPs[0]: Invalid value: "239.1.1.1": must not be a multicast address; the entry is ignored)"
       "\n"
       R"(Service shop/web: spec.externalIPs[2]: Invalid value: "ff05::1": must not be a multicast address; the entry is ignored)"},
      {kAddresses, "5,000 externalIPs and 1,000 ports", ManyExternalIps(5'000, 1'000),
       R"(Service shop/web rejected: spec.externalIPs: Too many: 5000: the number of ports (1000) times the number of IPv4 addresses (5001) exceeds svcmap's limit of 65536; the previously accepted version, if any, stays in effect)"},
      {kAddresses, "invalid load balancer IP",
       WebWith("") + "status: {loadBalancer: {ingress: [{ip: 1.2.3}, {ip: 192.0.2.8}]}}\n",
       R"(Service shop/web: status.loadBalancer.ingress[0].ip: Invalid value: "1.2.3": must be a valid IP address; the entry is ignored)"},
      {kAddresses, "unknown ipMode",
       WebWith("") + "status: {loadBalancer: {ingress: [{ip: 192.0.2.8, ipMode: Tunnel}]}}\n",
       R"(Service shop/web rejected: status.loadBalancer.ingress[0].ipMode: Unsupported value: "Tunnel": supported values: "VIP", "Proxy"; the previously accepted version, if any, stays in effect)"},

      {kPorts, "missing ports",
       WebSpec("clusterIP: 10.96.0.10"), R"(Service shop/web rejected: spec.ports: Required value: a Service with a cluster IP must have a port; the previously accepted version, if any, stays in effect)"},
      {kPorts, "port number out of range",
       WebPorts("- {name: a, port: 80}\n- {name: b, port: 70000}"),
       R"(Service shop/web rejected: spec.ports[1].port: Invalid value: 70000: must be between 1 and 65535, inclusive; the previously accepted version, if any, stays in effect)"},
      {kPorts, "port 0", WebPorts("- {port: 0}"),
       R"(Service shop/web rejected: spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive; the previously accepted version, if any, stays in effect)"},
      {kPorts, "negative port number", WebPorts("- {port: -1}"),
       R"(Service shop/web rejected: spec.ports[0].port: Invalid value: -1: must be between 1 and 65535, inclusive; the previously accepted version, if any, stays in effect)"},
      {kPorts, "unknown protocol", WebPorts("- {port: 80, protocol: tcp}"),
       R"(Service shop/web rejected: spec.ports[0].protocol: Unsupported value: "tcp": supported values: "TCP", "UDP", "SCTP"; the previously accepted version, if any, stays in effect)"},
      {kPorts, "duplicate port number",
       WebPorts("- {name: a, port: 53, protocol: UDP}\n- {name: b, port: 53}\n"
                "- {name: c, port: 53, protocol: UDP}"),
       R"(Service shop/web rejected: spec.ports[2].port: Duplicate value: 53: already used with protocol UDP by spec.ports[0]; the previously accepted version, if any, stays in effect)"},
      {kPorts, "duplicate port name", WebPorts("- {name: a, port: 80}\n- {name: a, port: 81}"),
       R"(Service shop/web rejected: spec.ports[1].name: Duplicate value: "a": already used by spec.ports[0]; the previously accepted version, if any, stays in effect)"},
      {kPorts, "multiple ports without names", WebPorts("- {name: a, port: 80}\n- {port: 81}"),
       R"(Service shop/web rejected: spec.ports[1].name: Required value: every port of a multi-port Service must have a name; the previously accepted version, if any, stays in effect)"},
      {kPorts, "invalid port name", WebPorts("- {name: HTTP, port: 80}"),
       R"(Service shop/web rejected: spec.ports[0].name: Invalid value: "HTTP": must be a DNS-1123 label: at most 63 lowercase letters, digits and '-'; the previously accepted version, if any, stays in effect)"},
      {kPorts, "nodePort out of range", WebPorts("- {port: 80, nodePort: 65536}"),
       R"(Service shop/web rejected: spec.ports[0].nodePort: Invalid value: 65536: must be between 0 and 65535, inclusive; the previously accepted version, if any, stays in effect)"},
      {kPorts, "duplicate nodePort",
       WebPorts("- {name: a, port: 80, nodePort: 30080}\n- {name: b, port: 81, nodePort: 30080}"),
       R"(Service shop/web rejected: spec.ports[1].nodePort: Duplicate value: 30080: already used with protocol TCP by spec.ports[0]; the previously accepted version, if any, stays in effect)"},
      {kPorts, "last port of a port range below its first port",
       WebPorts("- {port: 2000, endPort: 1000}"),
       R"(Service shop/web rejected: spec.ports[0].endPort: Invalid value: 1000: must be between 2000 and 65535, inclusive; the previously accepted version, if any, stays in effect)"},
      {kPorts, "nodePort of a port range",
       WebPorts("- {port: 1000, endPort: 2000, nodePort: 30080}"),
       R"(Service shop/web rejected: spec.ports[0].nodePort: Invalid value: 30080: must be 0 for a port range; the previously accepted version, if any, stays in effect)"},
      {kPorts, "port ranges that overlap",
       WebPorts("- {name: a, port: 1000, endPort: 2000}\n- {name: b, port: 1500, endPort: 3000}"),
       R"(Service shop/web rejected: spec.ports[1].endPort: Duplicate value: 1500-3000: already used with protocol TCP by spec.ports[0]; the previously accepted version, if any, stays in effect)"},
      {kPorts, "port range without the flag --port-ranges",
       WebPorts("- {port: 1000, endPort: 2000}"),
       R"(Service shop/web: spec.ports[0]: Forbidden: 1000-2000: svcmapd runs without --port-ranges; the port range is not programmed)"},

      {kPolicies, "unknown type", WebWith("type: Cluster"),
       R"(Service shop/web rejected: spec.type: Unsupported value: "Cluster": supported values: "ClusterIP", "NodePort", "LoadBalancer", "ExternalName"; the previously accepted version, if any, stays in effect)"},
      {kPolicies, "unknown externalTrafficPolicy", WebWith("externalTrafficPolicy: local"),
       R"(Service shop/web rejected: spec.externalTrafficPolicy: Unsupported value: "local": supported values: "Cluster", "Local"; the previously accepted version, if any, stays in effect)"},
      {kPolicies, "unknown internalTrafficPolicy",
       WebWith("internalTrafficPolicy: Global"), R"(Service shop/web rejected: spec.internalTrafficPolicy: Unsupported value: "Global": supported values: "Cluster", "Local"; the previously accepted version, if any, stays in effect)"},
      {kPolicies, "unknown sessionAffinity", WebWith("sessionAffinity: Cookie"),
       R"(Service shop/web rejected: spec.sessionAffinity: Unsupported value: "Cookie": supported values: "None", "ClientIP"; the previously accepted version, if any, stays in effect)"},
      {kPolicies, "unknown endpointPick", WebWith("endpointPick: Maglev"),
       R"(Service shop/web rejected: spec.endpointPick: Unsupported value: "Maglev": supported values: "Random", "ClientIP", "ClientIPAndPort"; the previously accepted version, if any, stays in effect)"},
      {kPolicies, "unsupported pickTableSize",
       WebWith("endpointPick: ClientIP\npickTableSize: 1000"),
       R"(Service shop/web rejected: spec.pickTableSize: Invalid value: 1000: must be 251, 1021 or 4093; the previously accepted version, if any, stays in effect)"},
      {kPolicies, "session affinity timeout out of range",
       WebWith("sessionAffinity: ClientIP\n"
               "sessionAffinityConfig: {clientIP: {timeoutSeconds: 86401}}"),
       R"(Service shop/web rejected: spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be between 1 and 86400, inclusive; the previously accepted version, if any, stays in effect)"},
      {kPolicies, "healthCheckNodePort out of range", WebWith("healthCheckNodePort: 65536"),
       R"(Service shop/web rejected: spec.healthCheckNodePort: Invalid value: 65536: must be between 0 and 65535, inclusive; the previously accepted version, if any, stays in effect)"},
      {kPolicies, "invalid source range",
       WebWith("loadBalancerSourceRanges: [10.0.0.0/8, 10.1.0.0/33]"),
       R"(Service shop/web: spec.loadBalancerSourceRanges[1]: Invalid value: "10.1.0.0/33": must be a valid CIDR; the entry is ignored)"},
      {kPolicies, "ambiguous source ranges",
       WebWith("loadBalancerSourceRanges: [10.1.2.3/8, 203.0.113.000/24, 192.0.2.0/024, "
               "\"::ffff:10.0.0.0/104\"]"),
       R"(Service shop/web: spec.loadBalancerSourceRanges[0]: Invalid value: "10.1.2.3/8": must not have bits set beyond the prefix length; 10.0.0.0/8 is used)"
       "\n"
       R"(Service shop/web: spec.loadBalancerSourceRanges[1]: Invalid value: "203.0.113.000/24": must not have leading 0s in IP or prefix length; 203.0.113.0/24 is used)"
       "\n"
       R"(Service shop/web: spec.loadBalancerSourceRanges[2]: Invalid value: "192.0.2.0/024": must not have leading 0s in IP or prefix length; 192.0.2.0/24 is used)"
       "\n"
       R"(Service shop/web: spec.loadBalancerSourceRanges[3]: Invalid value: "::ffff:10.0.0.0/104": must not have an IPv4-mapped IPv6 address; the entry is ignored)"},
      {kPolicies, "only invalid source ranges",
       WebWith("loadBalancerSourceRanges: [10.0.0.0]") + kBalanced,
       R"(Service shop/web: spec.loadBalancerSourceRanges[0]: Invalid value: "10.0.0.0": must be a valid CIDR; the entry is ignored)"
       "\n"
       R"(Service shop/web: spec.loadBalancerSourceRanges: Invalid value: contains no valid IPv4 CIDR; the IPv4 load balancer IPs accept traffic from all sources)"},
      {kPolicies, "source ranges for one of two IP families",
       WebWith("clusterIPs: [10.96.0.10, \"fd00::10\"]\nipFamilies: [IPv4, IPv6]\n"
               "loadBalancerSourceRanges: [10.0.0.0/8]") +
           kBalanced,
       R"(Service shop/web: spec.loadBalancerSourceRanges: Invalid value: contains no valid IPv6 CIDR; the IPv6 load balancer IPs accept traffic from all sources)"},
      {kPolicies, "externalTrafficPolicy Local without external addresses",
       WebWith("externalTrafficPolicy: Local"),
       R"(Service shop/web: spec.externalTrafficPolicy: Invalid value: "Local": has no effect for type ClusterIP without spec.externalIPs; "Cluster" is used)"},
      {kPolicies, "missing healthCheckNodePort",
       WebWith("type: LoadBalancer\nexternalTrafficPolicy: Local"),
       R"(Service shop/web: spec.healthCheckNodePort: Required value: without this port, load balancers cannot check whether this node has endpoints)"},
      {kPolicies, "invalid annotation for resets of stale TCP connections",
       "apiVersion: v1\nkind: Service\n"
       "metadata: {namespace: shop, name: web, annotations: {svcmap/reset-stale-tcp: \"yes\"}}\n"
       "spec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}\n",
       R"(Service shop/web: metadata.annotations["svcmap/reset-stale-tcp"]: Invalid value: "yes": must be "true" or "false"; the annotation is ignored)"},
      {kPolicies, "invalid annotation for picks by hash",
       "apiVersion: v1\nkind: Service\n"
       "metadata: {namespace: shop, name: web, annotations: {svcmap/endpoint-pick: source}}\n"
       "spec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}\n",
       R"(Service shop/web: metadata.annotations["svcmap/endpoint-pick"]: Invalid value: "source": must be "Random", "ClientIP" or "ClientIPAndPort"; endpoints are picked at random)"},
      {kPolicies, "invalid annotation for the size of hash tables",
       "apiVersion: v1\nkind: Service\n"
       "metadata: {namespace: shop, name: web, annotations: {svcmap/pick-table-size: \"0251\"}}\n"
       "spec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}\n",
       R"(Service shop/web: metadata.annotations["svcmap/pick-table-size"]: Invalid value: "0251": must be 251, 1021 or 4093; the default is used)"},
      {kPolicies, "invalid annotation for Services without local endpoints",
       "apiVersion: v1\nkind: Service\n"
       "metadata: {namespace: shop, name: web, annotations: {svcmap/no-local-endpoint: pass}}\n"
       "spec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}\n",
       R"(Service shop/web: metadata.annotations["svcmap/no-local-endpoint"]: Invalid value: "pass": must be "route"; the annotation is ignored)"},
      {kPolicies, "invalid annotation for port ranges",
       "apiVersion: v1\nkind: Service\n"
       "metadata: {namespace: shop, name: web, annotations: {svcmap/end-ports: \"media=9000\"}}\n"
       "spec: {clusterIP: 10.96.0.10, ports: [{name: media, port: 10000}]}\n",
       R"(Service shop/web: metadata.annotations["svcmap/end-ports"]: Invalid value: "media=9000": must be between 10000 and 65535, inclusive; the entry is ignored)"},

      {kSlices, "missing Service name",
       "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
       "metadata: {namespace: shop, name: web-1}\naddressType: IPv4\n",
       R"(EndpointSlice shop/web-1: metadata.labels["kubernetes.io/service-name"]: Required value: the EndpointSlice belongs to no Service and is not used)"},
      {kSlices, "missing addressType", SliceText(""),
       R"(EndpointSlice shop/web-1 rejected: addressType: Required value; the previously accepted version, if any, stays in effect, without endpoints that are missing from the rejected version)"},
      {kSlices, "unknown addressType", SliceText("addressType: ipv4"),
       R"(EndpointSlice shop/web-1 rejected: addressType: Unsupported value: "ipv4": supported values: "IPv4", "IPv6", "FQDN"; the previously accepted version, if any, stays in effect, without endpoints that are missing from the rejected version)"},
      {kSlices, "addressType FQDN", SliceText("addressType: FQDN"),
       R"(EndpointSlice shop/web-1: addressType: Unsupported value: "FQDN": the EndpointSlice is not used)"},
      {kSlices, "address of the wrong IP family",
       SliceWith("endpoints: [{addresses: [\"fd00::1\"]}]"),
       R"(EndpointSlice shop/web-1 rejected: endpoints[0].addresses[0]: Invalid value: "fd00::1": must be an IPv4 address because addressType is "IPv4"; the previously accepted version, if any, stays in effect, without endpoints that are missing from the rejected version)"},
      {kSlices, "invalid address", SliceWith("endpoints: [{addresses: [pod-1]}]"),
       R"(EndpointSlice shop/web-1 rejected: endpoints[0].addresses[0]: Invalid value: "pod-1": must be a valid IP address; the previously accepted version, if any, stays in effect, without endpoints that are missing from the rejected version)"},
      {kSlices, "address with leading zeros", SliceWith("endpoints: [{addresses: [10.1.0.010]}]"),
       R"(EndpointSlice shop/web-1: endpoints[0].addresses[0]: Invalid value: "10.1.0.010": must not have leading 0s; 10.1.0.10 is used)"},
      {kSlices, "loopback address",
       SliceWith("endpoints: [{addresses: [10.1.0.1]}, {addresses: [127.0.0.1]}]"),
       R"(EndpointSlice shop/web-1 rejected: endpoints[1].addresses[0]: Invalid value: "127.0.0.1": must not be a loopback address; the previously accepted version, if any, stays in effect, without endpoints that are missing from the rejected version)"},
      {kSlices, "link-local address", SliceWith("endpoints: [{addresses: [169.254.1.1]}]"),
       R"(EndpointSlice shop/web-1 rejected: endpoints[0].addresses[0]: Invalid value: "169.254.1.1": must not be a link-local address; the previously accepted version, if any, stays in effect, without endpoints that are missing from the rejected version)"},
      {kSlices, "duplicate address",
       SliceWith("endpoints: [{addresses: [10.1.0.1]}, {addresses: [10.1.0.001]}]"),
       R"(EndpointSlice shop/web-1: endpoints[1].addresses[0]: Invalid value: "10.1.0.001": must not have leading 0s; 10.1.0.1 is used)"
       "\n"
       R"(EndpointSlice shop/web-1: endpoints[1].addresses[0]: Duplicate value: "10.1.0.001": already used by endpoints[0]; the address is used only once)"},
      {kSlices, "endpoint without addresses", SliceWith("endpoints: [{addresses: []}]"),
       R"(EndpointSlice shop/web-1: endpoints[0].addresses: Required value: the endpoint is ignored)"},
      {kSlices, "too many hints",
       SliceWith(
           "endpoints: [{addresses: [10.1.0.1], hints: {forZones: [{name: a}, {name: b},\n"
           "  {name: c}, {name: d}, {name: e}, {name: f}, {name: g}, {name: h}, {name: i}]}}]"),
       R"(EndpointSlice shop/web-1 rejected: endpoints[0].hints.forZones: Too many: 9: must have at most 8 items; remove some; the previously accepted version, if any, stays in effect, without endpoints that are missing from the rejected version)"},
      {kSlices, "weight out of range",
       SliceWith("endpoints: [{addresses: [10.1.0.1]}, {addresses: [10.1.0.2], weight: 1001}]"),
       R"(EndpointSlice shop/web-1 rejected: endpoints[1].weight: Invalid value: 1001: must be between 0 and 1000, inclusive; the previously accepted version, if any, stays in effect, without endpoints that are missing from the rejected version)"},
      {kSlices, "invalid annotation for weights",
       "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
       "metadata: {namespace: shop, name: web-1, labels: {kubernetes.io/service-name: web},\n"
       "           annotations: {svcmap/weight: \"1001\"}}\n"
       "addressType: IPv4\nendpoints: [{addresses: [10.1.0.1]}]\n",
       R"(EndpointSlice shop/web-1: metadata.annotations["svcmap/weight"]: Invalid value: "1001": must be a number between 0 and 1000; the weight 1 is used)"},
      {kSlices, "negative weight and non-numeric weight",
       SliceWith("endpoints: [{addresses: [10.1.0.1], weight: -1}]\n---\n") +
           SliceWith("endpoints: [{addresses: [10.1.0.1], weight: \"5\"}]"),
       R"(input.yaml: document 1, line 9: EndpointSlice shop/web-1: endpoints[0].weight: Invalid value: -1: must be greater than or equal to 0
input.yaml: document 2, line 19: EndpointSlice shop/web-1: endpoints[0].weight: Invalid value: "5": must be an integer)"},
      {kSlices, "10,000 endpoints", ManyEndpoints(10'000),
       R"(EndpointSlice shop/web-1 rejected: endpoints: Too many: 10000: must have at most 1000 items; use more EndpointSlices; the previously accepted version, if any, stays in effect, without endpoints that are missing from the rejected version)"},
      {kSlices, "20,001 ports", ManyPorts(20'001),
       R"(EndpointSlice shop/web-1 rejected: ports: Too many: 20001: must have at most 20000 items; use more EndpointSlices; the previously accepted version, if any, stays in effect, without endpoints that are missing from the rejected version)"},
      {kSlices, "port without a number",
       SliceText("addressType: IPv4\nports: [{port: 80}, {name: a}, {name: b, port: 0}]"),
       R"(EndpointSlice shop/web-1: ports[1].port: Required value: the port is ignored)"
       "\n"
       R"(EndpointSlice shop/web-1: ports[2].port: Required value: the port is ignored)"},
      {kSlices, "port number out of range",
       SliceText("addressType: IPv4\nports: [{name: a, port: 65536}, {name: b, port: 80}]"),
       R"(EndpointSlice shop/web-1: ports[0].port: Invalid value: 65536: must be between 1 and 65535, inclusive; the entry is ignored)"},
      {kSlices, "duplicate port name",
       SliceText("addressType: IPv4\nports: [{name: a, port: 80}, {name: a, port: 81}]"),
       R"(EndpointSlice shop/web-1 rejected: ports[1].name: Duplicate value: "a": already used by ports[0]; the previously accepted version, if any, stays in effect, without endpoints that are missing from the rejected version)"},
      {kSlices, "unknown port protocol",
       SliceText("addressType: IPv4\nports: [{name: a, port: 80, protocol: ICMP}]"),
       R"(EndpointSlice shop/web-1 rejected: ports[0].protocol: Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"; the previously accepted version, if any, stays in effect, without endpoints that are missing from the rejected version)"},

      {kCluster, "invalid node address",
       "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
       "status: {addresses: [{type: Hostname, address: n1}, {type: InternalIP, address: n1}]}\n",
       R"(Node n1: status.addresses[1].address: Invalid value: "n1": must be a valid IP address; the entry is ignored)"},
      {kCluster, "invalid pod CIDR",
       "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nspec: {podCIDRs: [10.1.0.0]}\n",
       R"(Node n1 rejected: spec.podCIDRs[0]: Invalid value: "10.1.0.0": must be a valid CIDR; the previously accepted version, if any, stays in effect)"},
      {kCluster, "pod CIDR with host bits",
       "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nspec: {podCIDRs: [10.244.1.1/24]}\n",
       R"(Node n1: spec.podCIDRs[0]: Invalid value: "10.244.1.1/24": must not have bits set beyond the prefix length; 10.244.1.0/24 is used)"},
      {kCluster, "missing CIDR", Cidr(""),
       R"(ServiceCIDR kubernetes rejected: spec.cidrs: Required value; the previously accepted version, if any, stays in effect)"},
      {kCluster, "invalid CIDR", Cidr("10.96.0.0/33"),
       R"(ServiceCIDR kubernetes rejected: spec.cidrs[0]: Invalid value: "10.96.0.0/33": must be a valid CIDR; the previously accepted version, if any, stays in effect)"},
      {kCluster, "CIDR with host bits", Cidr("10.96.0.1/12"),
       R"(ServiceCIDR kubernetes rejected: spec.cidrs[0]: Invalid value: "10.96.0.1/12": must not have host bits set; use 10.96.0.0/12; the previously accepted version, if any, stays in effect)"},
      {kCluster, "CIDR that contains all addresses", Cidr("\"::/0\""),
       R"(ServiceCIDR kubernetes rejected: spec.cidrs[0]: Invalid value: "::/0": must not contain all addresses; the previously accepted version, if any, stays in effect)"},
      {kCluster, "two CIDRs of the same IP family", Cidr("10.96.0.0/16, 10.97.0.0/16"),
       R"(ServiceCIDR kubernetes rejected: spec.cidrs[1]: Invalid value: "10.97.0.0/16": must be an IPv6 CIDR because spec.cidrs[0] is an IPv4 CIDR; the previously accepted version, if any, stays in effect)"},
      {kConflicts, "clusterIP and port of an older Service",
       Named("shop", "web", "2026-01-02T00:00:00Z", "port: 80") + "---\n" +
           Named("shop", "old-web", "2026-01-01T00:00:00Z", "port: 80"),
       R"(Service shop/web: spec.clusterIP: Duplicate value: 10.96.0.10:80/TCP: already used by Service shop/old-web, which is older, was received first, or is first by name; not programmed)"},
      {kConflicts, "nodePort of a Service of the same age",
       Named("shop", "web", "2026-01-01T00:00:00Z", "port: 80, nodePort: 30080") + "---\n" +
           Named("shop", "api", "2026-01-01T00:00:00Z", "port: 81, nodePort: 30080"),
       R"(Service shop/web: spec.ports[].nodePort: Duplicate value: 30080/TCP: already used by Service shop/api, which is older, was received first, or is first by name; not programmed)"},
      {kConflicts, "healthCheckNodePort that is a nodePort of another Service",
       WebWith("type: LoadBalancer\nexternalTrafficPolicy: Local\nhealthCheckNodePort: 30080") +
           "---\n" + Named("shop", "api", "2026-01-01T00:00:00Z", "port: 81, nodePort: 30080"),
       R"(Service shop/web: spec.healthCheckNodePort: Duplicate value: 30080: is also a nodePort of Service shop/api; load balancers that check the health of this Service reach the other Service)"},
      {kConflicts, "EndpointSlice without the port of its Service",
       WebWith("") + "---\n" +
           SliceText("addressType: IPv4\nports: [{name: http, port: 8080}]\n"
                     "endpoints: [{addresses: [10.1.0.1]}]\n"),
       R"(EndpointSlice shop/web-1: ports: Invalid value: http/TCP: the Service has no port with this name and protocol, and port ""/TCP of Service shop/web gets no endpoints from this EndpointSlice)"},
  };
}

}  // namespace svcmap::api
