// Checks that are shared by the converters of several kinds. Pure functions.
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

// Empty text means TCP. Returns nullopt for an unknown protocol.
std::optional<proxy::Protocol> ParseProtocol(std::string_view text);

FieldError UnsupportedProtocol(std::string_view text);

inline constexpr char kIpAddressDetail[] = "must be a valid IP address";
inline constexpr char kCidrDetail[] = "must be a valid CIDR";
inline constexpr char kLabelDetail[] =
    "must be a DNS-1123 label: at most 63 lowercase letters, digits and '-'";

// Adds a note to `error` that the list entry is ignored.
FieldError Ignored(FieldError error);

// Rejects the object unless `value` is empty or in `known`.
void CheckOneOf(std::string_view field, std::string_view value,
                std::initializer_list<std::string_view> known, Report& report);

// Returns "must not be a loopback address" or a similar message, or nullopt for an ordinary unicast
// address.
std::optional<std::string> SpecialAddress(const IpAddress& address);

// Removes whitespace at both ends.
std::string_view Trim(std::string_view text);

// Serializes `message` deterministically: equal messages produce equal bytes.
std::string Serialize(const google::protobuf::MessageLite& message);

// Returns the result of a conversion: `object`, or null if `report` contains a rejection.
template <typename T>
Converted<T> Finish(std::shared_ptr<T> object, Report& report) {
  if (report.rejected()) return {nullptr, report.Take()};
  return {std::move(object), report.Take()};
}

}  // namespace svcmap::api
