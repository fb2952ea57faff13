#include "api/convert/convert.h"

#include <chrono>

#include "absl/time/time.h"
#include "api/convert/endpoint_delta.h"
#include "api/convert/metadata.h"

namespace svcmap::api {
namespace {

using proxy::Kind;

constexpr char kTriggerTimeAnnotation[] = "endpoints.kubernetes.io/last-change-trigger-time";

template <typename T>
ConvertedChange AsChange(Kind kind, std::string key, Converted<T> converted,
                         std::shared_ptr<const T> proxy::Change::*member) {
  ConvertedChange result;
  result.kind = kind;
  result.key = std::move(key);
  result.findings = std::move(converted.findings);
  if (converted.value) {
    proxy::Change& change = result.change.emplace();
    change.kind = kind;
    change.key = result.key;
    change.*member = std::move(converted.value);
  }
  return result;
}

std::string KeyOf(Kind kind, const v1::ObjectMeta& metadata) {
  return KeyFor(kind, metadata.namespace_(), metadata.name());
}

ConvertedChange Upsert(const v1::Service& service, const ConvertContext& context) {
  return AsChange(Kind::kService, KeyOf(Kind::kService, service.metadata()),
                  ConvertService(service, context), &proxy::Change::service);
}

// Returns the time in the annotation, or nullopt if the annotation is missing or is not an RFC 3339
// time.
std::optional<std::chrono::system_clock::time_point> TriggerTime(const v1::ObjectMeta& metadata) {
  const auto found = metadata.annotations().find(kTriggerTimeAnnotation);
  absl::Time time;
  if (found == metadata.annotations().end() ||
      !absl::ParseTime(absl::RFC3339_full, found->second, &time, nullptr)) {
    return std::nullopt;
  }
  return absl::ToChronoTime(time);
}

ConvertedChange Upsert(const v1::EndpointSlice& slice, const ConvertContext& context) {
  ConvertedChange result =
      AsChange(Kind::kEndpointSlice, KeyOf(Kind::kEndpointSlice, slice.metadata()),
               ConvertEndpointSlice(slice, context), &proxy::Change::slice);
  if (result.change) result.change->triggered = TriggerTime(slice.metadata());
  return result;
}

ConvertedChange Upsert(const v1::Node& node, const ConvertContext& context) {
  return AsChange(Kind::kNode, KeyOf(Kind::kNode, node.metadata()), ConvertNode(node, context),
                  &proxy::Change::node);
}

ConvertedChange Upsert(const v1::ServiceCIDR& cidr, const ConvertContext& context) {
  return AsChange(Kind::kServiceCidr, KeyOf(Kind::kServiceCidr, cidr.metadata()),
                  ConvertServiceCidr(cidr, context), &proxy::Change::service_cidr);
}

ConvertedChange Delta(const v1::EndpointDelta& delta) {
  ConvertedChange result;
  result.kind = Kind::kEndpointSlice;
  result.key = KeyFor(Kind::kEndpointSlice, delta.namespace_(), delta.name());
  Report report(result.kind, result.key);
  CheckDelta(delta, report);
  if (!report.rejected()) result.delta = std::make_shared<v1::EndpointDelta>(delta);
  result.findings = report.Take();
  return result;
}

}  // namespace

absl::StatusOr<ConvertedChange> ConvertChange(const v1::Change& change,
                                              const ConvertContext& context) {
  switch (change.change_case()) {
    case v1::Change::kService:
      return Upsert(change.service(), context);
    case v1::Change::kEndpointSlice:
      return Upsert(change.endpoint_slice(), context);
    case v1::Change::kNode:
      return Upsert(change.node(), context);
    case v1::Change::kServiceCidr:
      return Upsert(change.service_cidr(), context);
    case v1::Change::kRemove:
      return ConvertRemoval(change.remove());
    case v1::Change::kEndpointDelta:
      return Delta(change.endpoint_delta());
    case v1::Change::CHANGE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "change: Required value: must have a field that this agent supports");
}

absl::StatusOr<ConvertedChange> ConvertObject(const v1::Object& object,
                                              const ConvertContext& context) {
  switch (object.object_case()) {
    case v1::Object::kService:
      return Upsert(object.service(), context);
    case v1::Object::kEndpointSlice:
      return Upsert(object.endpoint_slice(), context);
    case v1::Object::kNode:
      return Upsert(object.node(), context);
    case v1::Object::kServiceCidr:
      return Upsert(object.service_cidr(), context);
    case v1::Object::OBJECT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "object: Required value: must have a field that this agent supports");
}

absl::StatusOr<ConvertedChange> ConvertRemoval(const v1::ObjectRef& ref) {
  const std::optional<Kind> kind = KindFromProto(ref.kind());
  if (!kind)
    return absl::InvalidArgumentError(
        "remove.kind: Invalid value: must be a kind that this agent supports");
  ConvertedChange result;
  result.kind = *kind;
  result.key = KeyFor(*kind, ref.namespace_(), ref.name());
  Report report(*kind, result.key);
  CheckNames(*kind, ref.namespace_(), ref.name(), "", report);
  if (!report.rejected()) {
    proxy::Change& change = result.change.emplace();
    change.kind = *kind;
    change.key = result.key;
  }
  result.findings = report.Take();
  return result;
}

}  // namespace svcmap::api
