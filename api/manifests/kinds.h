// The kinds of manifests we read and write, and where they belong in the protocol. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "google/protobuf/message.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

struct ManifestKind {
  std::string_view name;         // "EndpointSlice"
  std::string_view group;        // "discovery.k8s.io"; empty for the core group.
  std::string_view api_version;  // "discovery.k8s.io/v1"
  bool namespaced;
  v1::Object::ObjectCase field;
};

// Null for a kind we do not use. The same name in another group is another kind.
const ManifestKind* FindManifestKind(std::string_view api_version, std::string_view kind);

const ManifestKind* ManifestKindOf(const v1::Object& object);  // Null: nothing is set.

// The message of `kind` in `object`, made if need be.
google::protobuf::Message& MutableMessage(const ManifestKind& kind, v1::Object& object);

}  // namespace svcmap::api
