// Tests of `svcmapctl get` against a fake agent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "api/manifests/manifests.h"
#include "tests/unit/api/cli_fake_agent.h"

namespace svcmap::api {
namespace {

using ::testing::HasSubstr;
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

}  // namespace
}  // namespace svcmap::api
