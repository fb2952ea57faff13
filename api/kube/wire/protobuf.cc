// A response body consists of the bytes "k8s\0" and a runtime.Unknown, which contains the kind and
// the message of that kind. The object of an event has the same format, but the event itself has no
// such envelope.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/kube/wire/encodings.h"
#include "api/kube/wire/fields.h"
#include "api/kube/wire/item.h"
#include "svcmap/kube/wire/kubernetes.pb.h"

namespace svcmap::kube {
namespace {

constexpr std::string_view kMagic("k8s\0", 4);
constexpr uint64_t kMetadataFieldNumber = 1;  // The same in objects of all kinds.

template <typename Message>
bool ParseWire(std::string_view bytes, Message& message) {
  return bytes.size() <= kMaxObjectBytes &&
         message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

struct OpenedEnvelope {
  wire::TypeMeta type;
  std::string_view raw;
};

std::optional<OpenedEnvelope> OpenEnvelope(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return std::nullopt;
  FieldReader fields(bytes.substr(kMagic.size()));
  OpenedEnvelope envelope;
  bool understood = true;
  while (fields.Next()) {
    if (fields.number() == wire::Unknown::kTypeMetaFieldNumber) {
      understood = understood && ParseWire(fields.value(), envelope.type);
    } else if (fields.number() == wire::Unknown::kRawFieldNumber) {
      envelope.raw = fields.value();
    } else if (fields.number() == wire::Unknown::kContentEncodingFieldNumber) {
      understood = understood && fields.value().empty();
    }
  }
  if (!understood || !fields.good()) return std::nullopt;
  return envelope;
}

// Opens an envelope and checks its kind. `suffix` is "" for an object and "List" for a list.
absl::StatusOr<std::string_view> OpenWireBody(Resource resource, std::string_view where,
                                              std::string_view bytes, std::string_view suffix) {
  const std::optional<OpenedEnvelope> envelope = OpenEnvelope(bytes);
  if (!envelope)
    return WireError(resource, where, "not a message in the Kubernetes protobuf encoding");
  if (!IsKind(envelope->type.kind(), envelope->type.api_version(), resource, suffix)) {
    return WireError(
        resource, where,
        absl::StrCat("unexpected kind \"", OneLine(envelope->type.kind()), "\" of apiVersion \"",
                     OneLine(envelope->type.api_version()), "\""));
  }
  return envelope->raw;
}

bool ReadWireMetadata(std::string_view object, wire::ObjectMeta& metadata) {
  FieldReader fields(object);
  bool understood = true;
  while (fields.Next()) {
    if (fields.number() != kMetadataFieldNumber) continue;
    understood = understood && ParseWire(fields.value(), metadata);
  }
  return understood && fields.good();
}

// `whole`: also sets item.change.
std::optional<ObjectError> ReadObject(Resource resource, std::string_view object, bool whole,
                                      Item& item) {
  wire::ObjectMeta metadata;
  if (object.size() > kMaxObjectBytes || !ReadWireMetadata(object, metadata)) {
    return ObjectError{"", "cannot be decoded"};
  }
  item.resource_version = std::move(*metadata.mutable_resource_version());
  if (const auto error = SetKey(resource, metadata.namespace_(), metadata.name(), item)) {
    return error;
  }
  return whole ? SetChange(resource, object, item) : std::nullopt;
}

void TakeWireStatus(const wire::Status& wire, ApiStatus& status) {
  status.code = wire.code();
  status.reason = OneLine(wire.reason());
  status.message = OneLine(wire.message());
  status.retry_after_seconds = std::max(wire.details().retry_after_seconds(), 0);
}

// Reads the object of an event that is not an error.
std::optional<ObjectError> ReadEventObject(Resource resource, std::string_view raw,
                                           WatchEvent& event) {
  if (event.type != WatchEvent::Type::kBookmark) {
    return ReadObject(resource, raw, event.type != WatchEvent::Type::kDeleted, event.item);
  }
  wire::ObjectMeta metadata;
  if (!ReadWireMetadata(raw, metadata)) return ObjectError{"", "cannot be decoded"};
  event.item.resource_version = std::move(*metadata.mutable_resource_version());
  return std::nullopt;
}

}  // namespace

absl::StatusOr<ListPage> ReadProtobufList(Resource resource, std::string_view body,
                                          uint64_t max_items) {
  const absl::StatusOr<std::string_view> raw = OpenWireBody(resource, "list", body, "List");
  if (!raw.ok()) return raw.status();
  ListPage page;
  FieldReader fields(*raw);
  while (fields.Next()) {
    if (fields.number() == wire::List::kMetadataFieldNumber) {
      wire::ListMeta metadata;
      if (!ParseWire(fields.value(), metadata)) {
        return WireError(resource, "metadata", "cannot be decoded");
      }
      page.resource_version = metadata.resource_version();
      page.continue_token = metadata.continue_();
    } else if (fields.number() == wire::List::kItemsFieldNumber) {
      if (page.items.size() >= max_items) return TooManyItems(max_items);
      const auto error =
          ReadObject(resource, fields.value(), /*whole=*/true, page.items.emplace_back());
      if (error) {
        return WireError(resource,
                         absl::StrCat("at byte ", fields.value().data() - body.data(), ": items[",
                                      page.items.size() - 1, "]"),
                         *error);
      }
    }
  }
  if (!fields.good()) return WireError(resource, "list", "truncated message");
  return page;
}

absl::StatusOr<WatchEvent> ReadProtobufEvent(Resource resource, std::string_view frame) {
  wire::WatchEvent wire;
  if (!ParseWire(frame, wire)) return WireError(resource, "event", "cannot be decoded");
  const std::optional<WatchEvent::Type> type = ParseEventType(wire.type());
  if (!type) return WireError(resource, "event", "unknown type \"" + OneLine(wire.type()) + "\"");
  WatchEvent event;
  event.type = *type;
  const std::string_view object = wire.object().raw();
  if (*type == WatchEvent::Type::kError) {
    if (!ReadProtobufStatus(object, event.status))
      event.status.message = "the event contains no Status";
    return event;
  }
  const absl::StatusOr<std::string_view> raw = OpenWireBody(resource, "event", object, "");
  if (!raw.ok()) return raw.status();
  if (const auto error = ReadEventObject(resource, *raw, event)) {
    return WireError(resource, "event: object", *error);
  }
  return event;
}

bool ReadProtobufStatus(std::string_view body, ApiStatus& status) {
  const std::optional<OpenedEnvelope> envelope = OpenEnvelope(body);
  wire::Status wire;
  if (!envelope || envelope->type.kind() != "Status" || !ParseWire(envelope->raw, wire)) {
    return false;
  }
  TakeWireStatus(wire, status);
  return true;
}

}  // namespace svcmap::kube
