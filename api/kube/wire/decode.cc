#include "api/kube/wire/decode.h"

#include "api/kube/wire/encodings.h"
#include "api/kube/wire/item.h"

namespace svcmap::kube {

absl::StatusOr<ListPage> DecodeList(Resource resource, ContentType type, std::string_view body,
                                    uint64_t max_items) {
  absl::StatusOr<ListPage> page = type == ContentType::kProtobuf
                                      ? ReadProtobufList(resource, body, max_items)
                                      : ReadJsonList(resource, body, max_items);
  // An empty or unknown message must not be accepted as an empty list, because all stored objects
  // would be removed.
  if (page.ok() && page->resource_version.empty()) {
    return WireError(resource, "metadata.resourceVersion", "Required value");
  }
  return page;
}

ApiStatus DecodeStatus(ContentType type, std::string_view body) {
  ApiStatus status;
  const bool readable = type == ContentType::kProtobuf ? ReadProtobufStatus(body, status)
                                                       : ReadJsonStatus(body, status);
  if (!readable) status.message = OneLine(body);
  return status;
}

}  // namespace svcmap::kube
