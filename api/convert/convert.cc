#include "api/convert/convert.h"

#include <chrono>

#include "absl/time/time.h"
#include "api/convert/endpoint_delta.h"
#include "api/convert/metadata.h"
#include "api/convert/projection.h"
#include "google/protobuf/arena.h"

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

// Reduces and decodes a message. `message` contains the fields before an error.
template <typename T>
std::optional<ProjectionError> Decode(std::string_view bytes, T& message) {
  std::string projected;
  std::optional<ProjectionError> error = Project(bytes, *T::descriptor(), IsUsedLabel, projected);
  if (!message.ParseFromString(projected) && !error) error = {"", "unreadable"};
  return error;
}

ConvertedChange Unreadable(Kind kind, std::string key, ProjectionError error) {
  ConvertedChange result;
  result.kind = kind;
  result.key = std::move(key);
  Report report(kind, result.key);
  report.Reject(std::move(error.field),
                {.code = proxy::FindingCode::kUnreadable, .detail = std::move(error.detail)});
  result.findings = report.Take();
  return result;
}

template <typename T>
ConvertedChange DecodeAndUpsert(Kind kind, std::string_view bytes, const ConvertContext& context) {
  google::protobuf::Arena arena;  // An object has thousands of small parts.
  T& message = *google::protobuf::Arena::CreateMessage<T>(&arena);
  if (std::optional<ProjectionError> error = Decode(bytes, message)) {
    return Unreadable(kind, KeyOf(kind, message.metadata()), *std::move(error));
  }
  return Upsert(message, context);
}

ConvertedChange Delta(std::string_view bytes) {
  const auto delta = std::make_shared<v1::EndpointDelta>();
  std::optional<ProjectionError> error = Decode(bytes, *delta);
  const Kind kind = Kind::kEndpointSlice;
  std::string key = KeyFor(kind, delta->namespace_(), delta->name());
  if (error) return Unreadable(kind, std::move(key), *std::move(error));
  ConvertedChange result;
  result.kind = kind;
  result.key = std::move(key);
  Report report(result.kind, result.key);
  CheckDelta(*delta, report);
  if (!report.rejected()) result.delta = delta;
  result.findings = report.Take();
  return result;
}

// Converts the object in `envelope`, an envelope::v1::Object or Change. Returns nullopt if there is
// no object.
template <typename Envelope>
std::optional<ConvertedChange> ObjectIn(const Envelope& envelope, const ConvertContext& context) {
  if (envelope.has_service()) return ConvertObject(Kind::kService, envelope.service(), context);
  if (envelope.has_endpoint_slice()) {
    return ConvertObject(Kind::kEndpointSlice, envelope.endpoint_slice(), context);
  }
  if (envelope.has_node()) return ConvertObject(Kind::kNode, envelope.node(), context);
  if (!envelope.has_service_cidr()) return std::nullopt;
  return ConvertObject(Kind::kServiceCidr, envelope.service_cidr(), context);
}

absl::StatusOr<ConvertedChange> Removal(std::string_view bytes) {
  v1::ObjectRef ref;
  if (!ref.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError("remove: Invalid value: must be an ObjectRef");
  }
  return ConvertRemoval(ref);
}

}  // namespace

ConvertedChange ConvertObject(Kind kind, std::string_view bytes, const ConvertContext& context) {
  switch (kind) {
    case Kind::kService:
      return DecodeAndUpsert<v1::Service>(kind, bytes, context);
    case Kind::kEndpointSlice:
      return DecodeAndUpsert<v1::EndpointSlice>(kind, bytes, context);
    case Kind::kNode:
      return DecodeAndUpsert<v1::Node>(kind, bytes, context);
    case Kind::kServiceCidr:
      break;
  }
  return DecodeAndUpsert<v1::ServiceCIDR>(kind, bytes, context);
}

absl::StatusOr<ConvertedChange> ConvertChange(const envelope::v1::Change& change,
                                              const ConvertContext& context) {
  if (std::optional<ConvertedChange> object = ObjectIn(change, context)) return *std::move(object);
  if (change.has_remove()) return Removal(change.remove());
  if (change.has_endpoint_delta()) return Delta(change.endpoint_delta());
  return absl::InvalidArgumentError(
      "change: Required value: must have a field that this agent supports");
}

absl::StatusOr<ConvertedChange> ConvertObject(const envelope::v1::Object& object,
                                              const ConvertContext& context) {
  if (std::optional<ConvertedChange> known = ObjectIn(object, context)) return *std::move(known);
  return absl::InvalidArgumentError(
      "object: Required value: must have a field that this agent supports");
}

absl::StatusOr<ConvertedChange> ConvertObject(const v1::Object& object,
                                              const ConvertContext& context) {
  envelope::v1::Object envelope;
  envelope.ParseFromString(object.SerializeAsString());
  return ConvertObject(envelope, context);
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
