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

// Return the detail of an error about text that IpAddress::Parse or IpPrefix::Parse rejects.
std::string IpAddressDetail(std::string_view text);
std::string CidrDetail(std::string_view text);

// Returns true for an IPv4 address that has an octet such as "01". In IPv6, leading zeros are
// unambiguous.
bool HasLeadingZeros(std::string_view address);

// Warn about a form of an address or CIDR that existing objects can contain, but that the
// Kubernetes API server rejects in new values (StrictIPCIDRValidation): leading zeros in IPv4
// octets and prefix lengths, and host bits. `text` has no surrounding whitespace, and Parse returns
// `address` or `prefix` for it.
void WarnIfAmbiguous(std::string_view field, std::string_view text, const IpAddress& address,
                     Report& report);
void WarnIfAmbiguous(std::string_view field, std::string_view text, const IpPrefix& prefix,
                     Report& report);
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
