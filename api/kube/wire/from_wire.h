// Kubernetes' objects as read from protobuf into svcmap's, taking their text with them.
#pragma once

#include "api/kube/resource.h"
#include "svcmap/kube/wire/kubernetes.pb.h"
#include "svcmap/v1/objects.pb.h"

namespace svcmap::kube {

// `from` is left as something to be cleared; `to` is new. Of labels and annotations what the agent
// reads of `resource` is kept.
void MoveMetadata(Resource resource, wire::ObjectMeta& from, v1::ObjectMeta& to);
void MoveObject(wire::Service& from, v1::Service& to);
void MoveObject(wire::EndpointSlice& from, v1::EndpointSlice& to);
void MoveObject(wire::Node& from, v1::Node& to);
void MoveObject(wire::ServiceCIDR& from, v1::ServiceCIDR& to);

}  // namespace svcmap::kube
