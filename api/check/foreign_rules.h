// Finds rules of other software that can drop or reject a connection. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/check/target.h"

namespace svcmap::api {

// A rule or a chain policy of another table that drops or rejects packets.
struct ForeignRule {
  std::string family;  // "ip", "ip6", "inet", ...
  std::string chain;   // "inet firewall forward"
  std::string text;    // "ip daddr 10.244.1.11 drop", or "policy drop"
  bool rejects = false;
};

// Returns the rules and policies in all tables except svcmap's tables, in the order of `listing`,
// which is the output of `nft -s -t list ruleset`.
std::vector<ForeignRule> ParseForeignRules(std::string_view listing);

enum class RuleMatch : uint8_t {
  kNo,        // The rule does not match packets of the connection.
  kPossible,  // The rule has conditions that cannot be evaluated, or no conditions.
  kExplicit,  // The rule names an address or a port of the connection.
};

// `addresses` and `ports` contain both ends of the connection before and after translation.
struct ConnectionParts {
  std::vector<IpAddress> addresses;
  std::vector<uint16_t> ports;
  proxy::Protocol protocol = proxy::Protocol::kTcp;
};

// Evaluates only conditions on addresses, ports, protocols and connection states, in the syntax of
// nft or iptables-save.
RuleMatch MatchRule(const ForeignRule& rule, const ConnectionParts& connection);

}  // namespace svcmap::api
