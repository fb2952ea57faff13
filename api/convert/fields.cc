#include "api/convert/fields.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "api/convert/quote.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace svcmap::api {

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
