#include "tests/unit/api/field_limits.h"

#include "absl/strings/str_cat.h"

namespace svcmap::api {
namespace {

// Returns `item(1)` to `item(count)`, separated by commas.
template <typename Item>
std::string List(int count, Item item) {
  std::string list;
  for (int i = 1; i <= count; ++i) absl::StrAppend(&list, i == 1 ? "" : ", ", item(i));
  return list;
}

std::string Name(int length) { return std::string(static_cast<size_t>(length), 'a'); }

// Returns a name of several labels.
std::string Subdomain(int length) {
  std::string name = Name(length);
  for (int i = 50; i < length - 1; i += 50) name[static_cast<size_t>(i)] = '.';
  return name;
}

// Returns the error about a label that is too long.
std::string LongLabel(int length) {
  return absl::StrCat("Invalid value: \"", Name(length),
                      "\": must be a DNS-1123 label: at most 63 lowercase letters, digits and '-'");
}

std::string Service(const std::string& name_space, const std::string& name,
                    const std::string& spec) {
  return absl::StrCat("apiVersion: v1\nkind: Service\nmetadata: {namespace: ", name_space,
                      ", name: ", name, "}\nspec: {", spec, "}\n");
}

std::string Web(const std::string& spec) { return Service("shop", "web", spec); }

std::string WebPort(const std::string& port) {
  return Web("clusterIP: 10.96.0.10, type: NodePort, ports: [{" + port + "}]");
}

std::string Slice(const std::string& fields, const std::string& name = "web-1") {
  return absl::StrCat(
      "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
      "metadata: {namespace: shop, name: ",
      name, ", labels: {kubernetes.io/service-name: web}}\naddressType: IPv4\n", fields, "\n");
}

std::string Address(int number) {
  return absl::StrCat("10.1.", number / 250, ".", number % 250 + 1);
}

std::string OneEndpoint(const std::string& fields) {
  return Slice("endpoints: [{addresses: [10.1.0.1], " + fields + "}]");
}

std::string OtherNode(const std::string& fields) {
  return "apiVersion: v1\nkind: Node\nmetadata: {name: n2}\n" + fields + "\n";
}

std::string Hints(const char* field, int count) {
  return OneEndpoint(
      absl::StrCat("hints: {", field, ": [",
                   List(count, [](int i) { return absl::StrCat("{name: z", i, "}"); }), "]}"));
}

}  // namespace

std::vector<FieldLimit> FieldLimits() {
  return {
      {"`metadata.namespace`", "63 bytes", "63 bytes", "names: `ValidateNamespaceName`", 63,
       [](int n) { return Service(Name(n), "web", "clusterIP: None"); },
       absl::StrCat("Service ", Name(64), "/web rejected: metadata.namespace: ", LongLabel(64))},
      {"Service `metadata.name`", "63 bytes", "63 bytes", "core: `ValidateServiceCreate`", 63,
       [](int n) { return Service("shop", Name(n), "clusterIP: None"); },
       absl::StrCat("Service shop/", Name(64), " rejected: metadata.name: ", LongLabel(64))},
      {"`metadata.name` of the other kinds", "253 bytes", "253 bytes",
       "names: `NameIsDNSSubdomain`", 253,
       [](int n) { return Slice("endpoints: []", Subdomain(n)); },
       absl::StrCat("EndpointSlice shop/", Subdomain(254).substr(0, 64),
                    "... rejected: metadata.name: Invalid value: \"", Subdomain(254).substr(0, 64),
                    "\"...: must be a DNS-1123 subdomain: at most 253 lowercase letters, digits, "
                    "'-' and '.'")},
      {"`metadata.annotations`", "256 KiB", "none; unused annotations are dropped",
       "names: `ValidateAnnotationsSize`", 256 * 1024,
       [](int n) {
         return absl::StrCat(
             "apiVersion: v1\nkind: Service\nmetadata: {namespace: shop, name: web, annotations: "
             "{a: ",
             Name(n - 1), "}}\nspec: {clusterIP: None}\n");
       }},
      {"Service `spec.ports`", "1 or more", "1 or more", "core: `validateService`", 20'000,
       [](int n) {
         return Web(absl::StrCat(
             "clusterIP: 10.96.0.1, ports: [",
             List(n, [](int i) { return absl::StrCat("{name: p", i, ", port: ", i, "}"); }), "]"));
       },
       "", 1, "spec.ports: Required value"},
      {"Service `spec.ports[].name`", "63 bytes", "63 bytes", "core: `validateServicePort`", 63,
       [](int n) { return WebPort("port: 80, name: " + Name(n)); },
       "spec.ports[0].name: " + LongLabel(64)},
      {"Service `spec.ports[].port`", "1 to 65535", "1 to 65535", "core: `validateServicePort`",
       65535, [](int n) { return WebPort(absl::StrCat("port: ", n)); },
       "spec.ports[0].port: Invalid value: 65536", 1, "spec.ports[0].port: Invalid value: 0"},
      {"Service `spec.ports[].nodePort`", "0, or in `--service-node-port-range`", "0 to 65535",
       "portallocator: `Allocate`", 65535,
       [](int n) { return WebPort(absl::StrCat("port: 80, nodePort: ", n)); },
       "spec.ports[0].nodePort: Invalid value: 65536", 0,
       "spec.ports[0].nodePort: Invalid value: -1"},
      {"Service `spec.clusterIPs`", "2, one of each IP family", "2, one of each IP family",
       "core: `ValidateServiceClusterIPsRelatedFields`", 2,
       [](int n) {
         return Web(absl::StrCat(
             "clusterIP: 10.96.0.1, ports: [{port: 80}], ipFamilies: [IPv4, IPv6], clusterIPs: [",
             List(n, [](int i) { return absl::StrCat(i == 2 ? "\"fd00::2\"" : "10.96.0.1"); }),
             "]"));
       },
       "spec.clusterIPs: Too many: 3"},
      {"Service `spec.ipFamilies`", "2", "2", "core: `ValidateServiceClusterIPsRelatedFields`", 2,
       [](int n) {
         return Web(absl::StrCat(
             "clusterIP: 10.96.0.1, ports: [{port: 80}], ipFamilies: [",
             List(n, [](int i) { return std::string(i == 2 ? "IPv6" : "IPv4"); }), "]"));
       },
       "spec.ipFamilies: Too many: 3"},
      {"Service `spec.externalIPs` and `spec.loadBalancerSourceRanges`", "none", "none",
       "core: `validateService`", 4000,
       [](int n) {
         return Web(absl::StrCat("clusterIP: 10.96.0.1, ports: [{port: 80}], externalIPs: [",
                                 List(n, Address), "], loadBalancerSourceRanges: [",
                                 List(n, [](int i) { return absl::StrCat(Address(i), "/32"); }),
                                 "]"));
       }},
      {"Service `status.loadBalancer.ingress`", "none", "none",
       "core: `ValidateLoadBalancerStatus`", 4000,
       [](int n) {
         return absl::StrCat(WebPort("port: 80"), "status: {loadBalancer: {ingress: [",
                             List(n, [](int i) { return absl::StrCat("{ip: ", Address(i), "}"); }),
                             "]}}\n");
       }},
      {"Service `spec.healthCheckNodePort`",
       "1 to 65535 for type LoadBalancer with externalTrafficPolicy Local, 0 for all others",
       "0 to 65535", "core: `validateServiceExternalTrafficPolicy`", 65535,
       [](int n) {
         return Web(
             absl::StrCat("type: LoadBalancer, externalTrafficPolicy: Local, "
                          "clusterIP: 10.96.0.1, ports: [{port: 80}], "
                          "healthCheckNodePort: ",
                          n));
       },
       "spec.healthCheckNodePort: Invalid value: 65536", 1,
       "spec.healthCheckNodePort: Required value"},
      {"Service `spec.sessionAffinityConfig.clientIP.timeoutSeconds`", "1 to 86400", "1 to 86400",
       "core: `validateAffinityTimeout`", 86400,
       [](int n) {
         return Web(
             absl::StrCat("clusterIP: 10.96.0.1, ports: [{port: 80}], sessionAffinity: "
                          "ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: ",
                          n, "}}"));
       },
       "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401", 1,
       "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0"},
      {"EndpointSlice `endpoints`", "1,000", "1,000", "discovery: `validateEndpoints`", 1000,
       [](int n) {
         return Slice(absl::StrCat(
             "endpoints: [",
             List(n, [](int i) { return absl::StrCat("{addresses: [", Address(i), "]}"); }), "]"));
       },
       "endpoints: Too many: 1001"},
      {"EndpointSlice `endpoints[].addresses`", "1 to 100",
       "0 to 100; an endpoint without addresses is ignored", "discovery: `validateEndpoints`", 100,
       [](int n) {
         return Slice(absl::StrCat("endpoints: [{addresses: [", List(n, Address), "]}]"));
       },
       "endpoints[0].addresses: Too many: 101", 1, "endpoints[0].addresses: Required value"},
      {"EndpointSlice `endpoints[].nodeName`", "253 bytes", "none",
       "discovery: `validateEndpoints`", 253,
       [](int n) { return OneEndpoint("nodeName: " + Subdomain(n)); }},
      {"EndpointSlice `endpoints[].zone`", "none", "none", "discovery: `validateEndpoints`", 1000,
       [](int n) { return OneEndpoint("zone: " + Name(n)); }},
      {"EndpointSlice `endpoints[].hints.forZones`", "8", "8", "discovery: `validateHints`", 8,
       [](int n) { return Hints("forZones", n); }, "endpoints[0].hints.forZones: Too many: 9"},
      {"EndpointSlice `endpoints[].hints.forZones[].name`", "63 bytes", "none",
       "discovery: `validateHints`", 63,
       [](int n) { return OneEndpoint("hints: {forZones: [{name: " + Name(n) + "}]}"); }},
      {"EndpointSlice `endpoints[].hints.forNodes`", "8", "8", "discovery: `validateHints`", 8,
       [](int n) { return Hints("forNodes", n); }, "endpoints[0].hints.forNodes: Too many: 9"},
      {"EndpointSlice `endpoints[].hints.forNodes[].name`", "253 bytes", "none",
       "discovery: `validateHints`", 253,
       [](int n) { return OneEndpoint("hints: {forNodes: [{name: " + Subdomain(n) + "}]}"); }},
      {"EndpointSlice `ports`", "20,000", "20,000", "discovery: `validatePorts`", 20'000,
       [](int n) {
         return Slice(absl::StrCat(
             "ports: [",
             List(n, [](int i) { return absl::StrCat("{name: p", i, ", port: ", i, "}"); }), "]"));
       },
       "ports: Too many: 20001"},
      {"EndpointSlice `ports[].name`", "63 bytes", "63 bytes", "discovery: `validatePorts`", 63,
       [](int n) { return Slice("ports: [{port: 80, name: " + Name(n) + "}]"); },
       "ports[0].name: " + LongLabel(64)},
      {"EndpointSlice `ports[].port`", "not checked",
       "1 to 65535; ports with another number are ignored", "discovery: `validatePorts`", 65535,
       [](int n) { return Slice(absl::StrCat("ports: [{port: ", n, "}]")); },
       "ports[0].port: Invalid value: 65536", 1, "ports[0].port: Required value"},
      {"Node `spec.podCIDRs`", "2, one of each IP family",
       "none; the first one of each IP family is used", "core: `ValidateNode`", 2,
       [](int n) {
         return OtherNode(
             absl::StrCat("spec: {podCIDRs: [",
                          List(n, [](int i) { return absl::StrCat("10.", i, ".0.0/24"); }), "]}"));
       }},
      {"Node `status.addresses`", "none", "none", "core: `ValidateNodeUpdate`", 4000,
       [](int n) {
         return OtherNode(absl::StrCat("status: {addresses: [",
                                       List(n,
                                            [](int i) {
                                              return absl::StrCat(
                                                  "{type: InternalIP, address: ", Address(i), "}");
                                            }),
                                       "]}"));
       }},
      {"ServiceCIDR `spec.cidrs`", "1 or 2, one of each IP family",
       "1 or 2, one of each IP family; prefix length 0 is rejected",
       "networking: `validateServiceCIDRSpec`", 2,
       [](int n) {
         return absl::StrCat(
             "apiVersion: networking.k8s.io/v1\nkind: ServiceCIDR\nmetadata: {name: kubernetes}\n"
             "spec: {cidrs: [",
             List(n, [](int i) { return absl::StrCat(i == 2 ? "\"fd00::/112\"" : "10.0.0.0/16"); }),
             "]}\n");
       },
       "spec.cidrs: Too many: 3", 1, "spec.cidrs: Required value"},
      {"size of an object", "1.5 MiB in the default configuration of etcd",
       "16 MiB (`--max-batch-bytes`)", "etcd: `--max-request-bytes`"},
  };
}

std::vector<OwnLimit> OwnLimits() {
  return {
      {"ports of a Service x its clusterIPs, externalIPs and load balancer IPs",
       "65,536 for each IP family", "the Service is rejected"},
      {"`spec.ports[].endPort`, which Kubernetes does not have", "`port` to 65535",
       "the Service is rejected"},
      {"`spec.pickTableSize`, which Kubernetes does not have", "251, 1021 or 4093",
       "the Service is rejected"},
      {"ports x endpoints, in all EndpointSlices of a Service", "262,144 for each IP family",
       "the EndpointSlice is rejected"},
      {"ports of a Service x size of its hash tables (`endpointPick`)", "262,144",
       "the Service is rejected"},
      {"endpoints in all EndpointSlices of a Service",
       "65,535 for each IP family (`--max-endpoints-per-service`)",
       "the EndpointSlice is rejected"},
      {"`endpoints[].weight`, which Kubernetes does not have", "0 to 1000",
       "the EndpointSlice is rejected"},
      {"objects", "500,000 (`--max-objects`)", "a new object is rejected"},
      {"size of all objects", "512 MiB (`--max-bytes`)", "the object is rejected"},
      {"elements of all objects", "5,000,000 (`--max-elements`)", "the object is rejected"},
      {"load balancer source ranges of all Services, for each load balancer IP and port",
       "4,096 for each IP family", "warning: the load balancer IPs accept no traffic"},
      {"endpoints of a Service port, if `--max-endpoints-per-service` is increased", "65,535",
       "warning: the remaining endpoints are ignored"},
      {"Service ports with session affinity", "49,151 for each IP family",
       "warning: session affinity is not programmed"},
      {"endpoints of a Service port with session affinity", "65,535",
       "warning: session affinity is not programmed"},
      {"different session affinity timeouts", "32", "warning: another timeout is used"},
      {"endpoint groups of all Service ports", "16,777,215",
       "warning: new connections to the port are rejected"},
      {"endpoint groups of Service ports with session affinity", "65,535 for each IP family",
       "warning: new connections to the port are rejected"},
      {"endpoints of a Service port with hash tables (`endpointPick`)", "4,093",
       "warning: endpoints are picked at random"},
      {"objects in a message", "65,536", "error: the call ends with `RESOURCE_EXHAUSTED`"},
      {"size of a manifest file", "1 GiB", "error: the file is not read"},
      {"nesting of maps and lists in a manifest", "64", "error: the document is rejected"},
      {"values and bytes of a manifest file after the expansion of YAML aliases",
       "100,000 and 10,000,000", "error: the document is rejected"},
  };
}

}  // namespace svcmap::api
