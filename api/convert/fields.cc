#include "api/convert/fields.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "api/convert/convert.h"
#include "api/convert/kinds.h"
#include "api/convert/quote.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace svcmap::api {

using proxy::Finding;
using proxy::FindingCode;

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

constexpr std::string_view kNoName = "(no name)";

bool IsLowerAlnum(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

// Whether a character may be in a label. A table, because each object has several names.
constexpr auto kInLabel = [] {
  std::array<bool, 256> table = {};
  for (unsigned char c = 'a'; c <= 'z'; ++c) table[c] = true;
  for (unsigned char c = '0'; c <= '9'; ++c) table[c] = true;
  table['-'] = true;
  return table;
}();

// Does not check the length, because Kubernetes limits only the total length of a subdomain.
bool IsLabelText(std::string_view text) {
  return !text.empty() && IsLowerAlnum(text.front()) && IsLowerAlnum(text.back()) &&
         std::ranges::all_of(text, [](char c) { return kInLabel[static_cast<unsigned char>(c)]; });
}

// Kubernetes requires subdomains (IsDNS1123Subdomain) as names of all kinds except Services.
bool IsDnsSubdomain(std::string_view name) {
  if (name.size() > 253) return false;
  while (true) {
    const size_t dot = name.find('.');
    if (!IsLabelText(name.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    name.remove_prefix(dot + 1);
  }
}

std::string KeyPart(std::string_view text, std::string_view missing) {
  if (IsDnsLabel(text)) return std::string(text);
  return text.empty() ? std::string(missing) : Escape(text);
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
  const absl::string_view trimmed = absl::StripAsciiWhitespace({text.data(), text.size()});
  return {trimmed.data(), trimmed.size()};
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

FieldError Invalid(std::string value, std::string detail) {
  return {FindingCode::kInvalid, std::move(value), std::move(detail)};
}

FieldError OutOfRange(int64_t value, int64_t first, int64_t last) {
  return Invalid(absl::StrCat(value),
                 absl::StrCat("must be between ", first, " and ", last, ", inclusive"));
}

FieldError Required(std::string detail) { return {FindingCode::kRequired, "", std::move(detail)}; }

FieldError Unsupported(std::string_view value, std::initializer_list<std::string_view> supported) {
  std::string detail = "supported values: ";
  const char* separator = "";
  for (const std::string_view name : supported) {
    absl::StrAppend(&detail, separator, Quote(name));
    separator = ", ";
  }
  return {FindingCode::kUnsupported, Quote(value), std::move(detail)};
}

FieldError Duplicate(std::string value, std::string detail) {
  return {FindingCode::kDuplicate, std::move(value), std::move(detail)};
}

FieldError TooMany(int count, int limit, std::string detail) {
  return {FindingCode::kTooMany, absl::StrCat(count),
          absl::StrCat("must have at most ", limit, " items; ", detail)};
}

Finding Report::MakeFinding(Finding::Severity severity, std::string field, FieldError error) const {
  return {.severity = severity,
          .kind = kind_,
          .key = key_,
          .field = std::move(field),
          .code = error.code,
          .value = std::move(error.value),
          .reason = std::move(error.detail)};
}

void Report::Reject(std::string field, FieldError error) {
  if (rejected_) return;
  rejected_ = true;
  findings_.clear();
  findings_.push_back(
      MakeFinding(Finding::Severity::kRejected, std::move(field), std::move(error)));
}

void Report::Warn(std::string field, FieldError error) {
  if (rejected_) return;
  if (findings_.size() == kMaxWarnings) {
    ++dropped_;
    return;
  }
  findings_.push_back(MakeFinding(Finding::Severity::kWarning, std::move(field), std::move(error)));
}

std::vector<Finding> Report::Take() {
  if (!rejected_ && dropped_ > 0) {
    findings_.push_back(
        MakeFinding(Finding::Severity::kWarning, "",
                    {FindingCode::kOmitted, "", absl::StrCat(dropped_, " more warnings omitted")}));
  }
  return std::move(findings_);
}

bool IsDnsLabel(std::string_view name) { return name.size() <= 63 && IsLabelText(name); }

std::string KeyFor(proxy::Kind kind, std::string_view name_space, std::string_view name) {
  const std::string last = IsDnsSubdomain(name) ? std::string(name) : KeyPart(name, kNoName);
  if (!InfoOf(kind).namespaced) return last;
  return absl::StrCat(KeyPart(name_space, "(no namespace)"), "/", last);
}

bool IsNamed(std::string_view key) { return !key.ends_with(kNoName); }

void CheckNames(proxy::Kind kind, std::string_view name_space, std::string_view name,
                std::string_view prefix, Report& report) {
  const auto field = [prefix](const char* last) { return std::string(prefix) + last; };
  if (name.empty()) {
    report.Reject(field("name"), Required(""));
  } else if (kind == proxy::Kind::kService) {
    if (!IsDnsLabel(name)) report.Reject(field("name"), Invalid(Quote(name), kLabelDetail));
  } else if (!IsDnsSubdomain(name)) {
    report.Reject(field("name"),
                  Invalid(Quote(name),
                          "must be a DNS-1123 subdomain: at most 253 lowercase letters, digits, "
                          "'-' and '.'"));
  }
  if (!InfoOf(kind).namespaced) {
    if (!name_space.empty()) {
      report.Reject(field("namespace"),
                    Invalid(Quote(name_space),
                            absl::StrCat("must be empty because a ",
                                         std::string(proxy::KindName(kind)), " has no namespace")));
    }
  } else if (name_space.empty()) {
    report.Reject(field("namespace"), Required(""));
  } else if (!IsDnsLabel(name_space)) {
    report.Reject(field("namespace"), Invalid(Quote(name_space), kLabelDetail));
  }
}

Report ReportFor(proxy::Kind kind, const v1::ObjectMeta& metadata) {
  Report report(kind, KeyFor(kind, metadata.namespace_(), metadata.name()));
  CheckNames(kind, metadata.namespace_(), metadata.name(), "metadata.", report);
  return report;
}

int64_t CreatedUnixNanos(const v1::ObjectMeta& metadata) {
  if (!metadata.has_creation_timestamp()) return 0;
  constexpr int64_t kSecond = 1'000'000'000;
  // Maximum time in seconds, which is in the year 2262.
  constexpr int64_t kLatest = std::numeric_limits<int64_t>::max() / kSecond - 1;
  const int64_t seconds = std::clamp<int64_t>(metadata.creation_timestamp().seconds(), 0, kLatest);
  const int64_t nanos = std::clamp<int64_t>(metadata.creation_timestamp().nanos(), 0, kSecond - 1);
  return std::max<int64_t>(seconds * kSecond + nanos, 1);
}

}  // namespace svcmap::api
