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
  // A manifest with a given number, and the largest number that is tested: svcmap's limit, or the
  // API server's limit or a large number if svcmap does not limit the field. Without a manifest,
  // another test checks the limit.
  int most = 0;
  std::function<std::string(int number)> manifest = nullptr;
  // Part of the message for the number `most` + 1: the field, the type of the error and the value.
  // Empty if svcmap accepts larger numbers. BadInputs() contains the complete messages.
  std::string over = {};
  // `least` is the smallest accepted number. `under` is a part of the message for `least` - 1. Not
  // tested if `under` is empty.
  int least = 0;
  std::string under = {};
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
