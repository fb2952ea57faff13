// Decodes protobuf responses of the API server to svcmap's objects. Pure functions, except for
// WatchDecoder.
//
// Objects contain only the fields, labels and annotations that svcmapd uses. The label
// service.kubernetes.io/service-proxy-name is omitted, because the label selector has already
// evaluated it.
//
// A response body consists of the bytes "k8s\0" and a runtime.Unknown, which contains the kind and
// the message of that kind. The object of a watch event has the same format, but the event itself
// has no such envelope.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/kube/wire/resource.h"
#include "api/source/object.h"

namespace svcmap::kube {

inline constexpr char kProtobufType[] = "application/vnd.kubernetes.protobuf";

// Compares a Content-Type header, with or without parameters, with kProtobufType.
bool IsProtobufType(std::string_view header);

using source::Item;
using source::kMaxObjectBytes;

struct ListPage {
  std::string resource_version;  // Version of the list, from which a watch starts.
  std::string continue_token;    // Empty on the last page.
  std::vector<Item> items;
};

// metav1.Status: the reason why a request or watch failed.
struct ApiStatus {
  int32_t code = 0;    // HTTP status, such as 410.
  std::string reason;  // "Expired".
  std::string message;
  int32_t retry_after_seconds = 0;  // 0 if absent.
};

struct WatchEvent {
  enum class Type : uint8_t { kAdded, kModified, kDeleted, kBookmark, kError };
  Type type = Type::kAdded;
  Item item;         // kBookmark: only resource_version is set. kError: empty.
  ApiStatus status;  // Only for kError.
};

// Decodes one page of a list. Returns DATA_LOSS with the resource and the offset or path if an
// object cannot be decoded or has no name, or if the list has no resourceVersion. Returns
// RESOURCE_EXHAUSTED if the page has more than `max_items` objects, before memory for more objects
// is allocated.
absl::StatusOr<ListPage> DecodeList(Resource resource, std::string_view body,
                                    uint64_t max_items = UINT64_MAX);

// Decodes the body of an error response. Another body than a metav1.Status in protobuf, such as the
// JSON or HTML of a proxy, becomes the message. Strings are shortened to one printable line.
ApiStatus DecodeStatus(std::string_view body);

// Describes an error response for the log: "API server returned 403 Forbidden: ...".
std::string ErrorText(int http_status, const ApiStatus& status);

// Decodes one event without its length prefix. Returns DATA_LOSS for an invalid event.
absl::StatusOr<WatchEvent> DecodeEvent(Resource resource, std::string_view frame);

// Decodes the events of one watch from pieces of any size.
class WatchDecoder {
 public:
  explicit WatchDecoder(Resource resource) : resource_(resource) {}

  // Appends all events that are complete. Returns DATA_LOSS for an invalid event and
  // RESOURCE_EXHAUSTED for an event of more than 16 MiB. Do not use the decoder after an error.
  absl::Status Feed(std::string_view bytes, std::vector<WatchEvent>& events);

 private:
  const Resource resource_;
  std::string pending_;  // The start of an incomplete event.
};

}  // namespace svcmap::kube
