// Tests of lists in Kubernetes' protobuf encoding.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/kube/wire/decode.h"
#include "svcmap/v1/control.pb.h"
#include "tests/support/kube_encoding.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/kube/wire_bytes.h"

namespace svcmap::kube::test {
namespace {

using svcmap::testing::Collection;
using svcmap::testing::EncodeEvent;
using svcmap::testing::EncodeItem;
using svcmap::testing::EncodeList;
using svcmap::testing::Enveloped;
using ::testing::HasSubstr;
using EventType = WatchEvent::Type;

// Objects with all fields that svcmap uses, in text format. kube_encoding adds fields that svcmap
// does not use.
struct GoldenObject {
  Collection collection;
  Resource resource;
  const char* key;
  const char* object;  // A v1::Object, which is also the expected result.
};

const GoldenObject kGoldenObjects[] = {
    {Collection::kServices, Resource::kServices, "shop/web", R"(service {
       metadata { name: "web" namespace: "shop" creation_timestamp { seconds: 1767225600 } }
       spec {
         ports { protocol: "TCP" port: 80 } type: "ClusterIP" cluster_ip: "10.96.0.10"
         cluster_ips: "10.96.0.10" ip_families: "IPv4" session_affinity: "None"
         internal_traffic_policy: "Cluster"
       }
     })"},
    {Collection::kServices, Resource::kServices, "shop/front", R"(service {
       metadata { name: "front" namespace: "shop" creation_timestamp { seconds: 1767225600 } }
       spec {
         ports { name: "dns" protocol: "UDP" port: 53 node_port: 30053 }
         ports { name: "web" protocol: "TCP" port: 443 node_port: 30443 }
         type: "LoadBalancer" cluster_ip: "10.96.0.20"
         cluster_ips: "10.96.0.20" cluster_ips: "fd00::20"
         ip_families: "IPv4" ip_families: "IPv6"
         external_ips: "192.0.2.1" external_ips: "2001:db8::1"
         load_balancer_source_ranges: "192.0.2.0/24" load_balancer_source_ranges: "2001:db8::/64"
         external_traffic_policy: "Local" internal_traffic_policy: "Local"
         session_affinity: "ClientIP"
         session_affinity_config { client_ip { timeout_seconds: 600 } }
         health_check_node_port: 32000
       }
       status { load_balancer {
         ingress { ip: "198.51.100.7" ip_mode: "VIP" } ingress { hostname: "lb.example" }
       } }
     })"},
    {Collection::kEndpointSlices, Resource::kEndpointSlices, "shop/web-1", R"(endpoint_slice {
       metadata {
         name: "web-1" namespace: "shop" creation_timestamp { seconds: 1767225600 }
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
     })"},
    {Collection::kNodes, Resource::kNode, "node-1", R"(node {
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
     })"},
    {Collection::kServiceCidrs, Resource::kServiceCidrs, "kubernetes", R"(service_cidr {
       metadata { name: "kubernetes" creation_timestamp { seconds: 1767225600 } }
       spec { cidrs: "10.96.0.0/12" cidrs: "fd00::/108" }
     })"},
};

TEST(WireListTest, GoldenObjectsBecomeMessages) {
  for (const GoldenObject& golden : kGoldenObjects) {
    SCOPED_TRACE(golden.key);
    v1::Object wanted;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(golden.object, &wanted));
    const std::string bytes = EncodeItem(wanted, 41);
    const auto page =
        DecodeList(golden.resource, EncodeList(golden.collection, {&bytes}, 500, "next", 7));
    ASSERT_OK(page);
    EXPECT_EQ(page->resource_version, "500");
    EXPECT_EQ(page->continue_token, "next");
    ASSERT_EQ(page->items.size(), 1u);
    EXPECT_EQ(page->items[0].key, golden.key);
    EXPECT_EQ(page->items[0].resource_version, "41");
    v1::Object object;  // Has the field numbers of v1::Change.
    ASSERT_TRUE(object.ParseFromString(page->items[0].change));
    EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(object, wanted))
        << object.DebugString();
  }
}

TEST(WireListTest, ServiceCidrsOfV1Beta1AreTheSame) {
  const std::string cidr = pb::Bytes(1, pb::ObjectMeta("kubernetes", "", "45")) +
                           pb::Bytes(2, pb::Bytes(1, "10.96.0.0/12"));
  for (const char* version : {"v1", "v1beta1"}) {
    const auto page =
        DecodeList(Resource::kServiceCidrs, Enveloped(absl::StrCat("networking.k8s.io/", version),
                                                      "ServiceCIDRList", pb::ListOf(cidr)));
    ASSERT_OK(page);
    EXPECT_EQ(page->items.at(0).key, "kubernetes") << version;
  }
}

TEST(WireListTest, AnEmptyListIsAListAndTheLastPageHasNoToken) {
  const auto page = DecodeList(Resource::kServices,
                               Enveloped("v1", "ServiceList", pb::Bytes(1, pb::ListMeta("7", ""))));
  ASSERT_OK(page);
  EXPECT_EQ(page->resource_version, "7");
  EXPECT_EQ(page->continue_token, "");
  EXPECT_TRUE(page->items.empty());
}

// Returns Service shop/web without a spec.
std::string AService() { return pb::Bytes(1, pb::ObjectMeta("web", "shop", "41")); }

TEST(WireListTest, APageWithTooManyObjectsIsNotReadToItsEnd) {
  std::string items;
  for (int i = 0; i < 5; ++i) items += pb::Bytes(2, AService());
  const std::string body =
      Enveloped("v1", "ServiceList", pb::Bytes(1, pb::ListMeta("7", "")) + items);
  EXPECT_OK(DecodeList(Resource::kServices, body, 5));
  EXPECT_EQ(DecodeList(Resource::kServices, body, 4).status(),
            absl::ResourceExhaustedError("the page has more than 4 objects"));
}

TEST(WireListTest, WhatIsNoListIsRejectedAndTheErrorSaysWhereItEnds) {
  const std::string good = AService();
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
      {"other kind", Enveloped("v1", "PodList", pb::ListOf(good)),
       R"(unexpected kind "PodList" of apiVersion "v1")"},
      {"other version", Enveloped("v2", "ServiceList", pb::ListOf(good)),
       R"(unexpected kind "ServiceList" of apiVersion "v2")"},
      {"nothing in it", Enveloped("v1", "ServiceList", ""),
       "services: metadata.resourceVersion: Required value"},
      {"encoded", Enveloped("", "", pb::ListOf(good)) + pb::Bytes(3, "gzip"),
       "not a message in the Kubernetes protobuf encoding"},
      {"no name", Enveloped("v1", "ServiceList", pb::ListOf(no_name)),
       "services: at byte 40: items[0].metadata.name: Required value"},
      {"not UTF-8", Enveloped("v1", "ServiceList", pb::ListOf(not_utf8)),
       "at byte 40: items[0].spec.clusterIP: must be valid UTF-8"},
      {"endless field", Enveloped("v1", "ServiceList", pb::ListOf(endless)),
       "at byte 40: items[0]: cannot be decoded"},
      {"cut off", Enveloped("v1", "ServiceList", pb::ListOf(good) + "\x12\x7f"),
       "services: list: truncated message"},
      {"a group", Enveloped("v1", "ServiceList", pb::ListOf(good) + "\x1b"),
       "services: list: truncated message"},
      {"no namespace", Enveloped("v1", "ServiceList", pb::ListOf(pb::Bytes(1, pb::Bytes(1, "a")))),
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
  const ApiStatus status = DecodeStatus(Enveloped(
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

// The lists above contain all fields.
std::string ServiceBytes(const char* name, const char* resource_version) {
  return Enveloped("v1", "Service",
                   pb::Bytes(1, pb::ObjectMeta(name, "shop", resource_version)) +
                       pb::Bytes(2, pb::Bytes(3, "10.96.0.10") + pb::Bytes(4, "ClusterIP")));
}

std::string ProtobufStream() {
  const std::string expired = Enveloped(
      "v1", "Status", pb::Bytes(3, "too old") + pb::Bytes(4, "Expired") + pb::Int(6, 410));
  // A bookmark contains the kind and version of the resource, and the fields of an otherwise empty
  // object.
  const std::string bookmark = Enveloped(
      "v1", "Service", pb::Bytes(1, pb::Bytes(1, "") + pb::Bytes(6, "13")) + pb::Bytes(2, ""));
  return EncodeEvent("ADDED", ServiceBytes("web", "10")) +
         EncodeEvent("MODIFIED", ServiceBytes("web", "11")) +
         EncodeEvent("DELETED", ServiceBytes("web", "12")) + EncodeEvent("BOOKMARK", bookmark) +
         EncodeEvent("ERROR", expired);
}

void ExpectEvents(const std::vector<WatchEvent>& events) {
  ASSERT_EQ(events.size(), 5u);
  const EventType types[] = {EventType::kAdded, EventType::kModified, EventType::kDeleted,
                             EventType::kBookmark, EventType::kError};
  const char* versions[] = {"10", "11", "12", "13", ""};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(events[i].type, types[i]);
    EXPECT_EQ(events[i].item.resource_version, versions[i]);
    EXPECT_EQ(events[i].item.key, i < 3 ? "shop/web" : "");
  }
  v1::Change modified;
  ASSERT_TRUE(modified.ParseFromString(events[1].item.change));
  EXPECT_EQ(modified.service().spec().cluster_ip(), "10.96.0.10");
  EXPECT_EQ(events[2].item.change, "");
  EXPECT_EQ(events[3].item.change, "");
  EXPECT_EQ(events[4].status.code, 410);
  EXPECT_EQ(events[4].status.reason, "Expired");
  EXPECT_EQ(events[4].status.message, "too old");
}

TEST(WireWatchTest, ProtobufFramesMayBeCutAnywhere) {
  const std::string stream = ProtobufStream();
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    WatchDecoder decoder(Resource::kServices);
    std::vector<WatchEvent> events;
    ASSERT_OK(decoder.Feed(stream.substr(0, cut), events));
    ASSERT_OK(decoder.Feed(stream.substr(cut), events));
    ExpectEvents(events);
  }
  WatchDecoder decoder(Resource::kServices);
  std::vector<WatchEvent> events;
  for (const char byte : stream) ASSERT_OK(decoder.Feed(std::string_view(&byte, 1), events));
  ExpectEvents(events);
}

TEST(WireWatchTest, AnErrorWithoutAStatusIsAnError) {
  for (const std::string& object : {std::string(), Enveloped("v1", "Pod", "")}) {
    WatchDecoder decoder(Resource::kServices);
    std::vector<WatchEvent> events;
    ASSERT_OK(decoder.Feed(EncodeEvent("ERROR", object), events));
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].type, EventType::kError);
    EXPECT_EQ(events[0].status.message, "the event contains no Status");
  }
}

TEST(WireWatchTest, WhatIsNoEventEndsTheWatchBehindTheEventsThatWere) {
  const struct {
    const char* name;
    std::string bytes;
    const char* error;
  } cases[] = {
      {"empty event", std::string(4, '\0'), "event: unknown type "},
      {"unknown type", EncodeEvent("SYNC", ServiceBytes("a", "1")),
       R"(event: unknown type "SYNC")"},
      {"bare object", EncodeEvent("ADDED", pb::Bytes(1, pb::ObjectMeta("a", "b", "1"))),
       "event: not a message in the Kubernetes protobuf encoding"},
      {"other kind", EncodeEvent("ADDED", Enveloped("v1", "Pod", "")),
       R"(event: unexpected kind "Pod" of apiVersion "v1")"},
      {"no name", EncodeEvent("DELETED", Enveloped("v1", "Service", "")),
       "event: object.metadata.name: Required value"},
      {"no version", EncodeEvent("BOOKMARK", Enveloped("v1", "Service", "")),
       "event: object.metadata.resourceVersion: Required value"},
      {"bookmark of another kind", EncodeEvent("BOOKMARK", Enveloped("v1", "Pod", "")),
       R"(event: unexpected kind "Pod" of apiVersion "v1")"},
  };
  for (const auto& test : cases) {
    WatchDecoder decoder(Resource::kServices);
    std::vector<WatchEvent> events;
    const absl::Status status = decoder.Feed(ProtobufStream() + test.bytes, events);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << test.name;
    EXPECT_THAT(std::string(status.message()), HasSubstr(test.error)) << test.name;
    EXPECT_EQ(events.size(), 5u) << test.name;
  }
}

TEST(WireWatchTest, AnEventOfMoreThanSixteenMebibytesIsRejected) {
  std::vector<WatchEvent> events;
  WatchDecoder longest(Resource::kServices);
  EXPECT_OK(longest.Feed(std::string("\x01\x00\x00\x00", 4), events));
  WatchDecoder too_long(Resource::kServices);
  EXPECT_EQ(too_long.Feed(std::string("\x01\x00\x00\x01", 4), events).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(events.empty());
}

}  // namespace
}  // namespace svcmap::kube::test
