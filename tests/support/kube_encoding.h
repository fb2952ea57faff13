// Encodes API server responses in protobuf. Uses the Kubernetes API's public field numbers
// (k8s.io/api/*/generated.proto), independent of api/kube/wire. Like a real server, also encodes
// fields that svcmap-kube does not read (uid, managedFields, selector, targetPort). Encodes fields
// that are not pointers in Go as empty strings if they are not set.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "svcmap/v1/control.pb.h"

namespace svcmap::testing {

// The collections of the fake API server.
enum class Collection : uint8_t { kServices, kEndpointSlices, kNodes, kServiceCidrs };
inline constexpr Collection kCollections[] = {Collection::kServices, Collection::kEndpointSlices,
                                              Collection::kNodes, Collection::kServiceCidrs};

struct CollectionNames {
  const char* api_version;  // API version, for example "discovery.k8s.io/v1".
  const char* kind;         // Kind, for example "EndpointSlice".
  const char* plural;       // Resource name, for example "endpointslices".
  bool namespaced;
};
const CollectionNames& NamesOf(Collection collection);

Collection CollectionOf(const v1::Object& object);  // `object` must contain one of the four kinds.
const v1::ObjectMeta& MetadataOf(const v1::Object& object);

// Encodes an object as a list item, without envelope and type. `version` becomes the object's
// resourceVersion.
std::string EncodeItem(const v1::Object& object, uint64_t version);

// Returns a runtime.Unknown with its magic number: a complete response body.
std::string Enveloped(const std::string& api_version, const std::string& kind,
                      std::string_view raw);

// Encode complete response bodies and frames of a watch. `item` is a result of EncodeItem.
std::string EncodeObject(Collection collection, const std::string& item);
std::string EncodeList(Collection collection, const std::vector<const std::string*>& items,
                       uint64_t version, const std::string& continue_token, int64_t remaining);
std::string EncodeStatus(int code, const std::string& reason, const std::string& message);
// `type` is for example "ADDED", and `object` is a complete body.
std::string EncodeEvent(std::string_view type, const std::string& object);
// Encodes the object of a bookmark event as a complete HTTP response body.
std::string EncodeBookmark(Collection collection, uint64_t version);

}  // namespace svcmap::testing
