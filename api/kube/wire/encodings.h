// The two encodings that decode.h uses. Pure functions. All errors are DATA_LOSS, except for
// TooManyItems.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "api/kube/resource.h"
#include "api/kube/wire/decode.h"

namespace svcmap::kube {

absl::StatusOr<ListPage> ReadProtobufList(Resource resource, std::string_view body,
                                          uint64_t max_items);
absl::StatusOr<ListPage> ReadJsonList(Resource resource, std::string_view body, uint64_t max_items);

inline absl::Status TooManyItems(uint64_t max_items) {
  return absl::ResourceExhaustedError("the page has more than " + std::to_string(max_items) +
                                      " objects");
}

// `frame` is one complete event. In protobuf, it does not include the length prefix.
absl::StatusOr<WatchEvent> ReadProtobufEvent(Resource resource, std::string_view frame);
absl::StatusOr<WatchEvent> ReadJsonEvent(Resource resource, std::string_view frame);

// Return false if `body` is not a metav1.Status.
bool ReadProtobufStatus(std::string_view body, ApiStatus& status);
bool ReadJsonStatus(std::string_view body, ApiStatus& status);

}  // namespace svcmap::kube
