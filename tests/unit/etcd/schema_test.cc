#include "api/etcd/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "svcmap/v1/control.pb.h"

namespace svcmap::etcd::test {
namespace {

using ::testing::HasSubstr;

const Schema::Name kWeb = {Resource::kServices, "shop/web"};

v1::Service WebService() {
  v1::Service service;
  service.mutable_metadata()->set_namespace_("shop");
  service.mutable_metadata()->set_name("web");
  (*service.mutable_metadata()->mutable_labels())["app"] = "web";
  service.mutable_spec()->set_cluster_ip("10.96.0.10");
  return service;
}

// Returns the value with the envelope of Kubernetes.
std::string Enveloped(const std::string& kind, const std::string& api_version,
                      const std::string& object) {
  kube::wire::Unknown unknown;
  unknown.mutable_type_meta()->set_kind(kind);
  unknown.mutable_type_meta()->set_api_version(api_version);
  unknown.set_raw(object);
  return std::string(source::kEnvelopeMagic) + unknown.SerializeAsString();
}

std::string Json(const std::string& kind, const std::string& name) {
  return R"({"apiVersion":"v1","kind":")" + kind + R"(","metadata":{"namespace":"shop","name":")" +
         name + R"(","labels":{"app":"web"}},"spec":{"clusterIP":"10.96.0.10"}})";
}

TEST(SchemaTest, KeysNameObjects) {
  const Schema schema("/p", "n1");
  struct Case {
    const char* key;
    std::optional<Resource> resource;
    const char* object = "";
  };
  const Case cases[] = {
      {"/p/state/services/shop/web", Resource::kServices, "shop/web"},
      {"/p/state/endpointslices/shop/web-1", Resource::kEndpointSlices, "shop/web-1"},
      {"/p/state/servicecidrs/kubernetes", Resource::kServiceCidrs, "kubernetes"},
      {"/p/nodes/n1", Resource::kNode, "n1"},
      {"/p/nodes/n2", std::nullopt},
      {"/p/state/nodes/n1", std::nullopt},
      {"/p/state/head", std::nullopt},
      {"/p/state/services/web", std::nullopt},
      {"/p/state/services/shop/", std::nullopt},
      {"/p/state/services//web", std::nullopt},
      {"/p/state/services/shop/web/x", std::nullopt},
      {"/p/state/servicecidrs/a/b", std::nullopt},
      {"/p/state/service/shop/web", std::nullopt},
      {"/other/state/services/shop/web", std::nullopt},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.key);
    const std::optional<Schema::Name> name = schema.NameOf(c.key);
    ASSERT_EQ(name.has_value(), c.resource.has_value());
    if (!name) continue;
    EXPECT_EQ(name->resource, *c.resource);
    EXPECT_EQ(name->object, c.object);
  }
}

TEST(SchemaTest, EveryEncodingGivesTheReducedObject) {
  const std::string object = WebService().SerializeAsString();
  for (const std::string& value : {object, Enveloped("Service", "v1", object),
                                   Enveloped("", "", object), Json("Service", "web")}) {
    const absl::StatusOr<Item> item = DecodeValue(kWeb, value);
    ASSERT_TRUE(item.ok()) << item.status();
    EXPECT_EQ(item->key, "shop/web");
    v1::Change change;
    ASSERT_TRUE(change.ParseFromString(item->change));
    EXPECT_EQ(change.service().spec().cluster_ip(), "10.96.0.10");
    EXPECT_TRUE(change.service().metadata().labels().empty());  // svcmapd does not use the label.
  }
}

TEST(SchemaTest, WhatCannotBeDecodedIsNamed) {
  struct Case {
    const char* name;
    std::string value;
    const char* error;
  };
  v1::Service nameless;
  nameless.mutable_metadata()->set_namespace_("shop");
  const Case cases[] = {
      {"empty", "", "metadata.name: Required value"},
      {"bytes", "\xff\xff\xff", "the object cannot be decoded"},
      {"no name", nameless.SerializeAsString(), "metadata.name: Required value"},
      {"truncated envelope", "k8s", "the object cannot be decoded"},
      {"broken envelope", std::string("k8s\0\xff", 5), "the protobuf envelope cannot be decoded"},
      {"another kind", Enveloped("Pod", "v1", "x"), "kind: Invalid value: \"Pod\""},
      {"another version", Enveloped("Service", "v2", "x"), "of apiVersion \"v2\": must be Service"},
      {"truncated JSON", "{", "JSON: "},
      {"another kind in JSON", Json("Node", "web"), "kind: Invalid value: \"Node\""},
      {"an unknown kind in JSON", Json("Pod", "web"), "svcmap does not support this kind"},
      {"an empty list in JSON", R"({"apiVersion":"v1","kind":"List","items":[]})",
       "JSON: contains 0 objects: must be one object"},
      {"another type in JSON",
       R"({"apiVersion":"v1","kind":"Service","metadata":{"namespace":"shop","name":"web"},)"
       R"("spec":{"ports":[{"port":"http"}]}})",
       "spec.ports[0].port: Invalid value: \"http\""},
      {"another name", Json("Service", "api"),
       "metadata: the object is \"shop/api\": must be the object of the key"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const absl::StatusOr<Item> item = DecodeValue(kWeb, c.value);
    ASSERT_FALSE(item.ok());
    EXPECT_THAT(std::string(item.status().message()), HasSubstr(c.error));
  }
}

TEST(SchemaTest, TheHeadMayHaveFurtherFields) {
  const absl::StatusOr<Head> head =
      ParseHead(R"({"format":1,"seq":18446744073709551615,"epoch":2,"nonce":"n","writer":"w"})");
  ASSERT_TRUE(head.ok());
  EXPECT_EQ(*head, (Head{UINT64_MAX, 2, "n"}));
}

}  // namespace
}  // namespace svcmap::etcd::test
