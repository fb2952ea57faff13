#include "api/access/access.h"

#include <algorithm>
#include <optional>

#include "nft/types/ip_address.h"

namespace svcmap::api {
namespace {

template <typename T>
bool Contains(const std::vector<T>& list, const T& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// A name that contains a colon is a URI, because DNS names contain no colon.
bool Has(const CertificateNames& names, const std::string& wanted) {
  const std::optional<IpAddress> address = IpAddress::Parse(wanted);
  if (address) {
    return std::any_of(names.ips.begin(), names.ips.end(),
                       [&](const std::string& ip) { return IpAddress::Parse(ip) == address; });
  }
  return Contains(wanted.find(':') == std::string::npos ? names.dns : names.uris, wanted);
}

bool HasOneOf(const CertificateNames& names, const std::vector<std::string>& wanted) {
  return std::any_of(wanted.begin(), wanted.end(),
                     [&](const std::string& name) { return Has(names, name); });
}

}  // namespace

Role NeededRole(std::string_view method) {
  const bool writes =
      method == "Push" || method == "Apply" || method == "Remove" || method == "AcceptSnapshot";
  return writes ? Role::kWrite : Role::kRead;
}

Role RoleOf(const AllowList& allowed, const CertificateNames& names) {
  if (!allowed.has_names() || HasOneOf(names, allowed.write_names)) return Role::kWrite;
  return HasOneOf(names, allowed.read_names) ? Role::kRead : Role::kNone;
}

Role RoleOf(const AllowList& allowed, uid_t own, uid_t uid) {
  if (uid == 0 || uid == own || Contains(allowed.write_uids, uid)) return Role::kWrite;
  return Contains(allowed.read_uids, uid) ? Role::kRead : Role::kNone;
}

std::string DisplayName(const CertificateNames& names) {
  for (const std::vector<std::string>* list : {&names.uris, &names.dns, &names.ips}) {
    if (!list->empty()) return list->front();
  }
  return "without a subject alternative name";
}

std::string LimitKey(const CertificateNames& names) {
  const std::string type = !names.uris.empty()  ? "URI "
                           : !names.dns.empty() ? "DNS "
                           : !names.ips.empty() ? "IP "
                                                : "";
  return type + DisplayName(names);
}

std::string RejectionText(std::string_view what, const std::string& client, Role role) {
  std::string text = std::string(what) + " denied: client " + client;
  // Users on the node have no certificate.
  const std::string flags = client.starts_with("uid ") ? "-uid" : "";
  if (role == Role::kRead)
    return text + " may only read; see --allow-write" + flags + " of svcmapd";
  return text + " is not authorized to read or write; see --allow-write" + flags +
         " and --allow-read" + flags + " of svcmapd";
}

}  // namespace svcmap::api
