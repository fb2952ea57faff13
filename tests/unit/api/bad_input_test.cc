// Tests the messages and the limits of docs/bad-input.md. svcmapd uses the same code for controller
// streams.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/substitute.h"
#include "api/convert/convert.h"
#include "api/manifests/manifests.h"
#include "proxy/desired/service.h"
#include "proxy/state/store.h"
#include "tests/support/file.h"

namespace svcmap::api::bad_input {
namespace {

using ::testing::HasSubstr;

template <typename T>
void Append(const std::vector<T>& messages, std::string& out) {
  for (const T& message : messages) {
    absl::StrAppend(&out, out.empty() ? "" : "\n", message.ToString());
  }
}

// Returns all messages about `input`, one per line without a final newline. The order is: errors
// and warnings of the reader, findings of the converter, findings of the ruleset computation.
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

// Returns the value of a field for a number.
using Value = std::function<std::string(int)>;

std::string Number(int number) { return absl::StrCat(number); }
std::string Name(int length) { return std::string(static_cast<size_t>(length), 'a'); }

// Returns a name of several labels.
std::string Subdomain(int length) {
  std::string name = Name(length);
  for (int i = 50; i < length - 1; i += 50) name[static_cast<size_t>(i)] = '.';
  return name;
}

// Returns a list of items. Replaces $0 in `item` by the number of the item, $1 and $2 by the last
// two bytes of an address, and $3 by a port number above 1000.
Value ListOf(const std::string& item, const char* separator = ", ") {
  return [=](int count) {
    std::string list;
    for (int i = 1; i <= count; ++i) {
      absl::StrAppend(&list, i == 1 ? "" : separator,
                      absl::Substitute(item, i, (i - 1) / 250, (i - 1) % 250 + 1, 1000 + i));
    }
    return list;
  };
}

// Returns a list in which only the second item belongs to IPv6.
Value Families(const std::string& v4, const std::string& v6) {
  return [=](int count) {
    const std::vector<std::string> items = {v4, v6, v4};
    return absl::StrJoin(items.begin(), items.begin() + count, ", ");
  };
}

std::string Service(const std::string& name_space, const std::string& name,
                    const std::string& spec) {
  return absl::StrCat("apiVersion: v1\nkind: Service\nmetadata: {namespace: ", name_space,
                      ", name: ", name, "}\nspec: {", spec, "}\n");
}

std::string Web(const std::string& spec) {
  return Service("shop", "web", "clusterIP: 10.96.0.1, ports: [{port: 80}], " + spec);
}

std::string WebPorts(const std::string& ports) {
  return Service("shop", "web", "clusterIP: 10.96.0.1, type: NodePort, ports: [" + ports + "]");
}

std::string Slice(const std::string& fields, const std::string& name = "web-1") {
  return absl::StrCat(
      "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n"
      "metadata: {namespace: shop, name: ",
      name, ", labels: {kubernetes.io/service-name: web}}\naddressType: IPv4\n", fields, "\n");
}

std::string OneEndpoint(const std::string& fields) {
  return Slice("endpoints: [{addresses: [10.1.0.1], " + fields + "}]");
}

std::string OtherNode(const std::string& fields) {
  return "apiVersion: v1\nkind: Node\nmetadata: {name: n2}\n" + fields + "\n";
}

// ---- The examples ----

struct Example {
  std::string name;
  std::string input;
  std::string messages;
};

std::string Page() { return svcmap::testing::ReadFile(SVCMAP_SOURCE_DIR "/docs/bad-input.md"); }

// Each example consists of a heading, a manifest and the messages.
std::vector<Example> Examples() {
  std::vector<Example> examples;
  const std::string page = Page();
  for (size_t at = 0; (at = page.find("\n### ", at)) != std::string::npos;) {
    const auto between = [&](std::string_view begin, std::string_view end) {
      const size_t first = page.find(begin, at) + begin.size();
      at = page.find(end, first);
      return page.substr(first, at - first);
    };
    Example& example = examples.emplace_back();
    example.name = between("### ", "\n");
    example.input = between("```yaml\n", "```\n");
    example.messages = between("```text\n", "\n```\n");
  }
  return examples;
}

// Replaces the page's notation for bytes that are not printable, for example \x7f.
std::string Unescaped(std::string text) {
  for (size_t at = 0; (at = text.find("\\x", at)) != std::string::npos; ++at) {
    text.replace(at, 4, 1, static_cast<char>(std::stoi(text.substr(at + 2, 2), nullptr, 16)));
  }
  return text;
}

// The page shows only the first bytes of a large input, and its size.
constexpr char kTruncated[] = "\n... (";

// Returns the complete input of an example whose input is truncated on the page.
std::string LargeInput(const Example& example) {
  const std::string web =
      "apiVersion: v1\nkind: Service\nmetadata: {namespace: shop, name: web}\nspec:\n";
  const std::string slice =
      "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  namespace: shop\n"
      "  name: web-1\n  labels: {kubernetes.io/service-name: web}\naddressType: IPv4\nports:";
  const std::map<std::string, std::string> inputs = {
      {"deeply nested YAML", std::string(100'000, '[')},
      {"deeply nested JSON", "{\"a\":" + std::string(100'000, '[')},
      {"5,000 externalIPs and 1,000 ports",
       absl::StrCat(web, "  clusterIP: 10.96.0.10\n  ports:\n",
                    ListOf("  - {name: p$0, port: $0}\n", "")(1000), "  externalIPs:\n",
                    ListOf("  - 198.18.$1.$2\n", "")(5000))},
      {"10,000 endpoints", absl::StrCat(slice, " [{name: \"\", port: 8080}]\nendpoints:\n",
                                        ListOf("- addresses: [10.1.$1.$2]\n", "")(10'000))},
      {"20,001 ports", absl::StrCat(slice, "\n", ListOf("- {name: p$0, port: $3}\n", "")(20'001))},
  };
  const auto found = inputs.find(example.name);
  if (found == inputs.end()) {
    ADD_FAILURE() << "no complete input for the example: " << example.name;
    return "";
  }
  const std::string shown = example.input.substr(0, example.input.find(kTruncated));
  EXPECT_TRUE(found->second.starts_with(shown)) << example.name;
  EXPECT_EQ(example.input.substr(shown.size()),
            absl::StrCat(kTruncated, found->second.size(), " bytes in total)\n"));
  return found->second;
}

TEST(BadInputTest, EveryExampleHasExactlyTheseMessages) {
  const std::vector<Example> examples = Examples();
  EXPECT_GT(examples.size(), 100u);
  for (const Example& example : examples) {
    const bool truncated = example.input.find(kTruncated) != std::string::npos;
    EXPECT_EQ(MessagesFor(truncated ? LargeInput(example) : Unescaped(example.input)),
              example.messages)
        << example.name;
  }
}

// ---- The limits ----

struct FieldLimit {
  std::string field;  // As in the table of the page.
  // The largest tested number: svcmap's limit, or the API server's limit or a large number if
  // svcmap does not limit the field.
  int most;
  std::string manifest;  // $0 is the value.
  Value value;
  // Part of the message for the number `most` + 1. Empty if svcmap accepts larger numbers.
  std::string over = {};
  // `least` is the smallest accepted number. `under` is a part of the message for `least` - 1. Not
  // tested if `under` is empty.
  int least = 0;
  std::string under = {};
};

std::vector<FieldLimit> FieldLimits() {
  const Value addresses = ListOf("10.1.$1.$2");
  const Value ports = ListOf("{name: p$0, port: $0}");
  const Value names = ListOf("{name: z$0}");
  return {
      {"`metadata.namespace`", 63, Service("$0", "web", "clusterIP: None"), Name,
       "rejected: metadata.namespace: Invalid value"},
      {"Service `metadata.name`", 63, Service("shop", "$0", "clusterIP: None"), Name,
       "rejected: metadata.name: Invalid value"},
      {"`metadata.name` of the other kinds", 253, Slice("endpoints: []", "$0"), Subdomain,
       "rejected: metadata.name: Invalid value"},
      {"`metadata.annotations`", 256 * 1024 - 1,
       Service("shop", "web, annotations: {a: $0}", "clusterIP: None"), Name},
      {"Service `spec.ports`", 20'000, WebPorts("$0"), ports, "", 1, "spec.ports: Required value"},
      {"Service `spec.ports[].name`", 63, WebPorts("{port: 80, name: $0}"), Name,
       "spec.ports[0].name: Invalid value"},
      {"Service `spec.ports[].port`", 65535, WebPorts("{port: $0}"), Number,
       "spec.ports[0].port: Invalid value: 65536", 1, "spec.ports[0].port: Invalid value: 0"},
      {"Service `spec.ports[].nodePort`", 65535, WebPorts("{port: 80, nodePort: $0}"), Number,
       "spec.ports[0].nodePort: Invalid value: 65536", 0,
       "spec.ports[0].nodePort: Invalid value: -1"},
      {"Service `spec.clusterIPs`", 2, Web("ipFamilies: [IPv4, IPv6], clusterIPs: [$0]"),
       Families("10.96.0.1", "\"fd00::2\""), "spec.clusterIPs: Too many: 3"},
      {"Service `spec.ipFamilies`", 2, Web("ipFamilies: [$0]"), Families("IPv4", "IPv6"),
       "spec.ipFamilies: Too many: 3"},
      {"Service `spec.externalIPs` and `spec.loadBalancerSourceRanges`", 4000,
       Web("externalIPs: [$0]"), addresses},
      {"Service `spec.externalIPs` and `spec.loadBalancerSourceRanges`", 4000,
       Web("loadBalancerSourceRanges: [$0]"), ListOf("10.1.$1.$2/32")},
      {"Service `status.loadBalancer.ingress`", 4000,
       Web("type: LoadBalancer") + "status: {loadBalancer: {ingress: [$0]}}\n",
       ListOf("{ip: 10.1.$1.$2}")},
      {"Service `spec.healthCheckNodePort`", 65535,
       Web("type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: $0"), Number,
       "spec.healthCheckNodePort: Invalid value: 65536", 1,
       "spec.healthCheckNodePort: Required value"},
      {"Service `spec.sessionAffinityConfig.clientIP.timeoutSeconds`", 86400,
       Web("sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: $0}}"),
       Number, "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401", 1,
       "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0"},
      {"EndpointSlice `endpoints`", 1000, Slice("endpoints: [$0]"),
       ListOf("{addresses: [10.1.$1.$2]}"), "endpoints: Too many: 1001"},
      {"EndpointSlice `endpoints[].addresses`", 100, Slice("endpoints: [{addresses: [$0]}]"),
       addresses, "endpoints[0].addresses: Too many: 101", 1,
       "endpoints[0].addresses: Required value"},
      {"EndpointSlice `endpoints[].nodeName`", 253, OneEndpoint("nodeName: $0"), Subdomain},
      {"EndpointSlice `endpoints[].zone`", 1000, OneEndpoint("zone: $0"), Name},
      {"EndpointSlice `endpoints[].hints.forZones`", 8, OneEndpoint("hints: {forZones: [$0]}"),
       names, "endpoints[0].hints.forZones: Too many: 9"},
      {"EndpointSlice `endpoints[].hints.forZones[].name`", 63,
       OneEndpoint("hints: {forZones: [{name: $0}]}"), Name},
      {"EndpointSlice `endpoints[].hints.forNodes`", 8, OneEndpoint("hints: {forNodes: [$0]}"),
       names, "endpoints[0].hints.forNodes: Too many: 9"},
      {"EndpointSlice `endpoints[].hints.forNodes[].name`", 253,
       OneEndpoint("hints: {forNodes: [{name: $0}]}"), Subdomain},
      {"EndpointSlice `ports`", 20'000, Slice("ports: [$0]"), ports, "ports: Too many: 20001"},
      {"EndpointSlice `ports[].name`", 63, Slice("ports: [{port: 80, name: $0}]"), Name,
       "ports[0].name: Invalid value"},
      {"EndpointSlice `ports[].port`", 65535, Slice("ports: [{port: $0}]"), Number,
       "ports[0].port: Invalid value: 65536", 1, "ports[0].port: Required value"},
      {"Node `spec.podCIDRs`", 2, OtherNode("spec: {podCIDRs: [$0]}"), ListOf("10.$0.0.0/24")},
      {"Node `status.addresses`", 4000, OtherNode("status: {addresses: [$0]}"),
       ListOf("{type: InternalIP, address: 10.1.$1.$2}")},
      {"ServiceCIDR `spec.cidrs`", 2,
       "apiVersion: networking.k8s.io/v1\nkind: ServiceCIDR\nmetadata: {name: kubernetes}\n"
       "spec: {cidrs: [$0]}\n",
       Families("10.0.0.0/16", "\"fd00::/112\""), "spec.cidrs: Too many: 3", 1,
       "spec.cidrs: Required value"},
  };
}

TEST(FieldLimitsTest, NumbersWithinTheLimitsAreAcceptedAndNoOthers) {
  const std::string page = Page();
  for (const FieldLimit& limit : FieldLimits()) {
    SCOPED_TRACE(limit.field);
    EXPECT_THAT(page, HasSubstr("\n| " + limit.field + " | "));
    const auto messages = [&](int number) {
      return MessagesFor(absl::Substitute(limit.manifest, limit.value(number)));
    };
    EXPECT_EQ(messages(limit.most), "");
    const std::string over = messages(limit.most + 1);
    EXPECT_EQ(over.empty(), limit.over.empty()) << over;
    EXPECT_THAT(over, HasSubstr(limit.over));
    if (limit.under.empty()) continue;
    EXPECT_EQ(messages(limit.least), "");
    EXPECT_THAT(messages(limit.least - 1), HasSubstr(limit.under));
  }
}

}  // namespace
}  // namespace svcmap::api::bad_input
