// Real connections to everything that manifests promise, and what should come of them.
//
// What is expected follows from the manifests and from how Kubernetes defines Services; what is
// seen comes from the servers' answers alone.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "svcmap/v1/control.pb.h"
#include "tests/demo/scene.h"
#include "tests/support/answer.h"

namespace svcmap::demo {

enum class Kind { kClusterIp, kNodePort, kExternalIp, kLoadBalancerIp };
const char* KindName(Kind kind);

// One way to reach a service port, in one or both families.
struct Target {
  std::string service;  // "shop/web"
  Kind kind = Kind::kClusterIp;
  testing::Protocol protocol = testing::Protocol::kTcp;
  uint16_t port = 0;
  std::string addresses[2];     // IPv4 and IPv6; empty: none.
  std::set<std::string> names;  // Of its endpoints; empty: connections are refused.
};

// All targets in `objects`, in their order.
std::vector<Target> TargetsOf(const std::vector<v1::Object>& objects, const Scene& scene);

// What 60 connections in one family came to.
struct Seen {
  std::map<std::string, int> answers;  // By server.
  std::set<std::string> sources;       // Names, as the servers saw them.
  int refused = 0;
  int unanswered = 0;
  std::string strange;  // The first outcome that is none of these.
};

struct Row {
  std::string from;
  Target target;
  std::string expected;  // For people.
  Seen seen[2];          // IPv4, IPv6.
  bool ok = false;
};

// Connects from `from` to `target` and compares.
Row Try(const Scene& scene, const testing::Host& from, const Target& target);

}  // namespace svcmap::demo
