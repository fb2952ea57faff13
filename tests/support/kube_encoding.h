// Encodes the answers of an API server in protobuf and JSON from the public field numbers of the
// Kubernetes API (k8s.io/api/*/generated.proto), independent of api/kube/wire. Like a real server,
// it also writes fields that svcmap-kube does not read (uid, managedFields, selector, targetPort),
// and empty strings for fields that are no pointers in Go.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "svcmap/v1/control.pb.h"

namespace svcmap::testing {

enum class Encoding : uint8_t { kProtobuf, kJson };

// What the double has.
enum class Collection : uint8_t { kServices, kEndpointSlices, kNodes, kServiceCidrs };
inline constexpr Collection kCollections[] = {Collection::kServices, Collection::kEndpointSlices,
                                              Collection::kNodes, Collection::kServiceCidrs};

struct CollectionNames {
  const char* api_version;  // "discovery.k8s.io/v1"
  const char* kind;         // "EndpointSlice"
  const char* plural;       // "endpointslices"
  bool namespaced;
};
const CollectionNames& NamesOf(Collection collection);

Collection CollectionOf(const v1::Object& object);  // One of the four must be set.
const v1::ObjectMeta& MetadataOf(const v1::Object& object);

// An object as an item of a list, without envelope or type. `version` is its resourceVersion.
std::string EncodeItem(Encoding encoding, const v1::Object& object, uint64_t version);

// Whole bodies, and frames of a watch. `item` is what EncodeItem gave.
std::string EncodeObject(Encoding encoding, Collection collection, const std::string& item);
std::string EncodeList(Encoding encoding, Collection collection,
                       const std::vector<const std::string*>& items, uint64_t version,
                       const std::string& continue_token, int64_t remaining);
std::string EncodeStatus(Encoding encoding, int code, const std::string& reason,
                         const std::string& message, int retry_after_seconds);
// `type`: "ADDED"; `object`: a whole body.
std::string EncodeEvent(Encoding encoding, std::string_view type, const std::string& object);
// The object of a bookmark, a whole body.
std::string EncodeBookmark(Encoding encoding, Collection collection, uint64_t version);

}  // namespace svcmap::testing
