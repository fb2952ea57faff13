#include "api/cli/object_id.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "api/cli/text.h"
#include "api/convert/fields.h"
#include "api/convert/quote.h"
#include "nft/types/ip_address.h"

namespace svcmap::api {
namespace {

absl::Status Bad(std::string_view text, const std::string& problem) {
  return absl::InvalidArgumentError(absl::StrCat("Invalid value: ", Quote(text), ": ", problem));
}

// Parses an IPv6 address in brackets, or an IPv4 address without brackets.
std::optional<IpAddress> ParseHost(std::string_view host) {
  const bool bracketed = host.size() > 2 && host.starts_with('[') && host.ends_with(']');
  if (bracketed) host = host.substr(1, host.size() - 2);
  const std::optional<IpAddress> address = IpAddress::Parse(host);
  if (address && bracketed != (address->family() == Family::kIpv6)) return std::nullopt;
  return address;
}

constexpr KindInfo kUnknownKind = {
    .proto = v1::KIND_UNSPECIFIED, .singular = "object", .plural = "objects", .namespaced = true};

}  // namespace

absl::Status ParseDestination(std::string_view text, v1::ExplainRequest& request) {
  const size_t slash = text.find('/');
  const std::string_view end_point = text.substr(0, slash);
  std::string name = slash == std::string_view::npos ? "TCP" : std::string(text.substr(slash + 1));
  absl::AsciiStrToUpper(&name);
  const std::optional<proxy::Protocol> protocol = ParseProtocol(name);
  if (name.empty() || !protocol) {
    return Bad(text, absl::StrCat("protocol ", Quote(name), " must be TCP, UDP or SCTP"));
  }
  const size_t colon = end_point.rfind(':');
  const std::optional<IpAddress> address = ParseHost(end_point.substr(0, colon));
  if (colon == std::string_view::npos || !address) {
    return Bad(text,
               "must be ADDRESS:PORT or ADDRESS:PORT/PROTOCOL, with IPv6 addresses in "
               "brackets, or NAMESPACE/NAME or NAMESPACE/NAME:PORT of a Service");
  }
  const std::string port(end_point.substr(colon + 1));
  int number = 0;
  const bool digits = !port.empty() && std::all_of(port.begin(), port.end(), absl::ascii_isdigit);
  if (!digits || !absl::SimpleAtoi(port, &number) || number < 1 || number > 65535) {
    return Bad(text, absl::StrCat("port ", Quote(port), " must be between 1 and 65535, inclusive"));
  }
  request.set_address(address->ToString());
  request.set_port(static_cast<uint32_t>(number));
  request.set_protocol(std::move(name));
  return absl::OkStatus();
}

bool ParseServicePort(std::string_view text, ObjectId& service, std::string& port) {
  const size_t slash = text.find('/');
  if (slash == 0 || slash == text.npos || text.find('/', slash + 1) != text.npos) {
    return false;
  }
  const std::string_view name_space = text.substr(0, slash);
  // "10.96.0.10:53/UDP", or "10.96.0.10/UDP" without the port. Names of namespaces have no dots.
  if (name_space.find_first_of(".:[]") != name_space.npos) return false;
  std::string_view name = text.substr(slash + 1);
  const size_t colon = name.find(':');
  port = colon == name.npos ? "" : name.substr(colon + 1);
  name = name.substr(0, colon);
  if (name.empty() || (colon != text.npos && port.empty() && text.ends_with(':'))) {
    return false;
  }
  service = {v1::KIND_SERVICE, std::string(name_space), std::string(name)};
  return true;
}

std::string AddressAndPort(const std::string& address, uint32_t port) {
  const bool ipv6 = address.find(':') != std::string::npos;
  return absl::StrCat(ipv6 ? "[" : "", address, ipv6 ? "]:" : ":", port);
}

const KindInfo* FindKindWord(std::string_view word) {
  for (const KindInfo& kind : kKinds) {
    for (const std::string_view name : {kind.plural, kind.singular, kind.short_name}) {
      if (absl::EqualsIgnoreCase({name.data(), name.size()}, {word.data(), word.size()})) {
        return &kind;
      }
    }
  }
  return nullptr;
}

const KindInfo& WordsOf(v1::Kind kind) {
  const KindInfo* known = FindKind(kind);
  return known == nullptr ? kUnknownKind : *known;
}

std::string KindList() {
  std::string text;
  for (const KindInfo& words : kKinds) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", std::string(words.plural), " (",
                    std::string(words.short_name), ")");
  }
  return text;
}

std::string ObjectId::ToString() const {
  return absl::StrCat(std::string(WordsOf(kind).singular), "/",
                      name_space.empty() ? "" : OneLine(name_space) + "/", OneLine(name));
}

v1::ObjectRef ObjectId::ToRef() const {
  v1::ObjectRef ref;
  ref.set_kind(kind);
  ref.set_namespace_(name_space);
  ref.set_name(name);
  return ref;
}

ObjectId IdOf(const v1::Object& object) {
  const KindInfo* kind = FindKindOfField(object.object_case());
  if (kind == nullptr) return {};
  const v1::ObjectMeta& metadata = *FindMetadata(object);
  return {kind->proto, metadata.namespace_(), metadata.name()};
}

ObjectId IdOf(const v1::ObjectResult& result) {
  return {result.kind(), result.namespace_(), result.name()};
}

absl::StatusOr<ObjectId> ParseObjectId(const KindInfo& kind, std::string_view text,
                                       std::string_view name_space, bool name_required) {
  const std::string plural(kind.plural);
  const auto bad = [](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat(parts...));
  };
  if (!kind.namespaced && !name_space.empty()) {
    return bad("--namespace: Forbidden: ", plural, " are not namespaced");
  }
  if (text.empty() && !name_required) return ObjectId{kind.proto, std::string(name_space), ""};
  const size_t slash = text.find('/');
  const bool whole = slash != std::string_view::npos;
  const std::string_view name = whole ? text.substr(slash + 1) : text;
  const std::string_view given = whole ? text.substr(0, slash) : std::string_view();
  if (whole && !kind.namespaced) {
    return bad("name: Invalid value: ", Quote(text), ": ", plural, " are not namespaced");
  }
  if (name.empty() || (whole && given.empty()) || name.find('/') != std::string_view::npos) {
    return bad("name: Invalid value: ", Quote(text), ": must be ",
               kind.namespaced ? "NAMESPACE/NAME" : "a name");
  }
  if (whole && !name_space.empty() && given != name_space) {
    return bad("name: Invalid value: ", Quote(text), ": does not match --namespace ",
               Quote(name_space));
  }
  const bool by_default = !whole && kind.namespaced && name_space.empty();
  return ObjectId{kind.proto,
                  std::string(whole        ? given
                              : by_default ? kDefaultNamespace
                                           : name_space),
                  std::string(name)};
}

}  // namespace svcmap::api
