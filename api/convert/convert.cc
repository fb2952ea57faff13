#include "api/convert/convert.h"

#include <chrono>
#include <cstddef>
#include <string>

#include "absl/time/time.h"
#include "api/convert/encoded_slice.h"
#include "api/convert/fields.h"
#include "api/convert/kinds.h"
#include "api/convert/projection.h"
#include "api/convert/service_parts.h"
#include "google/protobuf/arena.h"

namespace svcmap::api {
namespace {

using proxy::Kind;

constexpr size_t kArenaBlock = 4096;

// Returns the time in the annotation, or nullopt if the annotation is missing or is not an RFC 3339
// time.
std::optional<std::chrono::system_clock::time_point> TriggerTime(const v1::ObjectMeta& metadata) {
  const std::string* text = FindAnnotation(metadata, kTriggerTimeAnnotation);
  absl::Time time;
  if (text == nullptr || !absl::ParseTime(absl::RFC3339_full, *text, &time, nullptr)) {
    return std::nullopt;
  }
  return absl::ToChronoTime(time);
}

template <typename T>
bool ParseReduced(const std::string& encoded, T& message) {
  return message.ParseFromString(encoded);
}

// Does not parse the endpoints (see ConvertEndpointSlice).
bool ParseReduced(const std::string& encoded, v1::EndpointSlice& slice) {
  return slice.ParseFromString(SplitSlice(encoded).WithoutEndpoints());
}

// Reduces and decodes a message. `message` contains the fields before an error. Without an error,
// `encoded` is the deterministic encoding of the message.
template <typename T>
std::optional<ProjectionError> Decode(std::string_view bytes, T& message, std::string& encoded) {
  bool deterministic = false;
  std::optional<ProjectionError> error =
      Project(bytes, *T::descriptor(), IsUsedLabel, encoded, &deterministic);
  if (deterministic) {
    encoded.shrink_to_fit();
  } else {
    T complete;
    complete.ParsePartialFromString(encoded);
    encoded = Serialize(complete);
  }
  if (!ParseReduced(encoded, message) && !error) error = {"", "unreadable"};
  return error;
}

void RejectUnreadable(ProjectionError error, Report& report) {
  report.Reject(std::move(error.field),
                {.code = proxy::FindingCode::kUnreadable, .detail = std::move(error.detail)});
}

// Decodes a `Message`, passes it to `convert`, and stores the result in `member` of the change.
template <typename Message, typename T>
ConvertedChange DecodeAndConvert(Kind kind, std::string_view bytes, const ConvertContext& context,
                                 Converted<T> (*convert)(const Message&, std::string,
                                                         const ConvertContext&),
                                 std::shared_ptr<const T> proxy::Change::*member) {
  // An object may have thousands of small parts. Those of most objects fit into the first block.
  alignas(std::max_align_t) char block[kArenaBlock];
  google::protobuf::ArenaOptions options;
  options.initial_block = block;
  options.initial_block_size = sizeof(block);
  google::protobuf::Arena arena(options);
  Message& message = *google::protobuf::Arena::CreateMessage<Message>(&arena);
  std::string encoded;
  std::optional<ProjectionError> error = Decode(bytes, message, encoded);
  const v1::ObjectMeta& metadata = message.metadata();
  ConvertedChange result;
  result.kind = kind;
  result.key = KeyFor(kind, metadata.namespace_(), metadata.name());
  if (error) {
    Report report(kind, result.key);
    RejectUnreadable(*std::move(error), report);
    result.findings = report.Take();
    return result;
  }
  Converted<T> converted = convert(message, std::move(encoded), context);
  result.findings = std::move(converted.findings);
  if (!converted.value) {
    if (kind == Kind::kEndpointSlice) Decode(bytes, message, result.rejected_slice);
    return result;
  }
  proxy::Change& change = result.change.emplace();
  change.kind = kind;
  change.key = result.key;
  change.*member = std::move(converted.value);
  if (kind == Kind::kEndpointSlice) change.triggered = TriggerTime(metadata);
  return result;
}

ConvertedChange Delta(std::string_view bytes) {
  const auto delta = std::make_shared<v1::EndpointDelta>();
  std::string encoded;
  std::optional<ProjectionError> error = Decode(bytes, *delta, encoded);
  ConvertedChange result;
  result.kind = Kind::kEndpointSlice;
  result.key = KeyFor(result.kind, delta->namespace_(), delta->name());
  Report report(result.kind, result.key);
  if (error) {
    RejectUnreadable(*std::move(error), report);
  } else {
    CheckDelta(*delta, report);
    if (report.rejected()) KeepRemovals(*delta);
    if (!report.rejected() || delta->remove_size() > 0) result.delta = delta;
  }
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

absl::StatusOr<ConvertedChange> DecodeRemoval(std::string_view bytes) {
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
      return DecodeAndConvert(kind, bytes, context, ConvertService, &proxy::Change::service);
    case Kind::kEndpointSlice:
      return DecodeAndConvert(kind, bytes, context, ConvertEndpointSlice, &proxy::Change::slice);
    case Kind::kNode:
      return DecodeAndConvert(kind, bytes, context, ConvertNode, &proxy::Change::node);
    case Kind::kServiceCidr:
      break;
  }
  return DecodeAndConvert(kind, bytes, context, ConvertServiceCidr, &proxy::Change::service_cidr);
}

absl::StatusOr<ConvertedChange> ConvertChange(const envelope::v1::Change& change,
                                              const ConvertContext& context) {
  if (std::optional<ConvertedChange> object = ObjectIn(change, context)) return *std::move(object);
  if (change.has_remove()) return DecodeRemoval(change.remove());
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
  const KindInfo* known = FindKind(ref.kind());
  if (known == nullptr) {
    return absl::InvalidArgumentError(
        "remove.kind: Invalid value: must be a kind that this agent supports");
  }
  const Kind kind = known->kind;
  ConvertedChange result;
  result.kind = kind;
  result.key = KeyFor(kind, ref.namespace_(), ref.name());
  Report report(kind, result.key);
  CheckNames(kind, ref.namespace_(), ref.name(), "", report);
  if (!report.rejected()) {
    proxy::Change& change = result.change.emplace();
    change.kind = kind;
    change.key = result.key;
  }
  result.findings = report.Take();
  return result;
}

v1::ResultCode ToProto(proxy::FindingCode code) {
  switch (code) {
    case proxy::FindingCode::kInvalid:
      return v1::INVALID;
    case proxy::FindingCode::kRequired:
      return v1::REQUIRED;
    case proxy::FindingCode::kUnsupported:
      return v1::UNSUPPORTED;
    case proxy::FindingCode::kDuplicate:
      return v1::DUPLICATE;
    case proxy::FindingCode::kTooMany:
      return v1::TOO_MANY;
    case proxy::FindingCode::kForbidden:
      return v1::FORBIDDEN;
    case proxy::FindingCode::kLimit:
      return v1::LIMIT;
    case proxy::FindingCode::kUnreadable:
      return v1::UNREADABLE;
    case proxy::FindingCode::kNotStored:
      return v1::NOT_STORED;
    case proxy::FindingCode::kKernelRejected:
      return v1::KERNEL_REJECTED;
    case proxy::FindingCode::kOmitted:
      return v1::OMITTED;
  }
  return v1::RESULT_CODE_UNSPECIFIED;
}

v1::ObjectResult ToProto(const proxy::Finding& finding) {
  v1::ObjectResult result;
  result.set_kind(InfoOf(finding.kind).proto);
  const size_t slash = InfoOf(finding.kind).namespaced ? finding.key.find('/') : std::string::npos;
  if (slash != std::string::npos) result.set_namespace_(finding.key.substr(0, slash));
  result.set_name(slash == std::string::npos ? finding.key : finding.key.substr(slash + 1));
  result.set_severity(finding.rejected() ? v1::REFUSED : v1::WARNING);
  result.set_field(finding.field);
  result.set_value(finding.value);
  result.set_code(ToProto(finding.code));
  const std::string_view category = CategoryOf(finding.code);
  const bool both = !category.empty() && !finding.reason.empty();
  result.set_reason(std::string(category) + (both ? ": " : "") + finding.reason);
  result.set_message(finding.ToString());
  return result;
}

v1::Object ToObject(proxy::Kind kind, const std::string& message) {
  v1::Object object;
  // Cannot fail, because Serialize produced the message.
  MutableMessage(InfoOf(kind), object).ParseFromString(message);
  return object;
}

}  // namespace svcmap::api
