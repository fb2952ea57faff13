// Parses the output of iptables-save. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace svcmap::api {

struct IptablesChain {
  std::string name;
  std::string policy;  // "ACCEPT" or "DROP" for built-in chains, and "-" for user-defined chains.

  bool built_in() const { return policy != "-"; }
};

struct IptablesRule {
  std::vector<std::string> words;  // Unquoted words: {"-A", "INPUT", "-j", "KUBE-FIREWALL"}.
  std::string text;                // Complete text of the rule.

  const std::string& chain() const { return words[1]; }
  // Value of -j or -g, such as "KUBE-SERVICES" or "ACCEPT", or empty if the rule has no target.
  const std::string& target() const;
  bool drops() const;  // The target is DROP or REJECT.
  // Value of `option`, or empty if the option is absent or negated ("! -d 10.0.0.0/8").
  const std::string& value(std::string_view option) const;
};

struct IptablesTable {
  std::string name;
  std::vector<IptablesChain> chains;
  std::vector<IptablesRule> rules;
};

struct IptablesSave {
  std::vector<IptablesTable> tables;
  // Tables that iptables-nft cannot list, because the tables contain rules that iptables-nft does
  // not support.
  std::vector<std::string> incompatible;
};

// Parses `text`. The error message quotes the invalid line.
absl::StatusOr<IptablesSave> ParseIptablesSave(std::string_view text);

// Returns whether the policy or an unconditional rule of a built-in chain drops packets that no
// other rule accepts.
bool DropsByDefault(const IptablesTable& table, std::string_view chain);

// Returns whether `chain` has the rule "-m conntrack --ctstate DNAT -j ACCEPT", which accepts all
// connections with a translated destination.
bool AcceptsTranslated(const IptablesTable& table, std::string_view chain);

}  // namespace svcmap::api
