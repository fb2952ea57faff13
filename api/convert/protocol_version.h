// Version of the protocol in svcmap/v1/control.proto.
#pragma once

#include <cstdint>

namespace svcmap::api {

inline constexpr uint32_t kProtocolVersion = 2;

}  // namespace svcmap::api
