// The two encodings of the Kubernetes API.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace svcmap::kube {

enum class ContentType : uint8_t { kProtobuf, kJson };

// Parses a Content-Type header with or without parameters. Returns nullopt for other types.
std::optional<ContentType> ParseContentType(std::string_view header);

}  // namespace svcmap::kube
