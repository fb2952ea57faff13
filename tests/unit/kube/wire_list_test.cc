// Tests with golden objects, which consist of protobuf bytes in Kubernetes' encoding and the
// expected object.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "api/kube/wire/decode.h"
#include "svcmap/v1/control.pb.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/kube/wire_bytes.h"

namespace svcmap::kube::test {
namespace {

using ::testing::HasSubstr;

struct GoldenObject {
  const char* name;
  Resource resource;
  const char* api_version;
  const char* kind;
  std::string bytes;
  const char* key;
  const char* object;  // The expected v1::Object in text format.
};

// Field numbers in corev1.Service: metadata = 1, spec = 2, status = 3. Field numbers in
// ServiceSpec: ports = 1, selector = 2, clusterIP = 3, type = 4, externalIPs = 5, sessionAffinity =
// 7, loadBalancerIP = 8, loadBalancerSourceRanges = 9, externalName = 10, externalTrafficPolicy =
// 11, healthCheckNodePort = 12, publishNotReadyAddresses = 13, sessionAffinityConfig = 14,
// ipFamilyPolicy = 17, clusterIPs = 18, ipFamilies = 19, allocateLoadBalancerNodePorts = 20,
// loadBalancerClass = 21, internalTrafficPolicy = 22. Field numbers in ServicePort: name = 1,
// protocol = 2, port = 3, targetPort = 4 {type = 1, intVal = 2, strVal = 3}, nodePort = 5,
// appProtocol = 6.
GoldenObject GoldenService() {
  const std::string target_port = pb::Int(1, 0) + pb::Int(2, 8080) + pb::Bytes(3, "");
  const std::string port = pb::Bytes(1, "") + pb::Bytes(2, "TCP") + pb::Int(3, 80) +
                           pb::Bytes(4, target_port) + pb::Int(5, 0);
  const std::string spec =
      pb::Bytes(1, port) + pb::MapEntry(2, "app", "web") + pb::Bytes(3, "10.96.0.10") +
      pb::Bytes(4, "ClusterIP") + pb::Bytes(7, "None") + pb::Bytes(8, "") + pb::Bytes(10, "") +
      pb::Bytes(11, "") + pb::Int(12, 0) + pb::Int(13, 0) + pb::Bytes(17, "SingleStack") +
      pb::Bytes(18, "10.96.0.10") + pb::Bytes(19, "IPv4") + pb::Bytes(22, "Cluster");
  return {"Service",
          Resource::kServices,
          "v1",
          "Service",
          pb::Bytes(1, pb::ObjectMeta("web", "shop", "41", pb::MapEntry(11, "app", "web"))) +
              pb::Bytes(2, spec) + pb::Bytes(3, pb::Bytes(1, "")),
          "shop/web",
          R"(service {
           metadata { name: "web" namespace: "shop" creation_timestamp { seconds: 1767225600 } }
           spec {
             ports { protocol: "TCP" port: 80 } type: "ClusterIP" cluster_ip: "10.96.0.10"
             cluster_ips: "10.96.0.10" ip_families: "IPv4" session_affinity: "None"
             internal_traffic_policy: "Cluster"
           }
         })"};
}

// Field numbers in ServiceStatus: loadBalancer = 1 {ingress = 1 {ip = 1, hostname = 2, ipMode = 3,
// ports = 4}}. Field numbers in SessionAffinityConfig: clientIP = 1 {timeoutSeconds = 1}. The
// golden object has the label from S-1. svcmap-kube uses this label only in label selectors.
GoldenObject GoldenLoadBalancer() {
  const std::string ports =
      pb::Bytes(1, pb::Bytes(1, "dns") + pb::Bytes(2, "UDP") + pb::Int(3, 53) + pb::Int(5, 30053)) +
      pb::Bytes(1, pb::Bytes(1, "web") + pb::Bytes(2, "TCP") + pb::Int(3, 443) + pb::Int(5, 30443) +
                       pb::Bytes(6, "h2c"));
  const std::string spec =
      ports + pb::Bytes(3, "10.96.0.20") + pb::Bytes(4, "LoadBalancer") +
      pb::Bytes(5, "192.0.2.1") + pb::Bytes(5, "2001:db8::1") + pb::Bytes(7, "ClientIP") +
      pb::Bytes(8, "") + pb::Bytes(9, "192.0.2.0/24") + pb::Bytes(9, "2001:db8::/64") +
      pb::Bytes(10, "") + pb::Bytes(11, "Local") + pb::Int(12, 32000) + pb::Int(13, 0) +
      pb::Bytes(14, pb::Bytes(1, pb::Int(1, 600))) + pb::Bytes(17, "RequireDualStack") +
      pb::Bytes(18, "10.96.0.20") + pb::Bytes(18, "fd00::20") + pb::Bytes(19, "IPv4") +
      pb::Bytes(19, "IPv6") + pb::Int(20, 1) + pb::Bytes(22, "Local");
  const std::string status = pb::Bytes(
      1, pb::Bytes(1, pb::Bytes(1, "198.51.100.7") + pb::Bytes(2, "") + pb::Bytes(3, "VIP")) +
             pb::Bytes(
                 1, pb::Bytes(1, "") + pb::Bytes(2, "lb.example") + pb::Bytes(4, pb::Int(1, 443))));
  const std::string metadata =
      pb::ObjectMeta("front", "shop", "42",
                     pb::MapEntry(11, "service.kubernetes.io/service-proxy-name", "svcmap") +
                         pb::MapEntry(12, "note", "\xff"));
  return {"load balancer",
          Resource::kServices,
          "v1",
          "Service",
          pb::Bytes(1, metadata) + pb::Bytes(2, spec) + pb::Bytes(3, status),
          "shop/front",
          R"(service {
           metadata { name: "front" namespace: "shop" creation_timestamp { seconds: 1767225600 } }
           spec {
             ports { name: "dns" protocol: "UDP" port: 53 node_port: 30053 }
             ports { name: "web" protocol: "TCP" port: 443 node_port: 30443 }
             type: "LoadBalancer" cluster_ip: "10.96.0.20"
             cluster_ips: "10.96.0.20" cluster_ips: "fd00::20"
             ip_families: "IPv4" ip_families: "IPv6"
             external_ips: "192.0.2.1" external_ips: "2001:db8::1"
             load_balancer_source_ranges: "192.0.2.0/24"
             load_balancer_source_ranges: "2001:db8::/64"
             external_traffic_policy: "Local" internal_traffic_policy: "Local"
             session_affinity: "ClientIP"
             session_affinity_config { client_ip { timeout_seconds: 600 } }
             health_check_node_port: 32000
           }
           status { load_balancer {
             ingress { ip: "198.51.100.7" ip_mode: "VIP" } ingress { hostname: "lb.example" }
           } }
         })"};
}

// Field numbers in discoveryv1.EndpointSlice: metadata = 1, endpoints = 2, ports = 3, addressType =
// 4. Field numbers in Endpoint: addresses = 1, conditions = 2 {ready = 1, serving = 2, terminating
// = 3}, hostname = 3, targetRef = 4, deprecatedTopology = 5, nodeName = 6, zone = 7, hints = 8
// {forZones = 1 {name = 1}, forNodes = 2 {name = 1}}. Field numbers in EndpointPort: name = 1,
// protocol = 2, port = 3, appProtocol = 4.
GoldenObject GoldenSlice() {
  const std::string ready =
      pb::Bytes(1, "10.244.1.5") + pb::Bytes(2, pb::Int(1, 1) + pb::Int(2, 1) + pb::Int(3, 0)) +
      pb::Bytes(3, "web-0") +
      pb::Bytes(4, pb::Bytes(1, "Pod") + pb::Bytes(2, "shop") + pb::Bytes(3, "web-0")) +
      pb::Bytes(6, "node-1") + pb::Bytes(7, "zone-a") +
      pb::Bytes(8, pb::Bytes(1, pb::Bytes(1, "zone-a")) + pb::Bytes(1, pb::Bytes(1, "")) +
                       pb::Bytes(2, pb::Bytes(1, "node-1")));
  const std::string bare =
      pb::Bytes(1, "10.244.1.6") + pb::Bytes(1, "10.244.1.7") + pb::Bytes(2, "");
  const std::string ports =
      pb::Bytes(3, pb::Bytes(1, "") + pb::Bytes(2, "TCP") + pb::Int(3, 8080)) +
      pb::Bytes(3, pb::Bytes(1, "no-port"));
  const std::string metadata = pb::ObjectMeta(
      "web-x7k2p", "shop", "43",
      pb::MapEntry(11, "kubernetes.io/service-name", "web") + pb::MapEntry(11, "app", "web") +
          pb::MapEntry(12, "endpoints.kubernetes.io/last-change-trigger-time",
                       "2026-01-01T00:00:01Z"));
  return {"slice",
          Resource::kEndpointSlices,
          "discovery.k8s.io/v1",
          "EndpointSlice",
          pb::Bytes(1, metadata) + pb::Bytes(2, ready) + pb::Bytes(2, bare) + ports +
              pb::Bytes(4, "IPv4"),
          "shop/web-x7k2p",
          R"(endpoint_slice {
           metadata {
             name: "web-x7k2p" namespace: "shop" creation_timestamp { seconds: 1767225600 }
             labels { key: "kubernetes.io/service-name" value: "web" }
             annotations {
               key: "endpoints.kubernetes.io/last-change-trigger-time" value: "2026-01-01T00:00:01Z"
             }
           }
           address_type: "IPv4"
           endpoints {
             addresses: "10.244.1.5" conditions { ready: true serving: true terminating: false }
             node_name: "node-1" zone: "zone-a"
             hints { for_zones { name: "zone-a" } for_zones {} for_nodes { name: "node-1" } }
           }
           endpoints { addresses: "10.244.1.6" addresses: "10.244.1.7" }
           ports { name: "" protocol: "TCP" port: 8080 }
           ports { name: "no-port" }
         })"};
}

// Field numbers in corev1.Node: metadata = 1, spec = 2, status = 3. Field numbers in NodeSpec:
// podCIDR = 1, providerID = 3, unschedulable = 4, taints = 5 {key = 1, value = 2, effect = 3,
// timeAdded = 4}, podCIDRs = 7. Field numbers in NodeStatus: capacity = 1, conditions = 4,
// addresses = 5 {type = 1, address = 2}, images = 8. Field numbers in ObjectMeta: creationTimestamp
// = 8 (empty, because the creation time is unknown), deletionTimestamp = 9.
GoldenObject GoldenNode() {
  const std::string metadata = pb::Bytes(1, "node-1") + pb::Bytes(3, "") + pb::Bytes(6, "44") +
                               pb::Bytes(8, "") + pb::Bytes(9, pb::Int(1, 60)) +
                               pb::MapEntry(11, "topology.kubernetes.io/zone", "zone-a") +
                               pb::MapEntry(11, "kubernetes.io/os", "linux");
  const std::string spec = pb::Bytes(1, "10.244.1.0/24") + pb::Bytes(3, "kind://node-1") +
                           pb::Int(4, 0) +
                           pb::Bytes(5, pb::Bytes(1, "ToBeDeletedByClusterAutoscaler") +
                                            pb::Bytes(2, "9") + pb::Bytes(3, "NoSchedule")) +
                           pb::Bytes(7, "10.244.1.0/24") + pb::Bytes(7, "fd00:1::/64");
  const std::string status = pb::MapEntry(1, "cpu", "4") +
                             pb::Bytes(5, pb::Bytes(1, "InternalIP") + pb::Bytes(2, "192.0.2.11")) +
                             pb::Bytes(5, pb::Bytes(1, "Hostname") + pb::Bytes(2, "node-1")) +
                             pb::Bytes(8, pb::Bytes(1, "registry.example/image") + pb::Int(2, 1));
  return {"Node",
          Resource::kNode,
          "v1",
          "Node",
          pb::Bytes(1, metadata) + pb::Bytes(2, spec) + pb::Bytes(3, status),
          "node-1",
          R"(node {
           metadata {
             name: "node-1" deletion_timestamp { seconds: 60 }
             labels { key: "topology.kubernetes.io/zone" value: "zone-a" }
           }
           spec {
             pod_cidrs: "10.244.1.0/24" pod_cidrs: "fd00:1::/64"
             taints { key: "ToBeDeletedByClusterAutoscaler" value: "9" effect: "NoSchedule" }
           }
           status {
             addresses { type: "InternalIP" address: "192.0.2.11" }
             addresses { type: "Hostname" address: "node-1" }
           }
         })"};
}

// Field numbers in networkingv1.ServiceCIDR: metadata = 1, spec = 2 {cidrs = 1}, status = 3
// {conditions = 1}.
GoldenObject GoldenCidr() {
  return {"ServiceCIDR",
          Resource::kServiceCidrs,
          "networking.k8s.io/v1",
          "ServiceCIDR",
          pb::Bytes(1, pb::ObjectMeta("kubernetes", "", "45")) +
              pb::Bytes(2, pb::Bytes(1, "10.96.0.0/12") + pb::Bytes(1, "fd00::/108")) +
              pb::Bytes(3, pb::Bytes(1, pb::Bytes(1, "Ready") + pb::Bytes(2, "True"))),
          "kubernetes",
          R"(service_cidr {
               metadata { name: "kubernetes" creation_timestamp { seconds: 1767225600 } }
               spec { cidrs: "10.96.0.0/12" cidrs: "fd00::/108" }
             })"};
}

void ExpectGolden(const GoldenObject& golden, const absl::StatusOr<ListPage>& page) {
  ASSERT_OK(page);
  EXPECT_EQ(page->resource_version, "500");
  EXPECT_EQ(page->continue_token, "next");
  ASSERT_EQ(page->items.size(), 1u);
  const Item& item = page->items[0];
  EXPECT_EQ(item.key, golden.key);
  EXPECT_THAT(item.resource_version, ::testing::StartsWith("4"));
  v1::Object wanted;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(golden.object, &wanted));
  v1::Object object;  // Has the field numbers of v1::Change.
  ASSERT_TRUE(object.ParseFromString(item.change));
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(object, wanted))
      << object.DebugString();
}

TEST(WireListTest, GoldenObjectsBecomeMessages) {
  for (const GoldenObject& golden :
       {GoldenService(), GoldenLoadBalancer(), GoldenSlice(), GoldenNode(), GoldenCidr()}) {
    SCOPED_TRACE(golden.name);
    const std::string bytes = pb::Envelope(golden.api_version, absl::StrCat(golden.kind, "List"),
                                           pb::ListOf(golden.bytes, "500", "next"));
    ExpectGolden(golden, DecodeList(golden.resource, bytes));
  }
}

TEST(WireListTest, ServiceCidrsOfV1Beta1AreTheSame) {
  const GoldenObject golden = GoldenCidr();
  ExpectGolden(golden, DecodeList(golden.resource,
                                  pb::Envelope("networking.k8s.io/v1beta1", "ServiceCIDRList",
                                               pb::ListOf(golden.bytes, "500", "next"))));
}

TEST(WireListTest, AnEmptyListIsAListAndTheLastPageHasNoToken) {
  const auto page = DecodeList(
      Resource::kServices, pb::Envelope("v1", "ServiceList", pb::Bytes(1, pb::ListMeta("7", ""))));
  ASSERT_OK(page);
  EXPECT_EQ(page->resource_version, "7");
  EXPECT_EQ(page->continue_token, "");
  EXPECT_TRUE(page->items.empty());
}

TEST(WireListTest, APageWithTooManyObjectsIsNotReadToItsEnd) {
  std::string items;
  for (int i = 0; i < 5; ++i) items += pb::Bytes(2, GoldenService().bytes);
  const std::string body =
      pb::Envelope("v1", "ServiceList", pb::Bytes(1, pb::ListMeta("7", "")) + items);
  EXPECT_OK(DecodeList(Resource::kServices, body, 5));
  EXPECT_EQ(DecodeList(Resource::kServices, body, 4).status(),
            absl::ResourceExhaustedError("the page has more than 4 objects"));
}

TEST(WireListTest, WhatIsNoListIsRejectedAndTheErrorSaysWhereItEnds) {
  const std::string good = GoldenService().bytes;
  const std::string no_name = pb::Bytes(1, pb::Bytes(3, "shop"));
  const std::string not_utf8 =
      pb::Bytes(1, pb::ObjectMeta("web", "shop", "1")) + pb::Bytes(2, pb::Bytes(3, "\xff"));
  const std::string endless = pb::Bytes(1, pb::ObjectMeta("web", "shop", "1")) + "\x12\x7f";
  const struct {
    const char* name;
    std::string body;
    const char* error;
  } cases[] = {
      {"empty", "", "services: list: not a message in the Kubernetes protobuf encoding"},
      {"no magic", pb::ListOf(good), "not a message in the Kubernetes protobuf encoding"},
      {"other kind", pb::Envelope("v1", "PodList", pb::ListOf(good)),
       R"(unexpected kind "PodList" of apiVersion "v1")"},
      {"other version", pb::Envelope("v2", "ServiceList", pb::ListOf(good)),
       R"(unexpected kind "ServiceList" of apiVersion "v2")"},
      {"nothing in it", pb::Envelope("v1", "ServiceList", ""),
       "services: metadata.resourceVersion: Required value"},
      {"encoded", pb::Envelope("", "", pb::ListOf(good)) + pb::Bytes(3, "gzip"),
       "not a message in the Kubernetes protobuf encoding"},
      {"no name", pb::Envelope("v1", "ServiceList", pb::ListOf(no_name)),
       "services: at byte 40: items[0].metadata.name: Required value"},
      {"not UTF-8", pb::Envelope("v1", "ServiceList", pb::ListOf(not_utf8)),
       "at byte 40: items[0].spec.clusterIP: must be valid UTF-8"},
      {"endless field", pb::Envelope("v1", "ServiceList", pb::ListOf(endless)),
       "at byte 40: items[0]: cannot be decoded"},
      {"cut off", pb::Envelope("v1", "ServiceList", pb::ListOf(good) + "\x12\x7f"),
       "services: list: truncated message"},
      {"a group", pb::Envelope("v1", "ServiceList", pb::ListOf(good) + "\x1b"),
       "services: list: truncated message"},
      {"no namespace",
       pb::Envelope("v1", "ServiceList", pb::ListOf(pb::Bytes(1, pb::Bytes(1, "a")))),
       "items[0].metadata.namespace: Required value"},
  };
  for (const auto& test : cases) {
    const auto page = DecodeList(Resource::kServices, test.body);
    EXPECT_EQ(page.status().code(), absl::StatusCode::kDataLoss) << test.name;
    EXPECT_THAT(std::string(page.status().message()), HasSubstr(test.error)) << test.name;
  }
}

// Field numbers in metav1.Status: metadata = 1, status = 2, message = 3, reason = 4, details = 5
// {retryAfterSeconds = 5}, code = 6.
TEST(WireStatusTest, AGoldenStatusIsDecoded) {
  const ApiStatus status = DecodeStatus(pb::Envelope(
      "v1", "Status",
      pb::Bytes(1, "") + pb::Bytes(2, "Failure") +
          pb::Bytes(3, "too old resource version: 1 (5)\n\x1b[31m") + pb::Bytes(4, "Expired") +
          pb::Bytes(5, pb::Bytes(1, "") + pb::Int(5, 3)) + pb::Int(6, 410)));
  EXPECT_EQ(status.code, 410);
  EXPECT_EQ(status.reason, "Expired");
  EXPECT_EQ(status.message, "too old resource version: 1 (5) \\u001b[31m");
  EXPECT_EQ(status.retry_after_seconds, 3);
}

TEST(WireStatusTest, AnotherBodyIsShortenedAndPrintable) {
  const ApiStatus html =
      DecodeStatus("<h1>502 \"Bad\" Gateway</h1>\n\x01\xff" + std::string(10'000, 'x'));
  EXPECT_EQ(html.code, 0);
  EXPECT_THAT(html.message, ::testing::StartsWith("<h1>502 \"Bad\" Gateway</h1> \\u0001\\xffxxx"));
  EXPECT_LT(html.message.size(), 600u);
  EXPECT_EQ(DecodeStatus("404 page not found").message, "404 page not found");
  // Some proxies and the API server's response with status 406 contain a Status in JSON.
  constexpr char kJson[] = R"({"kind":"Status","message":"too many","code":429})";
  EXPECT_EQ(DecodeStatus(kJson).message, kJson);
}

TEST(WireContentTypeTest, ParametersAndCaseDoNotCount) {
  EXPECT_TRUE(IsProtobufType("application/vnd.kubernetes.protobuf;stream=watch"));
  EXPECT_TRUE(IsProtobufType(" Application/Vnd.Kubernetes.Protobuf ; charset=utf-8"));
  EXPECT_FALSE(IsProtobufType("application/json"));
  EXPECT_FALSE(IsProtobufType(""));
}

TEST(WireSelectorTest, S1ServicesOfOthersAndHeadlessOnesAreNotAskedFor) {
  EXPECT_EQ(CollectionPath(Resource::kServices, {"node-1", ""}),
            "/api/v1/services?labelSelector=%21service.kubernetes.io%2Fservice-proxy-name"
            "&fieldSelector=spec.clusterIP%21%3DNone");
  EXPECT_EQ(CollectionPath(Resource::kServices, {"node-1", "svc map"}),
            "/api/v1/services?labelSelector=service.kubernetes.io%2Fservice-proxy-name%3Dsvc%20map"
            "&fieldSelector=spec.clusterIP%21%3DNone");
}

TEST(WireSelectorTest, S17HeadlessSlicesAreNotAskedForWhateverTheProxyName) {
  EXPECT_EQ(CollectionPath(Resource::kEndpointSlices, {"node-1", "svcmap"}),
            "/apis/discovery.k8s.io/v1/endpointslices?labelSelector="
            "%21service.kubernetes.io%2Fheadless");
}

TEST(WireSelectorTest, OneNodeAndAllServiceCidrs) {
  EXPECT_EQ(CollectionPath(Resource::kNode, {"node-1.example", ""}),
            "/api/v1/nodes?fieldSelector=metadata.name%3Dnode-1.example");
  EXPECT_EQ(CollectionPath(Resource::kServiceCidrs, {"node-1", ""}),
            "/apis/networking.k8s.io/v1/servicecidrs?labelSelector=");
}

}  // namespace
}  // namespace svcmap::kube::test
