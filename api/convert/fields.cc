#include "api/convert/fields.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "api/convert/quote.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace svcmap::api {
namespace {

// Returns true for "::ffff:192.0.2.1". Other spellings of IPv4-mapped addresses are rare.
bool IsIpv4Mapped(std::string_view address) {
  constexpr std::string_view kPrefixes[] = {"::ffff:", "::FFFF:"};
  if (!address.starts_with(kPrefixes[0]) && !address.starts_with(kPrefixes[1])) return false;
  const auto embedded = IpAddress::Parse(address.substr(kPrefixes[0].size()));
  return embedded && embedded->family() == Family::kIpv4;
}

void WarnAmbiguous(std::string_view field, std::string_view text, std::string_view detail,
                   const std::string& used, Report& report) {
  report.Warn(std::string(field),
              Invalid(Quote(text), absl::StrCat(std::string(detail), "; ", used, " is used")));
}

}  // namespace

std::string IpAddressDetail(std::string_view text) {
  return IsIpv4Mapped(Trim(text)) ? "must not be an IPv4-mapped IPv6 address"
                                  : "must be a valid IP address";
}

std::string CidrDetail(std::string_view text) {
  text = Trim(text);
  return IsIpv4Mapped(text.substr(0, text.find('/'))) ? "must not have an IPv4-mapped IPv6 address"
                                                      : "must be a valid CIDR";
}

bool HasLeadingZeros(std::string_view address) {
  for (size_t i = address.find('0'); i < address.size() - 1; i = address.find('0', i + 1)) {
    const bool starts_octet = i == 0 || address[i - 1] == '.';
    if (starts_octet && absl::ascii_isdigit(address[i + 1])) {
      return address.find(':') == std::string_view::npos;
    }
  }
  return false;
}

void WarnIfAmbiguous(std::string_view field, std::string_view text, const IpAddress& address,
                     Report& report) {
  if (!HasLeadingZeros(text)) return;
  WarnAmbiguous(field, text, "must not have leading 0s", address.ToString(), report);
}

void WarnIfAmbiguous(std::string_view field, std::string_view text, const IpPrefix& prefix,
                     Report& report) {
  const size_t slash = text.find('/');
  const std::string_view address = text.substr(0, slash), length = text.substr(slash + 1);
  if (HasLeadingZeros(address) || (length.size() > 1 && length[0] == '0')) {
    WarnAmbiguous(field, text, "must not have leading 0s in IP or prefix length", prefix.ToString(),
                  report);
  } else if (IpAddress::Parse(address) != prefix.address()) {
    WarnAmbiguous(field, text, "must not have bits set beyond the prefix length", prefix.ToString(),
                  report);
  }
}

std::optional<proxy::Protocol> ParseProtocol(std::string_view text) {
  if (text.empty() || text == "TCP") return proxy::Protocol::kTcp;
  if (text == "UDP") return proxy::Protocol::kUdp;
  if (text == "SCTP") return proxy::Protocol::kSctp;
  return std::nullopt;
}

FieldError UnsupportedProtocol(std::string_view text) {
  return Unsupported(text, {"TCP", "UDP", "SCTP"});
}

FieldError Ignored(FieldError error) {
  error.detail += "; the entry is ignored";
  return error;
}

void CheckOneOf(std::string_view field, std::string_view value,
                std::initializer_list<std::string_view> known, Report& report) {
  if (value.empty() || std::find(known.begin(), known.end(), value) != known.end()) return;
  report.Reject(std::string(field), Unsupported(value, known));
}

std::optional<std::string> SpecialAddress(const IpAddress& address) {
  if (address.IsUnspecified()) return "must not be the unspecified address";
  if (address.IsLoopback()) return "must not be a loopback address";
  if (address.IsLinkLocal()) return "must not be a link-local address";
  if (address.IsMulticast()) return "must not be a multicast address";
  return std::nullopt;
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string Serialize(const google::protobuf::MessageLite& message) {
  std::string bytes(message.ByteSizeLong(), '\0');  // Allocates the exact size to save memory.
  google::protobuf::io::ArrayOutputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedOutputStream out(&stream);
  out.SetSerializationDeterministic(true);  // Without this option, the order of map entries varies.
  message.SerializeWithCachedSizes(&out);
  out.Trim();  // Flushes the buffered bytes to `bytes`.
  return bytes;
}

}  // namespace svcmap::api
