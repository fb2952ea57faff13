#include "api/convert/metadata.h"

#include <algorithm>
#include <array>
#include <limits>

#include "absl/strings/str_cat.h"
#include "api/convert/fields.h"
#include "api/convert/kinds.h"
#include "api/convert/quote.h"

namespace svcmap::api {
namespace {

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
         std::all_of(text.begin(), text.end(),
                     [](char c) { return kInLabel[static_cast<unsigned char>(c)]; });
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
