// Reads objects in the protobuf encoding of Kubernetes. Pure functions.
//
// Objects contain only the fields, labels and annotations that svcmapd uses. An object in etcd or
// in a response body has an envelope: the bytes "k8s\0" and a runtime.Unknown, which contains the
// kind and the message of that kind.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/convert/kinds.h"
#include "api/convert/projection.h"
#include "svcmap/kube/wire/kubernetes.pb.h"

namespace svcmap::source {

// The resources that a source reads and sends to svcmapd, in the order of proxy::Kind.
enum class Resource : uint8_t { kServices, kEndpointSlices, kNode, kServiceCidrs };

inline constexpr std::array kResources = {Resource::kServices, Resource::kEndpointSlices,
                                          Resource::kNode, Resource::kServiceCidrs};

constexpr const api::KindInfo& KindOf(Resource resource) {
  return api::kKinds[static_cast<size_t>(resource)];
}

// "services", "endpointslices" ...
constexpr std::string_view ResourceName(Resource resource) { return KindOf(resource).plural; }

// Maximum encoded size of one object or event.
inline constexpr size_t kMaxObjectBytes = size_t{16} << 20;

// One object of a list or an event.
struct Item {
  std::string key;               // "namespace/name", or "name" for cluster-scoped resources.
  std::string resource_version;  // Opaque.
  // The reduced object as a serialized v1::Change (see api/convert/projection.h). Empty for deleted
  // objects.
  std::string change;
};

// Error in an object. `field` is the path of the field, such as "metadata.name", or empty for the
// object itself.
struct ObjectError {
  std::string field;
  std::string reason;
};

inline constexpr std::string_view kEnvelopeMagic("k8s\0", 4);

struct Envelope {
  kube::wire::TypeMeta type;
  std::string_view raw;
};

// Returns nullopt if `bytes` is not an envelope, or if its content is compressed.
std::optional<Envelope> OpenEnvelope(std::string_view bytes);

// Parses a message of at most kMaxObjectBytes.
template <typename Message>
bool ParseWire(std::string_view bytes, Message& message) {
  return bytes.size() <= kMaxObjectBytes &&
         message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

// Returns nullopt if `object` or its metadata cannot be decoded.
std::optional<kube::wire::ObjectMeta> ReadMetadata(std::string_view object);

// Sets the key and the version of `item` from the encoding of an object without envelope.
std::optional<ObjectError> ReadKey(Resource resource, std::string_view object, Item& item);

// Sets item.change. Drops the labels that `keep_label` rejects.
std::optional<ObjectError> ReadChange(Resource resource, std::string_view object,
                                      api::LabelFilter keep_label, Item& item);

}  // namespace svcmap::source
