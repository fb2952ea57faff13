// A client of svcmapd, identified by its connection.
#pragma once

#include <string>

#include "api/access/access.h"

namespace svcmap::api {

struct Peer {
  // Identity to which limits apply: "uid 1000", "10.0.0.7", "URI spiffe://example/viewer".
  std::string key;
  std::string name;  // Name of the client for messages.
  Role role = Role::kNone;
  // True for Unix users that can stop svcmapd: root, and the user that svcmapd runs as. gRPC
  // receives their sockets, and their frames are not checked.
  bool trusted = false;
};

}  // namespace svcmap::api
