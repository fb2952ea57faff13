// Tests of `svcmapctl get` and `svcmapctl explain` against a fake agent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "api/manifests/manifests.h"
#include "tests/unit/api/cli_fake_agent.h"

namespace svcmap::api {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// Returns one response message for each manifest in `yaml`.
std::vector<v1::ListResponse> Parts(std::string_view yaml) {
  std::vector<v1::ListResponse> parts;
  for (const ManifestObject& object : ReadManifests(yaml, "test").objects) {
    *parts.emplace_back().add_objects() = object.object;
  }
  return parts;
}

constexpr char kServices[] = R"(
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: web}
spec:
  type: LoadBalancer
  clusterIPs: [10.96.0.10, "fd00::10"]
  externalIPs: [192.0.2.1]
  ports: [{name: http, port: 80, nodePort: 30080}, {port: 53, protocol: UDP}]
status: {loadBalancer: {ingress: [{ip: 198.51.100.7}, {hostname: "lb\u001b[1m.example"}]}}
---
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: pending}
spec: {type: LoadBalancer, clusterIP: 10.96.0.11, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {namespace: a, name: headless}
spec: {clusterIP: None}
)";

constexpr char kSlices[] = R"(
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: shop, name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints:
- {addresses: [10.1.0.1]}
- {addresses: [10.1.0.2], weight: 5, conditions: {ready: false}}
- {addresses: [10.1.0.3], conditions: {ready: false, terminating: true}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: shop, name: web-2, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.1.1.1]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: shop, name: web-6, labels: {kubernetes.io/service-name: web}}
addressType: IPv6
ports: [{name: http, port: 8080}]
endpoints: [{addresses: ["fd00::1"]}]
)";

TEST(CliGetTest, ServicesAsATable) {
  const FakeAgent agent({.list = Parts(absl::StrCat(kServices, "---", kSlices))});
  const CtlResult result = Ctl(agent, {"get", "svc", "-n", "shop"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(
      result.out,
      "NAMESPACE  NAME      TYPE          CLUSTER-IP  EXTERNAL-IP      PORT(S)              READY\n"
      "shop       web       LoadBalancer  10.96.0.10  198.51.100.7,+2  80:30080/TCP,53/UDP  2/4\n"
      "shop       pending   LoadBalancer  10.96.0.11  <pending>        80/TCP               0/0\n"
      "a          headless  ClusterIP     None        <none>           <none>               0/0\n");
  EXPECT_EQ(result.err, "");
  ASSERT_THAT(agent.seen().list, SizeIs(2));
  EXPECT_EQ(agent.seen().list[1].ShortDebugString(), "kind: KIND_SERVICE namespace: \"shop\"");
  EXPECT_THAT(
      Ctl(agent, {"get", "svc", "-o", "wide"}).out,
      HasSubstr("10.96.0.10,fd00::10  198.51.100.7,lb\\x1b[1m.example,192.0.2.1  80:30080"));
}

TEST(CliGetTest, TablesFitTheTerminal) {
  const FakeAgent agent({.list = Parts(absl::StrCat(kServices, "---", kSlices))});
  for (const char* kinds : {"svc", "svc,eps"}) {
    const std::string out = Ctl(agent, {"get", kinds}, "", {.columns = 80, .rows = 24}).out;
    for (const auto line : absl::StrSplit(out, '\n')) EXPECT_LE(line.size(), 80u) << line;
    EXPECT_THAT(out, HasSubstr("web       LoadBalancer  10.96.0.10  198.51.10..."));
  }
}

TEST(CliGetTest, S203WideServicesHaveTheChainNamesOfIptablesMode) {
  constexpr char kDns[] = R"(
apiVersion: v1
kind: Service
metadata: {namespace: kube-system, name: kube-dns}
spec:
  clusterIP: 10.96.0.10
  ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53}]
---
apiVersion: v1
kind: Service
metadata: {namespace: a, name: headless}
spec: {clusterIP: None, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {namespace: a, name: name}
spec: {type: ExternalName, externalName: example.org, ports: [{port: 80}]}
)";
  const FakeAgent agent({.list = Parts(kDns)});
  EXPECT_EQ(Ctl(agent, {"get", "svc", "-o", "wide"}).out,
            "NAMESPACE    NAME      TYPE          CLUSTER-IP  EXTERNAL-IP  PORT(S)        READY   "
            "KUBE-PROXY CHAIN\n"
            "kube-system  kube-dns  ClusterIP     10.96.0.10  <none>       53/UDP,53/TCP  0/0     "
            "KUBE-SVC-TCOU7JCQXEZGVUNU,KUBE-SVC-ERIFXISQEP7F7OF4\n"
            "a            headless  ClusterIP     None        <none>       80/TCP         0/0     "
            "<none>\n"
            "a            name      ExternalName  <none>      <none>       80/TCP         <none>  "
            "<none>\n");
}

TEST(CliGetTest, WideIsTheTableWhereAKindHasNoMoreToShow) {
  const FakeAgent agent({.list = Parts("apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n")});
  EXPECT_EQ(Ctl(agent, {"get", "no", "-o", "wide"}).out, Ctl(agent, {"get", "no"}).out);
}

TEST(CliGetTest, PortRangesAndWeightsOfAnnotations) {
  FakeAnswers answers{.list = Parts(R"(
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: web, annotations: {svcmap/end-ports: all=65535}}
spec: {clusterIP: 10.96.0.10, ports: [{name: all, port: 1}, {name: dns, port: 53, protocol: UDP}]}
)")};
  EXPECT_THAT(Ctl(FakeAgent(answers), {"get", "services"}).out, HasSubstr(" 1-65535/TCP,53/UDP "));
  answers.list = Parts(R"(
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: shop, name: web-1, annotations: {svcmap/weight: "0"}}
addressType: IPv4
endpoints: [{addresses: [10.1.0.1]}, {addresses: [10.1.0.2], weight: 2}]
)");
  EXPECT_THAT(Ctl(FakeAgent(answers), {"get", "eps"}).out,
              HasSubstr(" 10.1.0.1 (weight 0),10.1.0.2 (weight 2)\n"));
}

TEST(CliGetTest, OtherKindsAsTables) {
  FakeAnswers answers{.list = Parts(kSlices)};
  EXPECT_EQ(
      Ctl(FakeAgent(answers), {"get", "eps"}).out,
      "NAMESPACE  NAME   SERVICE  PORTS     READY  ENDPOINTS\n"
      "shop       web-1  web      8080/TCP  1/3    10.1.0.1,10.1.0.2 (weight 5, not ready),+1\n"
      "shop       web-2  web      8080/TCP  1/1    10.1.1.1\n"
      "shop       web-6  web      8080/TCP  1/1    fd00::1\n");
  EXPECT_THAT(
      Ctl(FakeAgent(answers), {"get", "eps", "-o", "wide"}).out,
      HasSubstr("shop       web-1  web      IPv4         8080/TCP  1/3    10.1.0.1,10.1.0.2 "
                "(weight 5, not ready),10.1.0.3 (terminating)\n"));
  answers.list = Parts(R"(
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {addresses: [{type: InternalIP, address: 10.0.0.1}, {type: Hostname, address: n1}]}
)");
  EXPECT_EQ(Ctl(FakeAgent(answers), {"get", "nodes"}).out, "NAME  ADDRESSES\nn1    10.0.0.1\n");
  answers.list = Parts(R"(
apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: {name: kubernetes}
spec: {cidrs: [10.96.0.0/12]}
)");
  EXPECT_EQ(Ctl(FakeAgent(answers), {"get", "cidr"}).out,
            "NAME        CIDRS\nkubernetes  10.96.0.0/12\n");
}

TEST(CliGetTest, EndpointsWithoutAValidAddressAreNotReady) {
  const FakeAgent agent({.list = Parts(R"(
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: shop, name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: []}, {addresses: [ten]}, {addresses: [10.1.0.1]}]
---
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: web}
spec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}
)")});
  const std::string tables = Ctl(agent, {"get", "svc,eps"}).out;
  EXPECT_THAT(tables, HasSubstr("80/TCP   1/3\n"));
  EXPECT_THAT(tables, HasSubstr("1/3    <none>,ten,+1\n"));
}

TEST(CliGetTest, JsonAndYamlOfManyAreWhatTheManifestWriterMakes) {
  const FakeAgent agent({.list = Parts(kServices)});
  std::vector<v1::Object> objects;
  for (const auto& part : Parts(kServices)) objects.push_back(part.objects(0));
  EXPECT_EQ(Ctl(agent, {"get", "svc", "-o", "json"}).out, ManifestJson(objects));
  EXPECT_EQ(Ctl(agent, {"get", "svc", "-o", "yaml"}).out, ManifestYaml(objects));
  const FakeAgent empty({});
  EXPECT_EQ(Ctl(empty, {"get", "svc", "-o", "json"}).out, ManifestJson({}));
}

TEST(CliGetTest, OneNamedObjectIsNoList) {
  const auto parts = Parts("apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n");
  const FakeAgent agent({.list = parts});
  EXPECT_EQ(Ctl(agent, {"get", "no", "n1", "-o", "json"}).out, ManifestJson({parts[0].objects(0)}));
  EXPECT_THAT(Ctl(agent, {"get", "no", "-o", "json"}).out, HasSubstr("\"kind\": \"List\""));
  const auto service =
      Parts("apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: default}\n");
  const FakeAgent other({.list = service});
  EXPECT_EQ(Ctl(other, {"get", "svc", "web", "-o", "json"}).out,
            ManifestJson({service[0].objects(0)}));
  EXPECT_EQ(other.seen().list[0].namespace_(), "default");
  EXPECT_THAT(Ctl(other, {"get", "svc", "web", "-A", "-o", "json"}).out,
              HasSubstr("\"kind\": \"List\""));
}

TEST(CliGetTest, NothingThere) {
  const FakeAgent agent({.list = {v1::ListResponse()}});
  CtlResult result = Ctl(agent, {"get", "svc", "-n", "shop"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "note: no services found in namespace \"shop\"\n");
  result = Ctl(agent, {"get", "svc", "shop/web", "-o", "json"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "error: services \"web\" not found in namespace \"shop\"\n");
  result = Ctl(agent, {"get", "svc,no", "web", "-A", "-o", "json"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "error: services \"web\" not found\nerror: nodes \"web\" not found\n");
}

TEST(CliGetTest, ABrokenListingReportsIt) {
  const FakeAgent agent({.error = absl::InternalError("lost"), .list = Parts(kSlices)});
  const CtlResult result = Ctl(agent, {"get", "eps"});
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.out, HasSubstr("shop       web-2"));
  EXPECT_THAT(result.err, HasSubstr("rejected the call: INTERNAL: lost\n"));
}

// Tests of `svcmapctl explain` against a fake agent.

v1::ExplainResponse Answer(const std::string& text) { return FromText<v1::ExplainResponse>(text); }

constexpr char kDnat[] = R"(
address: "10.96.0.10" port: 80 protocol: "TCP"
service { namespace: "shop" name: "web" port_name: "http" port: 80 }
explanations {
  source_kind: POD source: "10.1.0.5, a pod"
  steps { what: "source" text: "10.1.0.5 in 10.1.0.0/16 counts as a pod" rules: "S-64" }
  steps { what: "policy" text: "internalTrafficPolicy Cluster: the cluster set" }
  verdict: DNAT endpoint_set: CLUSTER
  endpoints { address: "10.1.0.5" port: 8080 local: true masquerade: true kube_chain: "KUBE-SEP-A" }
  endpoints { address: "10.1.1.7" port: 8080 kube_chain: "KUBE-SEP-B" }
  kube_chains: "KUBE-SVC-C"
}
kernel { agrees: true }
revision: 7
)";

FakeAnswers WithService() {
  FakeAnswers answers{.explain = Answer(kDnat)};
  answers.status.set_node_name("n1");
  answers.list = {FromText<v1::ListResponse>(R"(objects { service {
    metadata { namespace: "shop" name: "web" }
    spec { cluster_ip: "10.96.0.10" ports { name: "http" port: 80 }
           ports { name: "dns" protocol: "UDP" port: 53 } } } })")};
  return answers;
}

TEST(CliExplainTest, AServiceStandsForItsAddressesAndPorts) {
  const FakeAgent agent(WithService());
  const CtlResult result = Ctl(agent, {"explain", "shop/web", "--from", "10.1.0.5"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("revision 7\n\n10.96.0.10:80/TCP, shop/web:http\n"));
  ASSERT_THAT(agent.seen().explain, SizeIs(2));
  EXPECT_EQ(agent.seen().explain[1].ShortDebugString(),
            "address: \"10.96.0.10\" port: 53 protocol: \"UDP\" from: \"10.1.0.5\"");
  for (const char* port : {"http", "80"}) {
    const FakeAgent other(WithService());
    EXPECT_EQ(Ctl(other, {"explain", std::string("shop/web:") + port}).code, 0);
    ASSERT_THAT(other.seen().explain, SizeIs(1));
    EXPECT_EQ(other.seen().explain[0].port(), 80u);
  }
}

TEST(CliExplainTest, TheOwnerOfADuplicateAddressIsNamed) {
  FakeAnswers answers = WithService();
  v1::Service& service = *answers.list[0].mutable_objects(0)->mutable_service();
  service.mutable_metadata()->set_name("dup");
  answers.status = FromText<v1::GetStatusResponse>(R"(node_name: "n1"
    findings { kind: KIND_SERVICE namespace: "shop" name: "dup" message: "Service shop/dup: finding" }
    findings { kind: KIND_SERVICE namespace: "shop" name: "web" message: "Service shop/web: finding" }
  )");
  const CtlResult result = Ctl(FakeAgent(answers), {"explain", "shop/dup:http"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err,
            "warning: 10.96.0.10:80/TCP belongs to service/shop/web, not to service/shop/dup\n"
            "warning: Service shop/dup: finding\n");
}

TEST(CliExplainTest, ManyAddressesAndPortsAreNotAllExplained) {
  FakeAnswers answers = WithService();
  v1::Service& service = *answers.list[0].mutable_objects(0)->mutable_service();
  for (int port = 1001; port <= 1030; ++port) service.mutable_spec()->add_ports()->set_port(port);
  const FakeAgent agent(answers);
  const CtlResult result = Ctl(agent, {"explain", "shop/web"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(agent.seen().explain, SizeIs(20));
  EXPECT_EQ(result.err,
            "note: showing 20 of 32 addresses and ports of service/shop/web; use "
            "NAMESPACE/NAME:PORT or ADDRESS:PORT for the others\n");
  EXPECT_EQ(Ctl(agent, {"explain", "shop/web:1030"}).err, "");
}

TEST(CliExplainTest, AnUnknownServiceOrPortIsNamed) {
  const CtlResult service = Ctl(FakeAgent({}), {"explain", "shop/wbe"});
  EXPECT_EQ(service.code, 1);
  EXPECT_EQ(service.err, "error: service/shop/wbe is not stored\n");
  const CtlResult port = Ctl(FakeAgent(WithService()), {"explain", "shop/web:https"});
  EXPECT_EQ(port.code, 1);
  EXPECT_EQ(port.err, "error: service/shop/web has no port https\n");
}

TEST(CliExplainTest, ThePageHasStepsEndpointsAndTheKernel) {
  const FakeAgent agent({.explain = Answer(kDnat)});
  const CtlResult result = Ctl(agent, {"explain", "10.96.0.10:80", "--from", "10.1.0.5"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out, R"(10.96.0.10:80/TCP, shop/web:http

From 10.1.0.5, a pod: DNAT to one of 2 endpoints in the cluster
  source      10.1.0.5 in 10.1.0.0/16 counts as a pod
  policy      internalTrafficPolicy Cluster: the cluster set
  kube-proxy  KUBE-SVC-C
    SHARE  ENDPOINT       NODE        CLIENT IP    KUBE-PROXY CHAIN
    1/2    10.1.0.5:8080  this node   masqueraded  KUBE-SEP-A
    1/2    10.1.1.7:8080  other node  preserved    KUBE-SEP-B

Kernel: matches the desired state, revision 7
)");
  ASSERT_THAT(agent.seen().explain, SizeIs(1));
  EXPECT_EQ(agent.seen().explain[0].ShortDebugString(),
            "address: \"10.96.0.10\" port: 80 protocol: \"TCP\" from: \"10.1.0.5\"");
}

TEST(CliExplainTest, RequirementNumbersArePrintedOnlyOnRequest) {
  const FakeAgent agent({.explain = Answer(kDnat)});
  for (const char* format : {"text", "json", "yaml"}) {
    const std::string plain = Ctl(agent, {"explain", "10.96.0.10:80", "-o", format}).out;
    EXPECT_THAT(plain, HasSubstr("10.1.0.5 in 10.1.0.0/16 counts as a pod")) << format;
    EXPECT_THAT(plain, Not(HasSubstr("S-64"))) << format;
    const CtlResult result =
        Ctl(agent, {"explain", "10.96.0.10:80", "--requirements", "-o", format});
    EXPECT_EQ(result.code, 0) << format;
    EXPECT_THAT(result.out, HasSubstr("S-64")) << format;
  }
  EXPECT_THAT(Ctl(agent, {"explain", "10.96.0.10:80", "--requirements"}).out,
              HasSubstr("  source      10.1.0.5 in 10.1.0.0/16 counts as a pod [S-64]\n"
                        "  policy      internalTrafficPolicy Cluster: the cluster set\n"));
}

TEST(CliExplainTest, SharesAreThoseOfTheSlots) {
  v1::ExplainResponse answer = Answer(kDnat);
  answer.mutable_explanations(0)->mutable_endpoints(0)->set_slots(3);
  answer.mutable_explanations(0)->mutable_endpoints(1)->set_slots(1);
  const std::string page = Ctl(FakeAgent({.explain = answer}), {"explain", "10.96.0.10:80"}).out;
  EXPECT_THAT(page, HasSubstr("    3/4    10.1.0.5:8080"));
  EXPECT_THAT(page, HasSubstr("    1/4    10.1.1.7:8080"));
}

TEST(CliExplainTest, VerdictsWithoutEndpoints) {
  const FakeAgent agent({.explain = Answer(R"(
address: "fd00::1" port: 53 protocol: "UDP"
explanations { source: "a pod" verdict: REJECT }
explanations { source: "this node" verdict: DROP }
explanations { source: "other sources" verdict: UNTOUCHED }
kernel { agrees: true })")});
  EXPECT_EQ(Ctl(agent, {"explain", "[fd00::1]:53/UDP"}).out,
            "[fd00::1]:53/UDP, not a Service port\n\n"
            "From a pod: REJECT\n"
            "From this node: DROP\n"
            "From other sources: not modified\n\n"
            "Kernel: matches the desired state, revision 0\n");
}

TEST(CliExplainTest, EqualPartsOfSeveralSourcesArePrintedOnce) {
  const FakeAgent agent({.explain = Answer(R"(
address: "10.96.0.10" port: 80 protocol: "TCP"
explanations {
  source: "a pod" verdict: REJECT
  steps { what: "source" text: "a pod" }
  steps { what: "masquerade" text: "no" }
  steps { what: "service" text: "clusterIP" }
}
explanations {
  source: "this node" verdict: REJECT
  steps { what: "source" text: "local" }
  steps { what: "masquerade" text: "yes" }
  steps { what: "service" text: "clusterIP" }
}
explanations {
  source: "other sources" verdict: REJECT
  steps { what: "source" text: "external" }
  steps { what: "masquerade" text: "yes" }
  steps { what: "service" text: "clusterIP" }
}
kernel { agrees: true })")});
  EXPECT_EQ(Ctl(agent, {"explain", "10.96.0.10:80"}).out, R"(10.96.0.10:80/TCP, not a Service port

From a pod: REJECT
From this node: REJECT
From other sources: REJECT
All sources
  service     clusterIP
Only a pod
  source      a pod
  masquerade  no
Only this node; other sources
  source      local
  source      external
  masquerade  yes

Kernel: matches the desired state, revision 0
)");
}

// Returns the explanation of a clusterIP, as from svcmapd with one pod CIDR.
v1::ExplainResponse ClusterIpAnswer(int endpoints) {
  v1::ExplainResponse answer = Answer(R"(
address: "10.96.0.10" port: 80 protocol: "TCP"
service { namespace: "shop" name: "web" port_name: "http" port: 80 }
kernel { agrees: true }
revision: 7)");
  for (const char* source : {"a pod", "10.0.0.1, this node", "other sources"}) {
    const bool pod = source == std::string_view("a pod");
    v1::Explanation& explanation = *answer.add_explanations();
    explanation.set_source(source);
    explanation.set_verdict(v1::Explanation::DNAT);
    explanation.set_endpoint_set(v1::Explanation::CLUSTER);
    for (const auto& [what, text] :
         {std::pair("source", "the source address is in pod CIDR 10.1.0.0/16, so ..."),
          {"masquerade", "a pod that connects to a clusterIP keeps its source address"},
          {"service", "clusterIP of shop/web:http"},
          {"policy", "internalTrafficPolicy Cluster: endpoints on all nodes"},
          {"endpoints", "all ready endpoints; topology hints do not apply"},
          {"resets", "a connection is not reset if its endpoint leaves the EndpointSlices"},
          {"hairpin", "an endpoint on this node that connects to itself is masqueraded"}}) {
      v1::ExplainStep& step = *explanation.add_steps();
      step.set_what(what);
      step.set_text(text);
    }
    for (int i = 0; i < endpoints; ++i) {
      v1::ExplainedEndpoint& endpoint = *explanation.add_endpoints();
      endpoint.set_address("10.1.0." + std::to_string(i));
      endpoint.set_port(8080);
      endpoint.set_local(i == 0);
      endpoint.set_masquerade(!pod);
      endpoint.set_kube_chain("KUBE-SEP-UZBLB3XX2HRLVOJ5");
    }
    explanation.add_kube_chains("KUBE-SVC-67NZLRHBNDSAWJRO");
  }
  return answer;
}

constexpr TerminalSize kScreen = {.columns = 80, .rows = 24};

TEST(CliExplainTest, EndpointsThatDoNotFitOnTheScreenAreCounted) {
  const FakeAgent agent({.explain = ClusterIpAnswer(100)});
  const std::string page = Ctl(agent, {"explain", "10.96.0.10:80"}, "", kScreen).out;
  EXPECT_EQ(std::count(page.begin(), page.end(), '\n'), 23) << page;
  EXPECT_THAT(page, HasSubstr("    1/100  10.1.0.5:8080  other node\n"
                              "    and 94 more; use -o json to list all endpoints\n"));
}

TEST(CliExplainTest, AnEndpointThatConnectsToItselfIsMarkedOnATerminal) {
  const FakeAgent agent({.explain = Answer(kDnat)});
  EXPECT_THAT(Ctl(agent, {"explain", "10.96.0.10:80"}, "", kScreen).out,
              HasSubstr("    SHARE  ENDPOINT       NODE        CLIENT IP\n"
                        "    1/2    10.1.0.5:8080  this node   masqueraded\n"
                        "    1/2    10.1.1.7:8080  other node  preserved\n"));
}

TEST(CliExplainTest, AKernelThatDiffersIsReportedAndHasAnExitCode) {
  CtlResult result = Ctl(FakeAgent({.explain = Answer(R"(
address: "10.96.0.10" port: 80 protocol: "TCP" revision: 3
kernel { differences: "10.96.0.10 . tcp . 80 in service-ips is missing" pending: true })")}),
                         {"explain", "10.96.0.10:80"});
  EXPECT_EQ(result.code, 7);
  EXPECT_THAT(result.out,
              HasSubstr("Kernel: differs from the desired state, revision 3; uncommitted changes "
                        "are pending\n"
                        "  10.96.0.10 . tcp . 80 in service-ips is missing\n"));
  result = Ctl(FakeAgent({.explain = Answer("kernel { error: \"read: no\\nbuffer\" }")}),
               {"explain", "10.96.0.10:80"});
  EXPECT_EQ(result.code, 7);
  EXPECT_THAT(result.out, HasSubstr("Kernel: cannot read the map elements: read: no\\nbuffer\n"));
}

TEST(CliExplainTest, OfManyEndpointsTheFirstOnesAreShown) {
  v1::ExplainResponse answer = Answer(kDnat);
  for (int i = 0; i < 100; ++i) {
    v1::ExplainedEndpoint* endpoint = answer.mutable_explanations(0)->add_endpoints();
    endpoint->set_address("10.2.0." + std::to_string(i));
    endpoint->set_port(80);
  }
  const FakeAgent agent({.explain = answer});
  const std::string page = Ctl(agent, {"explain", "10.96.0.10:80"}).out;
  EXPECT_THAT(page, HasSubstr("1/102  10.2.0.17:80"));
  EXPECT_THAT(page, Not(HasSubstr("10.2.0.18:80")));
  EXPECT_THAT(page, HasSubstr("    and 82 more; use -o json to list all endpoints\n"));
  EXPECT_THAT(Ctl(agent, {"explain", "10.96.0.10:80", "-o", "json"}).out,
              HasSubstr("\"10.2.0.99\""));
}

}  // namespace
}  // namespace svcmap::api
