// Who may call what. Pure functions: where the names and uids come from is the callers' business.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace svcmap::api {

// Each includes those before it.
enum class Role { kNone, kRead, kWrite };

// What a method of svcmap.v1.Control takes ("Push"): kWrite where it changes what the node serves.
Role NeededRole(std::string_view method);

// As given on the command line.
struct AllowList {
  // Subject alternative names: a DNS name, a URI or an IP address.
  std::vector<std::string> write_names;
  std::vector<std::string> read_names;
  std::vector<uid_t> write_uids;
  std::vector<uid_t> read_uids;

  bool has_names() const { return !write_names.empty() || !read_names.empty(); }
  bool has_uids() const { return !write_uids.empty() || !read_uids.empty(); }
};

// The subject alternative names of a certificate that was verified.
struct CertificateNames {
  std::vector<std::string> uris;
  std::vector<std::string> dns;
  std::vector<std::string> ips;
};

// The highest role that one of the names has; kWrite if the list has no names at all. A name
// matches only names of its own kind: a DNS name that reads like a URI is not that URI.
Role RoleOf(const AllowList& allowed, const CertificateNames& names);

// Root and `own`, the agent's own uid, always write.
Role RoleOf(const AllowList& allowed, uid_t own, uid_t uid);

// "spiffe://example.org/controller", for people: a URI rather than a DNS name rather than an IP.
std::string DisplayName(const CertificateNames& names);

// "svcmap.v1.Control/Push refused: client uid 1000 may only read"; `what` is what comes before
// "refused".
std::string RefusalText(std::string_view what, const std::string& client, Role role);

}  // namespace svcmap::api
