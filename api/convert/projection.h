// Reduces the protobuf encoding of a Kubernetes object to what svcmap/v1/objects.proto describes.
//
// Pure and thread-safe. Safe for untrusted input: takes linear time, and its depth is limited by
// the schema.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "google/protobuf/descriptor.h"
#include "svcmap/v1/objects.pb.h"

namespace svcmap::api {

// Reason why an object cannot be decoded.
struct ProjectionError {
  std::string field;  // Path in JSON names, such as "spec.ports[1].name".
  std::string detail;
};

using LabelFilter = bool (*)(std::string_view key);

// Label of an EndpointSlice with the name of its Service.
inline constexpr char kServiceNameLabel[] = "kubernetes.io/service-name";

// Returns the value of kServiceNameLabel, or "".
std::string ServiceNameOf(const v1::ObjectMeta& slice);

// Returns true for labels that the agent uses.
bool IsUsedLabel(std::string_view key);

// Appends a field of type string, bytes or message to `out`. `tag` is the field number times 8,
// plus 2.
void AppendField(uint32_t tag, std::string_view bytes, std::string& out);

// Appends the encoding of a message of type `type` to `projected`. Drops unknown fields, empty
// values that have the same meaning as absent fields, labels that `keep_label` rejects, unused
// annotations, and unused strings that are not UTF-8. After an error, `projected` contains the
// fields before the error.
//
// If `deterministic` is not null, it is set to true if `projected` is equal to the deterministic
// encoding of the message (see Serialize), which is the case if the sender encodes fields and map
// entries in ascending order.
std::optional<ProjectionError> Project(std::string_view bytes,
                                       const google::protobuf::Descriptor& type,
                                       LabelFilter keep_label, std::string& projected,
                                       bool* deterministic = nullptr);

}  // namespace svcmap::api
