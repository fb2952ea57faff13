#include "api/kube/wire/decode.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "api/convert/field_reader.h"
#include "api/convert/projection.h"
#include "api/convert/quote.h"
#include "api/log/printable.h"
#include "svcmap/kube/wire/kubernetes.pb.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::kube {
namespace {

using api::FieldReader;
using source::Envelope;
using source::ObjectError;
using source::OpenEnvelope;
using source::ParseWire;
using source::ReadMetadata;

constexpr size_t kMaxOneLine = 512;

// Returns DATA_LOSS with a message such as "services: items[3] ...".
absl::Status WireError(Resource resource, std::string_view where, std::string_view what) {
  return absl::DataLossError(absl::StrCat(std::string(ResourceName(resource)), ": ",
                                          std::string(where), ": ", std::string(what)));
}

absl::Status WireError(Resource resource, std::string where, const ObjectError& error) {
  if (!error.field.empty()) absl::StrAppend(&where, ".", error.field);
  return WireError(resource, where, std::string_view(error.reason));
}

// Converts text from a response to one line for the log. Escapes unprintable characters and
// shortens long text.
std::string OneLine(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    const size_t length = std::max<size_t>(api::Utf8Length(text), 1);
    const std::string_view character = text.substr(0, length);
    line += character == "\"" || character == "\\" ? std::string(character)
            : character == "\n"                    ? " "
                                                   : api::Escape(character);
    if (line.size() > kMaxOneLine) return line + "...";
    text.remove_prefix(length);
  }
  return line;
}

// Returns whether `type` matches the resource. `suffix` is "" for an object and "List" for a list.
// An empty kind or api_version matches, because the API server may omit it. The fields of
// ServiceCIDRs are the same in v1beta1 and v1.
bool IsKind(const wire::TypeMeta& type, Resource resource, std::string_view suffix) {
  const api::KindInfo& expected = KindOf(resource);
  const std::string_view version = type.api_version();
  const bool right_version =
      version.empty() || version == expected.api_version ||
      (resource == Resource::kServiceCidrs && version == kServiceCidrBetaVersion);
  if (!right_version) return false;
  return type.kind().empty() ||
         type.kind() == absl::StrCat(std::string(expected.name), std::string(suffix));
}

// Opens an envelope and checks its kind.
absl::StatusOr<std::string_view> OpenWireBody(Resource resource, std::string_view where,
                                              std::string_view bytes, std::string_view suffix) {
  const std::optional<Envelope> envelope = OpenEnvelope(bytes);
  if (!envelope)
    return WireError(resource, where, "not a message in the Kubernetes protobuf encoding");
  if (!IsKind(envelope->type, resource, suffix)) {
    return WireError(
        resource, where,
        absl::StrCat("unexpected kind \"", OneLine(envelope->type.kind()), "\" of apiVersion \"",
                     OneLine(envelope->type.api_version()), "\""));
  }
  return envelope->raw;
}

bool KeepNoLabel(std::string_view) { return false; }

// `whole`: also sets item.change.
std::optional<ObjectError> ReadObject(Resource resource, std::string_view object, bool whole,
                                      Item& item) {
  if (auto error = source::ReadKey(resource, object, item)) return error;
  if (!whole) return std::nullopt;
  // The label selector has already evaluated the only label of Services that svcmapd uses.
  const api::LabelFilter keep_label =
      resource == Resource::kServices ? KeepNoLabel : api::IsUsedLabel;
  return source::ReadChange(resource, object, keep_label, item);
}

// Returns false if `body` is not a metav1.Status.
bool ReadStatus(std::string_view body, ApiStatus& status) {
  const std::optional<Envelope> envelope = OpenEnvelope(body);
  wire::Status wire;
  if (!envelope || envelope->type.kind() != "Status" || !ParseWire(envelope->raw, wire)) {
    return false;
  }
  status.code = wire.code();
  status.reason = OneLine(wire.reason());
  status.message = OneLine(wire.message());
  status.retry_after_seconds = std::max(wire.details().retry_after_seconds(), 0);
  return true;
}

std::optional<WatchEvent::Type> ParseEventType(std::string_view type) {
  if (type == "ADDED") return WatchEvent::Type::kAdded;
  if (type == "MODIFIED") return WatchEvent::Type::kModified;
  if (type == "DELETED") return WatchEvent::Type::kDeleted;
  if (type == "BOOKMARK") return WatchEvent::Type::kBookmark;
  if (type == "ERROR") return WatchEvent::Type::kError;
  return std::nullopt;
}

// Reads the object of an event that is not an error.
std::optional<ObjectError> ReadEventObject(Resource resource, std::string_view raw,
                                           WatchEvent& event) {
  if (event.type != WatchEvent::Type::kBookmark) {
    return ReadObject(resource, raw, event.type != WatchEvent::Type::kDeleted, event.item);
  }
  std::optional<wire::ObjectMeta> metadata = ReadMetadata(raw);
  if (!metadata) return ObjectError{"", "cannot be decoded"};
  event.item.resource_version = std::move(*metadata->mutable_resource_version());
  return std::nullopt;
}

}  // namespace

bool IsProtobufType(std::string_view header) {
  std::string type(header.substr(0, header.find(';')));
  absl::StripAsciiWhitespace(&type);
  return absl::AsciiStrToLower(type) == kProtobufType;
}

absl::StatusOr<ListPage> DecodeList(Resource resource, std::string_view body, uint64_t max_items) {
  const absl::StatusOr<std::string_view> raw = OpenWireBody(resource, "list", body, "List");
  if (!raw.ok()) return raw.status();
  ListPage page;
  FieldReader fields(*raw);
  while (fields.Next()) {
    if (fields.IsBytes(wire::List::kMetadataFieldNumber)) {
      wire::ListMeta metadata;
      if (!ParseWire(fields.bytes(), metadata)) {
        return WireError(resource, "metadata", "cannot be decoded");
      }
      page.resource_version = metadata.resource_version();
      page.continue_token = metadata.continue_();
    } else if (fields.IsBytes(wire::List::kItemsFieldNumber)) {
      if (page.items.size() >= max_items) {
        return absl::ResourceExhaustedError(
            absl::StrCat("the page has more than ", max_items, " objects"));
      }
      const auto error =
          ReadObject(resource, fields.bytes(), /*whole=*/true, page.items.emplace_back());
      if (error) {
        return WireError(resource,
                         absl::StrCat("at byte ", fields.bytes().data() - body.data(), ": items[",
                                      page.items.size() - 1, "]"),
                         *error);
      }
    }
  }
  if (!fields.good()) return WireError(resource, "list", "truncated message");
  // An empty or unknown message must not be accepted as an empty list, because all stored objects
  // would be removed.
  if (page.resource_version.empty()) {
    return WireError(resource, "metadata.resourceVersion", "Required value");
  }
  return page;
}

ApiStatus DecodeStatus(std::string_view body) {
  ApiStatus status;
  if (!ReadStatus(body, status)) status.message = OneLine(body);
  return status;
}

std::string ErrorText(int http_status, const ApiStatus& status) {
  return absl::StrCat("API server returned ", http_status, status.reason.empty() ? "" : " ",
                      status.reason, status.message.empty() ? "" : ": ", status.message);
}

absl::StatusOr<WatchEvent> DecodeEvent(Resource resource, std::string_view frame) {
  wire::WatchEvent wire;
  if (!ParseWire(frame, wire)) return WireError(resource, "event", "cannot be decoded");
  const std::optional<WatchEvent::Type> type = ParseEventType(wire.type());
  if (!type) return WireError(resource, "event", "unknown type \"" + OneLine(wire.type()) + "\"");
  WatchEvent event;
  event.type = *type;
  const std::string_view object = wire.object().raw();
  if (*type == WatchEvent::Type::kError) {
    if (!ReadStatus(object, event.status)) event.status.message = "the event contains no Status";
    return event;
  }
  const absl::StatusOr<std::string_view> raw = OpenWireBody(resource, "event", object, "");
  if (!raw.ok()) return raw.status();
  if (const auto error = ReadEventObject(resource, *raw, event)) {
    return WireError(resource, "event: object", *error);
  }
  // The next watch starts from this version. Without a version, deletions would be missed.
  if (event.item.resource_version.empty()) {
    return WireError(resource, "event: object.metadata.resourceVersion", "Required value");
  }
  return event;
}

absl::Status WatchDecoder::Feed(std::string_view bytes, std::vector<WatchEvent>& events) {
  constexpr size_t kPrefix = 4;  // The length of the event, in big-endian order.
  pending_ += bytes;
  std::string_view rest = pending_;
  while (rest.size() >= kPrefix) {
    size_t size = 0;
    for (const char byte : rest.substr(0, kPrefix)) {
      size = size << 8 | static_cast<unsigned char>(byte);
    }
    if (size > kMaxObjectBytes) {
      return absl::ResourceExhaustedError(absl::StrCat(std::string(ResourceName(resource_)),
                                                       ": an event is longer than ",
                                                       kMaxObjectBytes >> 20, " MiB"));
    }
    if (rest.size() - kPrefix < size) break;
    absl::StatusOr<WatchEvent> event = DecodeEvent(resource_, rest.substr(kPrefix, size));
    if (!event.ok()) return event.status();
    events.push_back(*std::move(event));
    rest.remove_prefix(kPrefix + size);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return absl::OkStatus();
}

}  // namespace svcmap::kube
