// What iptables-save prints, taken apart. Pure functions; nothing is run here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace svcmap::api {

struct IptablesChain {
  std::string name;
  std::string policy;  // "ACCEPT", "DROP"; "-" of chains that a user made.

  bool built_in() const { return policy != "-"; }
};

struct IptablesRule {
  std::vector<std::string> words;  // {"-A", "INPUT", "-j", "KUBE-FIREWALL"}, quotes taken off.
  std::string text;                // The line.

  const std::string& chain() const { return words[1]; }
  // Where it jumps or goes to, or what it does: "KUBE-SERVICES", "ACCEPT"; empty if nothing.
  const std::string& target() const;
  bool drops() const;  // Its target is DROP or REJECT.
  // What follows `option`; empty if it is not there or negated ("! -d 10.0.0.0/8").
  const std::string& value(std::string_view option) const;
};

struct IptablesTable {
  std::string name;
  std::vector<IptablesChain> chains;
  std::vector<IptablesRule> rules;
};

struct IptablesSave {
  std::vector<IptablesTable> tables;
  // Tables that iptables-nft cannot read, as somebody has put other rules into them.
  std::vector<std::string> incompatible;
};

// The error quotes the line that cannot be understood.
absl::StatusOr<IptablesSave> ParseIptablesSave(std::string_view text);

// Whether packets that no rule of this built-in chain accepts are lost: by its policy, or by a rule
// for all of them.
bool DropsByDefault(const IptablesTable& table, std::string_view chain);

// Whether a rule of it accepts whatever was translated: "-m conntrack --ctstate DNAT -j ACCEPT".
bool AcceptsTranslated(const IptablesTable& table, std::string_view chain);

}  // namespace svcmap::api
