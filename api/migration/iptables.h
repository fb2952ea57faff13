// Reads and changes iptables rules with iptables-save and iptables-restore. iptables has two
// backends (legacy and nft) with separate rules for IPv4 and IPv6. Works in the network namespace
// of the calling process.
#pragma once

#include <array>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nft/netlink/chain_reader.h"
#include "nft/types/family.h"

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

struct IptablesFlavour {
  Family family = Family::kIpv4;
  bool legacy = false;  // True for the legacy backend (x_tables), false for the nf_tables backend.

  std::string ToString() const;  // "iptables-nft", "ip6tables-legacy"
};
inline constexpr std::array<IptablesFlavour, 4> kIptablesFlavours = {
    {{Family::kIpv4, false}, {Family::kIpv6, false}, {Family::kIpv4, true}, {Family::kIpv6, true}}};

struct IptablesRead {
  struct Found {
    IptablesFlavour flavour;
    IptablesSave save;
  };
  std::vector<Found> found;
  std::vector<std::string> unread;  // Rules that could not be read, with reasons.
};

// Reads the rules of each backend and family in use. A legacy backend is in use if the kernel has
// its tables. An nft backend is in use if `wanted` returns true for one of `chains`, the chains of
// nf_tables. Does not create tables. If `stop` is requested, the remaining rules are reported as
// unread.
IptablesRead ReadIptables(const std::vector<nft::ForeignChain>& chains,
                          const std::function<bool(const nft::ForeignChain&)>& wanted,
                          const std::stop_token& stop = {});

// Returns whether the table of `chain` has a name that iptables-nft uses.
bool IsOfIptables(const nft::ForeignChain& chain);

// Passes `text` to iptables-restore --noflush. Waits up to 5 s for the xtables lock (-w 5).
absl::Status RestoreIptables(const IptablesFlavour& flavour, const std::string& text,
                             const std::stop_token& stop);

}  // namespace svcmap::api
