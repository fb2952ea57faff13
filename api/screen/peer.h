// A client of svcmapd, as far as it is known from its connection.
#pragma once

#include <string>

#include "api/access/access.h"

namespace svcmap::api {

struct Peer {
  std::string key;   // Limits count by this: "uid 1000", "10.0.0.7", "spiffe://example/viewer".
  std::string name;  // For messages.
  Role role = Role::kNone;
};

}  // namespace svcmap::api
