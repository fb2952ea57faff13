// HTTP/2 frames (RFC 9113) and header fields (RFC 7541) as bytes, correct or not. Pure functions.
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

// The preface and SETTINGS with the stream window `window`.
std::string Greeting(uint32_t window = 65535);

// A header field: literal, not indexed; with `indexed` it enters the dynamic table.
std::string Field(std::string_view name, std::string_view value, bool indexed = false);
// The header fields of a gRPC call of `path`.
std::string CallFields(std::string_view path);
// HEADERS of such a call.
std::string Call(uint32_t stream, std::string_view path, uint8_t flags = kEndHeaders);
// The prefix of a gRPC message of `size` bytes.
std::string MessagePrefix(uint32_t size);

}  // namespace svcmap::hostile
