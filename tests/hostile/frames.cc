#include "tests/hostile/frames.h"

namespace svcmap::hostile {
namespace {

std::string Length(size_t length) {
  std::string text;
  if (length < 127) return text += static_cast<char>(length);
  text += static_cast<char>(127);
  for (length -= 127; length >= 128; length >>= 7) text += static_cast<char>(length % 128 + 128);
  return text += static_cast<char>(length);
}

}  // namespace

std::string Number32(uint32_t number) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(number >> shift);
  return text;
}

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload) {
  std::string frame = Number32(static_cast<uint32_t>(payload.size())).substr(1);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  frame += Number32(stream);
  frame += payload;
  return frame;
}

std::string Greeting(uint32_t window) {
  return std::string(kPreface) + Frame(kSettings, 0, 0, std::string("\0\4", 2) + Number32(window));
}

std::string Field(std::string_view name, std::string_view value, bool indexed) {
  return std::string(1, indexed ? '\x40' : '\0') + Length(name.size()) + std::string(name) +
         Length(value.size()) + std::string(value);
}

std::string CallFields(std::string_view path) {
  return "\x83\x86" + Field(":path", path) + Field(":authority", "x") +
         Field("content-type", "application/grpc") + Field("te", "trailers");
}

std::string Call(uint32_t stream, std::string_view path, uint8_t flags) {
  return Frame(kHeaders, flags, stream, CallFields(path));
}

std::string MessagePrefix(uint32_t size) { return std::string(1, '\0') + Number32(size); }

}  // namespace svcmap::hostile
