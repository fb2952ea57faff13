// Limits of the fields of an object: the limit of the Kubernetes API server, which svcmap must not
// undercut, and svcmap's limit. docs/bad-input.md contains both limits.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace svcmap::api {

struct FieldLimit {
  std::string_view field;       // "EndpointSlice `ports`"
  std::string_view api_server;  // "20,000"
  std::string_view svcmap;
  std::string_view source;  // Function of Kubernetes with the limit: "discovery: `validatePorts`".
  // Largest accepted number, and a manifest with a given number. Without a manifest, svcmap does
  // not limit the field, or another test checks the limit.
  int most = 0;
  std::function<std::string(int number)> manifest = nullptr;
  std::string_view over;  // Part of the message for one more than `most`.
};
std::vector<FieldLimit> FieldLimits();

// Limits that the API server does not have: numbers of all objects of a Service or of a node, sizes
// of messages and files, and fields of svcmap.
struct OwnLimit {
  std::string_view what;
  std::string_view limit;
  std::string_view effect;
};
std::vector<OwnLimit> OwnLimits();

}  // namespace svcmap::api
