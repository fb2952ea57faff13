// The two encodings behind decode.h. Pure functions; errors are DATA_LOSS, and TooManyItems.
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

// One event, whole: in protobuf without the length before it.
absl::StatusOr<WatchEvent> ReadProtobufEvent(Resource resource, std::string_view frame);
absl::StatusOr<WatchEvent> ReadJsonEvent(Resource resource, std::string_view frame);

// False: `body` is no metav1.Status.
bool ReadProtobufStatus(std::string_view body, ApiStatus& status);
bool ReadJsonStatus(std::string_view body, ApiStatus& status);

}  // namespace svcmap::kube
