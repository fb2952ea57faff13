// What the API server answers, as svcmap's objects. Pure: bytes in, objects out.
//
// Objects are reduced to the fields, labels and annotations that the agent reads, without the label
// service.kubernetes.io/service-proxy-name, which the selector has already evaluated. Protobuf and
// JSON of one object give equal bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/kube/resource.h"
#include "api/kube/wire/content_type.h"

namespace svcmap::kube {

// One object of a list or an event.
struct Item {
  std::string key;               // "namespace/name", or "name" where there are no namespaces.
  std::string resource_version;  // Opaque.
  // The reduced object as a serialized v1::Change (see api/convert/projection.h). Empty for deleted
  // objects.
  std::string change;
};

struct ListPage {
  std::string resource_version;  // Of the list: where a watch goes on.
  std::string continue_token;    // Empty: the last page.
  std::vector<Item> items;
};

// metav1.Status: why a request or a watch failed.
struct ApiStatus {
  int32_t code = 0;    // As in HTTP: 410.
  std::string reason;  // "Expired".
  std::string message;
  int32_t retry_after_seconds = 0;  // 0: nothing said.
};

struct WatchEvent {
  enum class Type : uint8_t { kAdded, kModified, kDeleted, kBookmark, kError };
  Type type = Type::kAdded;
  Item item;         // kBookmark: its resource_version alone. kError: nothing.
  ApiStatus status;  // kError.
};

// One page. An object that cannot be decoded or has no name refuses the page, as does a list
// without resourceVersion: DATA_LOSS, naming resource and offset or path.
// RESOURCE_EXHAUSTED, before more memory is taken: the page has more than `max_items` objects.
absl::StatusOr<ListPage> DecodeList(Resource resource, ContentType type, std::string_view body,
                                    uint64_t max_items = UINT64_MAX);

// The body of an answer that is no success. Whatever it is: an unreadable one becomes the message.
// Texts are one line, shortened and printable.
ApiStatus DecodeStatus(ContentType type, std::string_view body);

// The events of one watch, as its bytes arrive in pieces of any size.
class WatchDecoder {
 public:
  WatchDecoder(Resource resource, ContentType type) : resource_(resource), type_(type) {}

  // Appends the events that have become complete. After an error (DATA_LOSS: bytes that are no
  // event, RESOURCE_EXHAUSTED: an event of more than 16 MiB) the decoder is of no use.
  absl::Status Feed(std::string_view bytes, std::vector<WatchEvent>& events);

 private:
  // Takes the next event from the front of `rest`; false: it is not complete.
  absl::StatusOr<bool> CutProtobuf(std::string_view& rest, std::string_view& frame);
  absl::StatusOr<bool> CutJson(std::string_view& rest, std::string_view& frame);

  const Resource resource_;
  const ContentType type_;
  std::string pending_;  // The beginning of an event.
  // Of JSON, how much of it was looked at, and what is open there.
  size_t scanned_ = 0;
  size_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

}  // namespace svcmap::kube
