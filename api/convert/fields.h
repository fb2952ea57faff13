// Checks that several kinds of objects share. Pure functions.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/convert/convert.h"
#include "api/convert/report.h"
#include "google/protobuf/message_lite.h"
#include "nft/types/ip_address.h"
#include "proxy/state/objects.h"

namespace svcmap::api {

// "TCP" when empty; nothing if unknown.
std::optional<proxy::Protocol> ParseProtocol(std::string_view text);

inline constexpr std::string_view kProtocolReason = "is not TCP, UDP or SCTP";

// Refuses a value that is neither empty nor one of `known`.
void CheckOneOf(std::string_view field, std::string_view value,
                std::initializer_list<std::string_view> known, Report& report);

// "is a loopback address", or nothing if `address` is an ordinary unicast address.
std::optional<std::string> SpecialAddress(const IpAddress& address);

// Without blanks at both ends.
std::string_view Trim(std::string_view text);

// The message's bytes; equal messages give equal bytes.
std::string Serialize(const google::protobuf::MessageLite& message);

// The result of a conversion: `object`, unless `report` refused it.
template <typename T>
Converted<T> Finish(std::shared_ptr<T> object, Report& report) {
  if (report.refused()) return {nullptr, report.Take()};
  return {std::move(object), report.Take()};
}

}  // namespace svcmap::api
