#include "api/convert/projection.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "api/convert/convert.h"
#include "api/convert/fields.h"
#include "api/manifests/manifests.h"
#include "tests/differential/random_cluster.h"
#include "tests/support/kube_encoding.h"

namespace svcmap::api {
namespace {

using ::svcmap::testing::AService;
using ::svcmap::testing::CollectionOf;
using ::svcmap::testing::EncodeItem;
using ::testing::SizeIs;

const ConvertContext kNode1 = {.node_name = "n1"};

proxy::Kind KindOf(const v1::Object& object) {
  switch (object.object_case()) {
    case v1::Object::kService:
      return proxy::Kind::kService;
    case v1::Object::kEndpointSlice:
      return proxy::Kind::kEndpointSlice;
    case v1::Object::kNode:
      return proxy::Kind::kNode;
    default:
      return proxy::Kind::kServiceCidr;
  }
}

// Returns the bytes that the agent stores, or the reason for a rejection.
std::string Stored(const ConvertedChange& converted) {
  if (!converted.change) return converted.findings.at(0).ToString();
  const proxy::Change& change = *converted.change;
  if (change.service) return change.service->message;
  if (change.slice) return change.slice->message;
  if (change.node) return change.node->message;
  return change.service_cidr->message;
}

std::string StoredFromKubernetes(const v1::Object& object, uint64_t version) {
  return Stored(ConvertObject(KindOf(object), EncodeItem(object, version), kNode1));
}

// The manifest has fields that svcmap does not use.
std::string StoredFromManifest(const v1::Object& object) {
  const auto& names = NamesOf(CollectionOf(object));
  const auto& kind = *object.GetDescriptor()->FindFieldByNumber(object.object_case());
  std::string json;
  EXPECT_TRUE(google::protobuf::util::MessageToJsonString(
                  object.GetReflection()->GetMessage(object, &kind), &json)
                  .ok());
  absl::StrReplaceAll(
      {{"\"metadata\":{",
        "\"metadata\":{\"uid\":\"u-1\",\"resourceVersion\":\"1\",\"generation\":1,"
        "\"managedFields\":[{\"manager\":\"m\",\"fieldsV1\":{\"f:metadata\":{}}}],"}},
      &json);
  if (object.has_service()) {
    absl::StrReplaceAll({{"\"spec\":{", "\"spec\":{\"selector\":{\"app\":\"it\"},"},
                         {"\"port\":", "\"targetPort\":\"the-port\",\"port\":"}},
                        &json);
  }
  const Manifests manifests =
      ReadManifests(absl::StrCat("{\"apiVersion\":\"", names.api_version, "\",\"kind\":\"",
                                 names.kind, "\",", json.substr(1)),
                    "object.json");
  if (manifests.objects.size() != 1) return manifests.errors.at(0).ToString();
  return Stored(*ConvertObject(manifests.objects[0].object, kNode1));
}

const google::protobuf::Descriptor& ServiceType() { return *v1::Service::descriptor(); }

std::string Projected(std::string_view bytes, const google::protobuf::Descriptor& type) {
  std::string projected;
  const auto error = Project(bytes, type, IsUsedLabel, projected);
  return error ? absl::StrCat(error->field, ": ", error->detail) : projected;
}

std::string Replaced(std::string bytes, std::string_view from, std::string_view to) {
  bytes.replace(bytes.find(from), from.size(), to);
  return bytes;
}

v1::Object Web() { return AService("shop/web").ClusterIp("10.96.0.10").Port("http", 80); }

// The stored bytes determine the rules, so equal bytes mean equal rules.
TEST(ProjectionTest, KubernetesBytesAndManifestsOfRandomObjectsAreStoredAsEqualBytes) {
  size_t objects = 0;
  for (uint64_t seed = 1; objects < 150; ++seed) {
    testing::RandomCluster cluster(seed, "shop", {"10.244.1.0/24", "fd00:10:244:1::/64"});
    for (v1::Object object : cluster.Render()) {
      // Fields of svcmap.
      if (object.has_service()) {
        object.mutable_service()->mutable_spec()->clear_endpoint_pick();
        object.mutable_service()->mutable_spec()->clear_pick_table_size();
        object.mutable_service()->mutable_spec()->clear_reset_stale_tcp();
        for (v1::ServicePort& port : *object.mutable_service()->mutable_spec()->mutable_ports()) {
          port.clear_end_port();
        }
      }
      if (object.has_endpoint_slice()) {
        for (v1::Endpoint& endpoint : *object.mutable_endpoint_slice()->mutable_endpoints()) {
          endpoint.clear_weight();
        }
        // The reader of manifests applies these defaults of the API server.
        for (v1::EndpointPort& port : *object.mutable_endpoint_slice()->mutable_ports()) {
          if (!port.has_name()) port.set_name("");
          if (!port.has_protocol()) port.set_protocol("TCP");
        }
      }
      ++objects;
      const std::string stored = StoredFromKubernetes(object, 1);
      EXPECT_EQ(stored, StoredFromManifest(object)) << object.DebugString();
      EXPECT_EQ(stored, StoredFromKubernetes(object, 2)) << "another resourceVersion";
      EXPECT_LT(stored.size(), EncodeItem(object, 1).size());
    }
  }
}

v1::EndpointSlice SliceWithLabels() {
  v1::EndpointSlice slice;
  v1::ObjectMeta& metadata = *slice.mutable_metadata();
  metadata.set_namespace_("shop");
  metadata.set_name("web-1");
  (*metadata.mutable_labels())["kubernetes.io/service-name"] = "web";
  (*metadata.mutable_labels())["service.kubernetes.io/service-proxy-name"] = "";
  for (const char* address : {"10.1.0.2", "10.1.0.1"}) {
    v1::Endpoint& endpoint = *slice.add_endpoints();
    endpoint.add_addresses(address);
    endpoint.mutable_conditions()->set_ready(false);
    endpoint.set_zone("");
  }
  slice.add_ports()->set_port(8080);
  slice.set_address_type("IPv4");
  return slice;
}

// The agent copies an encoding without decoding it, if a decoder and encoder would not change it.
TEST(ProjectionTest, EveryEncodingOfAMessageIsStoredAsTheSameBytes) {
  const v1::EndpointSlice slice = SliceWithLabels();
  v1::EndpointSlice head, tail = slice, other_type;
  *head.mutable_metadata() = slice.metadata();
  tail.clear_metadata();
  other_type.set_address_type("IPv6");
  v1::ObjectMeta names = slice.metadata(), first, second;
  names.clear_labels();
  (*first.mutable_labels())["kubernetes.io/service-name"] = "web";
  (*second.mutable_labels())["service.kubernetes.io/service-proxy-name"] = "";
  std::string labels_first = second.SerializeAsString() + first.SerializeAsString() +
                             first.SerializeAsString() + names.SerializeAsString();
  std::string metadata_last = tail.SerializeAsString();
  AppendField(v1::EndpointSlice::kMetadataFieldNumber << 3 | 2, labels_first, metadata_last);
  const std::string expected = Serialize(slice);
  for (const std::string& encoding :
       {expected, head.SerializeAsString() + tail.SerializeAsString(),
        tail.SerializeAsString() + head.SerializeAsString(),
        head.SerializeAsString() + head.SerializeAsString() + tail.SerializeAsString(),
        other_type.SerializeAsString() + slice.SerializeAsString(), metadata_last}) {
    EXPECT_EQ(Stored(ConvertObject(proxy::Kind::kEndpointSlice, encoding, kNode1)), expected);
  }
}

TEST(ProjectionTest, NumbersGetTheShortestEncoding) {
  using std::string_literals::operator""s;
  const auto& port = *v1::EndpointPort::descriptor();
  EXPECT_EQ(Projected("\x18\x90\x3f"s, port), "\x18\x90\x3f"s);
  EXPECT_EQ(Projected("\x18\x90\xbf\x00"s, port), "\x18\x90\x3f"s);
  EXPECT_EQ(Projected("\x98\x00\x90\x3f"s, port), "\x18\x90\x3f"s);
  const std::string minus_one = "\x18" + std::string(9, '\xff');
  EXPECT_EQ(Projected(minus_one + "\x7f", port), minus_one + "\x01");
  EXPECT_EQ(Projected("\x0a\x84\x00http"s, port), "\x0a\x04http"s);
  EXPECT_EQ(Projected("\x08\x02"s, *v1::EndpointConditions::descriptor()), "\x08\x01"s);
}

TEST(ProjectionTest, OwnFieldsHaveNumbersFrom1000) {
  const auto* weight = v1::Endpoint::descriptor()->FindFieldByName("weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->number(), 1000);
  v1::EndpointSlice slice;
  slice.add_endpoints()->set_weight(7);
  EXPECT_EQ(Projected(slice.SerializeAsString(), *slice.GetDescriptor()),
            slice.SerializeAsString());
}

// Project supports only these types, and at most 32 fields in a message.
void ExpectSupportedTypes(const google::protobuf::Descriptor& type) {
  EXPECT_LE(type.field_count(), 32) << type.full_name();
  for (int i = 0; i < type.field_count(); ++i) {
    using Field = google::protobuf::FieldDescriptor;
    const Field& field = *type.field(i);
    EXPECT_THAT(field.type(),
                ::testing::AnyOf(Field::TYPE_STRING, Field::TYPE_MESSAGE, Field::TYPE_BOOL,
                                 Field::TYPE_INT32, Field::TYPE_INT64, Field::TYPE_UINT32))
        << field.full_name();
    if (field.is_map()) {
      EXPECT_TRUE(field.name() == "labels" || field.name() == "annotations") << field.full_name();
    } else if (field.message_type() != nullptr) {
      ExpectSupportedTypes(*field.message_type());
    }
  }
}

TEST(ProjectionTest, SupportsAllTypesInTheSchema) {
  for (const auto* type :
       {v1::Service::descriptor(), v1::EndpointSlice::descriptor(), v1::Node::descriptor(),
        v1::ServiceCIDR::descriptor(), v1::EndpointDelta::descriptor()}) {
    ExpectSupportedTypes(*type);
  }
}

TEST(ProjectionTest, UnusedDataIsDroppedEvenIfItIsNotUtf8) {
  const v1::Object web = Web();
  v1::Service service = web.service();
  auto& metadata = *service.mutable_metadata();
  (*metadata.mutable_labels())["team"] = "LABEL";
  (*metadata.mutable_annotations())["note"] = "NOTE";
  metadata.mutable_creation_timestamp();  // The zero time of Go.
  service.mutable_status()->mutable_load_balancer();
  std::string bytes = service.SerializeAsString() + std::string("\xba\x06\x03xyz", 6);
  bytes = Replaced(Replaced(bytes, "LABEL", "\xff\xff\xff\xff\xff"), "NOTE", "\xc3\x28\xa0\xa1");
  EXPECT_EQ(Projected(bytes, ServiceType()), web.service().SerializeAsString());

  v1::EndpointSlice slice;
  slice.add_endpoints()->add_addresses("10.0.0.1");
  const std::string without_zone = slice.SerializeAsString();
  slice.mutable_endpoints(0)->set_zone("ZONE");
  EXPECT_EQ(Projected(Replaced(slice.SerializeAsString(), "ZONE", "\xff\xfe\xfd\xfc"),
                      *slice.GetDescriptor()),
            without_zone);
}

TEST(ProjectionTest, AUsedStringThatIsNotUtf8IsNamed) {
  const std::string good = Web().service().SerializeAsString();
  EXPECT_EQ(Projected(Replaced(good, "http", "\xff\xfe\xfd\xfc"), ServiceType()),
            "spec.ports[0].name: must be valid UTF-8");
  v1::EndpointSlice slice;
  (*slice.mutable_metadata()->mutable_labels())["kubernetes.io/service-name"] = "WEB";
  EXPECT_EQ(
      Projected(Replaced(slice.SerializeAsString(), "WEB", "\xff\xfe\xfd"), *slice.GetDescriptor()),
      "metadata.labels: must be valid UTF-8");
}

TEST(ProjectionTest, AFieldWithAnotherTypeIsNamed) {
  EXPECT_EQ(Projected(std::string("\x10\x05", 2), ServiceType()), "spec: has another type");
}

TEST(ProjectionTest, TruncatedObjectsAreRejectedWithTheirNameIfItIsComplete) {
  const std::string bytes = EncodeItem(Web(), 1);
  const auto whole = ConvertObject(proxy::Kind::kService, bytes, kNode1);
  ASSERT_TRUE(whole.change);
  // The encoding starts with the tag and the length of the metadata, which has two bytes.
  const size_t metadata_end =
      3 + (static_cast<size_t>(bytes[1] & 0x7f) | static_cast<size_t>(bytes[2]) << 7);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const ConvertedChange cut =
        ConvertObject(proxy::Kind::kService, std::string_view(bytes).substr(0, size), kNode1);
    EXPECT_EQ(cut.change.has_value(), cut.findings.empty() || !cut.findings[0].rejected()) << size;
    if (!cut.change) {
      EXPECT_THAT(cut.findings, SizeIs(1)) << size;
    }
    EXPECT_EQ(cut.key == "shop/web", size >= metadata_end) << size;
  }
}

}  // namespace
}  // namespace svcmap::api
