// Helpers that convert objects from YAML, as svcmapd on node n1 does. The functions add the fields
// that a test does not need to specify.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/convert/convert.h"
#include "api/convert/fields.h"
#include "api/manifests/manifests.h"

namespace svcmap::api::test {

inline const ConvertContext kContext = {.node_name = "n1"};

// Convert a message whose encoding is not at hand.
inline auto ConvertService(const v1::Service& message, const ConvertContext& context) {
  return api::ConvertService(message, Serialize(message), context);
}
inline auto ConvertEndpointSlice(const v1::EndpointSlice& message, const ConvertContext& context) {
  return api::ConvertEndpointSlice(message, Serialize(message), context);
}
inline auto ConvertNode(const v1::Node& message, const ConvertContext& context) {
  return api::ConvertNode(message, Serialize(message), context);
}

// Returns the only object in `yaml`.
inline v1::Object Read(std::string_view yaml) {
  Manifests manifests = ReadManifests(yaml, "test.yaml");
  EXPECT_THAT(manifests.errors, ::testing::IsEmpty());
  EXPECT_THAT(manifests.objects, ::testing::SizeIs(1));
  return manifests.objects.empty() ? v1::Object() : manifests.objects[0].object;
}

inline Converted<proxy::Service> Service(std::string_view rest) {
  return ConvertService(
      Read(absl::StrCat("apiVersion: v1\nkind: Service\n", std::string(rest))).service(), kContext);
}

// Returns Service shop/web. `rest` contains "spec: {...}" and optionally a line "status: {...}".
inline Converted<proxy::Service> Web(std::string_view rest) {
  return Service(absl::StrCat("metadata: {namespace: shop, name: web}\n", std::string(rest)));
}

inline Converted<proxy::EndpointSlice> Slice(std::string_view rest) {
  return ConvertEndpointSlice(
      Read(
          absl::StrCat("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n", std::string(rest)))
          .endpoint_slice(),
      kContext);
}

// Returns an EndpointSlice of Service shop/web. The YAML contains "addressType: IPv4", "ports:
// [...]" and "endpoints: [...]".
inline Converted<proxy::EndpointSlice> WebSlice(std::string_view rest) {
  return Slice(
      absl::StrCat("metadata: {namespace: shop, name: web-1, labels: "
                   "{kubernetes.io/service-name: web}}\n",
                   std::string(rest)));
}

// Returns Node n1. `rest` contains "metadata: {...}" and other fields.
inline Converted<proxy::Node> Node(std::string_view rest) {
  return ConvertNode(Read(absl::StrCat("apiVersion: v1\nkind: Node\n", std::string(rest))).node(),
                     kContext);
}

// Formats addresses, prefixes and findings.
template <typename T>
std::vector<std::string> Texts(const std::vector<T>& values) {
  std::vector<std::string> texts;
  for (const T& value : values) texts.push_back(value.ToString());
  return texts;
}

}  // namespace svcmap::api::test
