// Findings and checks that are shared by the converters of several kinds: fields, names, keys and
// metadata. The functions are pure.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/convert/convert.h"
#include "google/protobuf/message_lite.h"
#include "nft/types/ip_address.h"
#include "proxy/state/objects.h"
#include "svcmap/v1/objects.pb.h"

namespace svcmap::api {

// An error about a field, with the wording of the Kubernetes API server.
struct FieldError {
  proxy::FindingCode code = proxy::FindingCode::kInvalid;
  std::string value;   // The value of the field, ready for display.
  std::string detail;  // "must be between 1 and 65535, inclusive"
};

// The functions below print `value` unchanged, so strings must be passed through Quote first.
FieldError Invalid(std::string value, std::string detail);
FieldError OutOfRange(int64_t value, int64_t first, int64_t last);
FieldError Required(std::string detail);
FieldError Unsupported(std::string_view value, std::initializer_list<std::string_view> supported);
FieldError Duplicate(std::string value, std::string detail);
FieldError TooMany(int count, int limit, std::string detail);

// Collects the findings about one object while the object is checked. Not thread-safe.
class Report {
 public:
  Report(proxy::Kind kind, std::string key) : kind_(kind), key_(std::move(key)) {}

  const std::string& key() const { return key_; }
  bool rejected() const { return rejected_; }

  // Rejects the object. Keeps only the first rejection and discards all warnings.
  void Reject(std::string field, FieldError error);

  // Reports a part of the object that has no effect. After kMaxWarnings warnings, further warnings
  // are only counted.
  void Warn(std::string field, FieldError error);

  // Returns the rejection, or the warnings in the order of the Warn calls. Call Take only once.
  std::vector<proxy::Finding> Take();

 private:
  proxy::Finding MakeFinding(proxy::Finding::Severity severity, std::string field,
                             FieldError error) const;

  proxy::Kind kind_;
  std::string key_;
  bool rejected_ = false;
  size_t dropped_ = 0;  // Number of warnings beyond kMaxWarnings.
  std::vector<proxy::Finding> findings_;
};

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

// Returns true if `name` is a DNS-1123 label, as required for namespaces, Services and ports
// (IsDNS1123Label in Kubernetes).
bool IsDnsLabel(std::string_view name);

// Returns "namespace/name" or "name". For an invalid name, the key is escaped for display, and no
// stored object has the escaped key.
std::string KeyFor(proxy::Kind kind, std::string_view name_space, std::string_view name);
// Returns false if KeyFor returned `key` for an object without a name.
bool IsNamed(std::string_view key);

// Rejects missing and malformed names. `prefix` is the path of the fields: "metadata." or "".
void CheckNames(proxy::Kind kind, std::string_view name_space, std::string_view name,
                std::string_view prefix, Report& report);

// Returns a new report about the object with `metadata`, which contains the result of CheckNames.
Report ReportFor(proxy::Kind kind, const v1::ObjectMeta& metadata);

// Returns metadata.creationTimestamp in nanoseconds since the Unix epoch (at least 1), or 0 if the
// field is absent.
int64_t CreatedUnixNanos(const v1::ObjectMeta& metadata);

}  // namespace svcmap::api
