// Maps the kinds of objects in manifests to the message types of the protocol. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "google/protobuf/message.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

struct ManifestKind {
  std::string_view name;   // "EndpointSlice"
  std::string_view group;  // API group such as "discovery.k8s.io", or empty for the core group.
  std::string_view api_version;  // "discovery.k8s.io/v1"
  bool namespaced;
  v1::Object::ObjectCase field;
};

// Returns null for a kind that svcmap does not use. Compares the name and the API group.
const ManifestKind* FindManifestKind(std::string_view api_version, std::string_view kind);

// Returns null if no field of `object` is set.
const ManifestKind* ManifestKindOf(const v1::Object& object);

// Returns the message of `kind` in `object`, and creates this message if necessary.
google::protobuf::Message& MutableMessage(const ManifestKind& kind, v1::Object& object);

}  // namespace svcmap::api
