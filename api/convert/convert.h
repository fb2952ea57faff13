// Converts protobuf objects to the immutable objects of proxy/state. Applies the validation rules
// of the Kubernetes API server to the fields that a proxy uses.
//
// An invalid object is rejected with one finding, which contains the field, the value and the
// expected value. The caller keeps the previously accepted version of a rejected object. Entries
// that are ignored according to docs/specification.md cause a warning. For objects that are not
// proxied (headless Services, ExternalName Services, Services of another proxy, headless
// EndpointSlices), only the name is checked.
//
// All functions are pure, thread-safe and safe for untrusted input, and take linear time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/state/objects.h"
#include "svcmap/envelope/v1/envelope.pb.h"
#include "svcmap/v1/control.pb.h"
#include "svcmap/v1/objects.pb.h"

namespace svcmap::api {

struct ConvertContext {
  // Name of the agent's node in lower case. If this name is empty, no endpoint is local
  // (requirement S-23).
  std::string node_name;
  bool external_ips = true;  // True if spec.externalIPs is used (requirement S-6).
};

template <typename T>
struct Converted {
  // The converted object, or null if the object is rejected.
  std::shared_ptr<const T> value;
  // Contains one rejection if `value` is null, and otherwise at most kMaxWarnings + 1 warnings.
  std::vector<proxy::Finding> findings;
};

// Maximum number of warnings about one object. One additional warning contains the number of
// omitted warnings.
inline constexpr size_t kMaxWarnings = 16;

// Convert one object. `encoded` is the deterministic encoding of the message, which becomes the
// member `message` of the converted object. Of an EndpointSlice, only `encoded` needs to contain
// the endpoints, because a message object for each of them would cost more than the conversion.
Converted<proxy::Service> ConvertService(const v1::Service& service, std::string encoded,
                                         const ConvertContext& context);
Converted<proxy::EndpointSlice> ConvertEndpointSlice(const v1::EndpointSlice& slice,
                                                     std::string encoded,
                                                     const ConvertContext& context);
// Applies `deltas` in order to the stored slice `held` and converts the result like a complete
// EndpointSlice. `held` is EndpointSlice::message, or null if no slice with the key `key` is
// stored. Each delta must have passed ConvertChange. If the result is rejected, `value` is the
// result of ConvertDepartures.
Converted<proxy::EndpointSlice> ConvertDeltas(
    const std::string& key, const std::string* held,
    const std::vector<std::shared_ptr<const v1::EndpointDelta>>& deltas,
    const ConvertContext& context);
// Returns the stored slice `held` without the endpoints that a rejected version of the slice does
// not list, and with the conditions of the rejected version. So removed endpoints are not used,
// even if the agent rejects the version from which they are missing. Both arguments are encodings
// of reduced slices.
std::shared_ptr<const proxy::EndpointSlice> ConvertDepartures(std::string_view held,
                                                              std::string_view rejected,
                                                              const ConvertContext& context);
Converted<proxy::Node> ConvertNode(const v1::Node& node, std::string encoded,
                                   const ConvertContext& context);
Converted<proxy::ServiceCidr> ConvertServiceCidr(const v1::ServiceCIDR& cidr, std::string encoded,
                                                 const ConvertContext& context);

struct ConvertedChange {
  proxy::Kind kind = proxy::Kind::kService;
  // Key of the object. The key is also set if the object is rejected, because a snapshot does not
  // prune rejected objects.
  std::string key;
  // `change` or `delta` is set unless the object is rejected. `delta` is also set for a rejected
  // delta that removes endpoints, and then only removes them.
  std::optional<proxy::Change> change;
  std::shared_ptr<const v1::EndpointDelta> delta;  // Argument for ConvertDeltas.
  // Encoding of a rejected EndpointSlice that could be decoded: argument for ConvertDepartures.
  std::string rejected_slice;
  std::vector<proxy::Finding> findings;
};

// Converts the protobuf encoding of an object. Reduces the object first (see Project). An encoding
// that cannot be decoded is a rejected object, with its name if the metadata could be decoded.
ConvertedChange ConvertObject(proxy::Kind kind, std::string_view bytes,
                              const ConvertContext& context);

// Return INVALID_ARGUMENT if no known field is set, or if a reference has no known kind. A change
// without a known field or kind comes from a faulty controller or from a newer version of the
// protocol.
absl::StatusOr<ConvertedChange> ConvertChange(const envelope::v1::Change& change,
                                              const ConvertContext& context);
absl::StatusOr<ConvertedChange> ConvertObject(const envelope::v1::Object& object,
                                              const ConvertContext& context);
absl::StatusOr<ConvertedChange> ConvertObject(const v1::Object& object,
                                              const ConvertContext& context);
absl::StatusOr<ConvertedChange> ConvertRemoval(const v1::ObjectRef& ref);

// Converts findings to protobuf for Ack and GetStatusResponse.
v1::ResultCode ToProto(proxy::FindingCode code);
v1::ObjectResult ToProto(const proxy::Finding& finding);

// Returns the last port of each port range, and 0 for single ports, in the order of spec.ports.
// Includes the ranges of the annotation svcmap/end-ports if the Service is valid and proxied.
std::vector<uint16_t> EndPorts(const v1::Service& service);

// Returns the reduced object. `message` is the member `message` of a stored object.
v1::Object ToObject(proxy::Kind kind, const std::string& message);

}  // namespace svcmap::api
