// The listen addresses of svcmapd, and the authorization of clients by certificate name or uid.
// Pure functions.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "api/tls/tls_files.h"

namespace svcmap::api {

// Roles of a client, from lowest to highest. Each role includes the permissions of all lower roles.
enum class Role { kNone, kRead, kWrite };

// A client of svcmapd, identified by its connection.
struct Peer {
  // Identity to which limits apply: "uid 1000", "10.0.0.7", "URI spiffe://example/viewer".
  std::string key;
  std::string name;  // Name of the client for messages.
  Role role = Role::kNone;
  // True for Unix users that can stop svcmapd: root, and the user that svcmapd runs as. gRPC
  // receives their sockets, and their frames are not checked.
  bool trusted = false;
};

// Returns the role that a method of svcmap.v1.Control, such as "Push", requires. Methods that
// change state require kWrite.
Role NeededRole(std::string_view method);

// The --allow-* flags.
struct AllowList {
  // Subject alternative names: DNS names, URIs or IP addresses.
  std::vector<std::string> write_names;
  std::vector<std::string> read_names;
  std::vector<uid_t> write_uids;
  std::vector<uid_t> read_uids;

  bool has_names() const { return !write_names.empty() || !read_names.empty(); }
  bool has_uids() const { return !write_uids.empty() || !read_uids.empty(); }
};

// The subject alternative names of a verified certificate.
struct CertificateNames {
  std::vector<std::string> uris;
  std::vector<std::string> dns;
  std::vector<std::string> ips;
};

// Returns the highest role that `allowed` grants to one of `names`, or kWrite if `allowed` contains
// no names. Names match only names of the same type, so a DNS name never matches a URI.
Role RoleOf(const AllowList& allowed, const CertificateNames& names);

// Returns the role of a client with the given `uid`. Root and `own`, the uid of svcmapd, always
// have the role kWrite.
Role RoleOf(const AllowList& allowed, uid_t own, uid_t uid);

// Returns the name to show in messages: the first URI, or else the first DNS name, or else the
// first IP address.
std::string DisplayName(const CertificateNames& names);

// Returns the identity to which limits apply: the type of the name that DisplayName() returns, and
// this name. Contains the type because names of different types can be equal. Examples:
// "URI spiffe://example/viewer", "DNS viewer.example".
std::string LimitKey(const CertificateNames& names);

// Returns "WHAT denied: client CLIENT may only read; see FLAG of svcmapd", or "... is not
// authorized to read or write; see FLAG and FLAG of svcmapd" for Role::kNone.
std::string RejectionText(std::string_view what, const std::string& client, Role role);

struct ListenOptions {
  std::vector<std::string> listen;  // "unix:///path" or "tcp://host:port"
  bool insecure = false;  // True if tcp:// listeners may run without TLS, so any client may read.
  TlsFiles tls;           // Certificate files for tcp:// listeners.
  AllowList allow;
};

// A parsed --listen value: `text` is "/path" or "host:port".
struct ListenAddress {
  bool is_unix = false;
  std::string text;
};

// Parses the --listen values and checks the combination of options. Returns an error that names
// invalid, missing or conflicting flags.
absl::StatusOr<std::vector<ListenAddress>> ParseListeners(const ListenOptions& options);

}  // namespace svcmap::api
