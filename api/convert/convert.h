// From the wire to values: takes protobuf objects, checks everything a Kubernetes API server would
// have checked for the fields a proxy uses, and makes the immutable objects of proxy/state.
//
// A bad object is refused as a whole with one finding that names field, value and reason; its last
// good state stays, which is the caller's business. Where docs/specification.md says that an
// entry is skipped, it is, with a warning. Objects that are not proxied (headless, ExternalName,
// another proxy's, headless slices) are checked for their name only: nothing else of them is used.
//
// Pure functions of their arguments: no lock, no clock, any thread, linear time, any input.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proxy/state/objects.h"
#include "svcmap/v1/control.pb.h"
#include "svcmap/v1/objects.pb.h"

namespace svcmap::api {

struct ConvertContext {
  std::string node_name;     // Ours, lower case; empty: no endpoint is local (S-23).
  bool external_ips = true;  // False: spec.externalIPs is not programmed (S-6).
};

template <typename T>
struct Converted {
  // Null: refused, and `findings` holds exactly one entry, which says why.
  std::shared_ptr<const T> value;
  std::vector<proxy::Finding> findings;  // Warnings otherwise; at most kMaxWarnings + 1.
};

// More warnings about one object than this are summed up in one last warning.
inline constexpr size_t kMaxWarnings = 16;

Converted<proxy::Service> ConvertService(const v1::Service& service, const ConvertContext& context);
Converted<proxy::EndpointSlice> ConvertEndpointSlice(const v1::EndpointSlice& slice,
                                                     const ConvertContext& context);
// The slice that results from `held` (EndpointSlice::message; null: no slice `key` is held) with
// the deltas one after another, as if it had been sent whole. Each of them has passed
// ConvertChange.
Converted<proxy::EndpointSlice> ConvertDeltas(
    const std::string& key, const std::string* held,
    const std::vector<std::shared_ptr<const v1::EndpointDelta>>& deltas,
    const ConvertContext& context);
Converted<proxy::Node> ConvertNode(const v1::Node& node, const ConvertContext& context);
Converted<proxy::ServiceCidr> ConvertServiceCidr(const v1::ServiceCIDR& cidr,
                                                 const ConvertContext& context);

struct ConvertedChange {
  proxy::Kind kind = proxy::Kind::kService;
  std::string
      key;  // Of the object meant, also when it was refused: it counts as named (SnapshotEnd).
  // One of them is set, or it was refused and `findings` say why.
  std::optional<proxy::Change> change;
  std::shared_ptr<const v1::EndpointDelta> delta;  // Becomes a change where the slice is known.
  std::vector<proxy::Finding> findings;
};

// INVALID_ARGUMENT when nothing is set in it that this agent knows, or a reference names no kind:
// such a message comes from a broken controller or one that speaks a newer protocol.
absl::StatusOr<ConvertedChange> ConvertChange(const v1::Change& change,
                                              const ConvertContext& context);
absl::StatusOr<ConvertedChange> ConvertObject(const v1::Object& object,
                                              const ConvertContext& context);
absl::StatusOr<ConvertedChange> ConvertRemoval(const v1::ObjectRef& ref);

// The other way, for acks, status and List.
v1::Kind ToProto(proxy::Kind kind);
std::optional<proxy::Kind> KindFromProto(
    v1::Kind kind);  // Nothing for KIND_UNSPECIFIED or unknown.
v1::ObjectResult ToProto(const proxy::Finding& finding);

// The object as it was sent, from what it was parsed into.
v1::Object ToProto(const proxy::Service& service);
v1::Object ToProto(const proxy::EndpointSlice& slice);
v1::Object ToProto(const proxy::Node& node);
v1::Object ToProto(const proxy::ServiceCidr& cidr);

}  // namespace svcmap::api
