// Builds HTTP/2 frames (RFC 9113) and header fields (RFC 7541) as bytes, valid or invalid. Pure
// functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace svcmap::hostile {

enum FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kPriority = 2,
  kRstStream = 3,
  kSettings = 4,
  kPing = 6,
  kGoaway = 7,
  kWindowUpdate = 8,
  kContinuation = 9,
};

inline constexpr uint8_t kEndStream = 1;
inline constexpr uint8_t kAck = 1;
inline constexpr uint8_t kEndHeaders = 4;
inline constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::string Number32(uint32_t number);
std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload = {});

// Returns the connection preface and SETTINGS with this initial window size of streams.
std::string Greeting(uint32_t window = 65535);

// Returns a literal header field. If `indexed` is true, the peer adds the field to its dynamic
// table.
std::string Field(std::string_view name, std::string_view value, bool indexed = false);
// Returns the header fields of a gRPC call to the method `path`.
std::string CallFields(std::string_view path);
// Returns the HEADERS frame of a gRPC call to the method `path`.
std::string Call(uint32_t stream, std::string_view path, uint8_t flags = kEndHeaders);
// Returns the prefix of a gRPC message that has `size` bytes.
std::string MessagePrefix(uint32_t size);

}  // namespace svcmap::hostile
