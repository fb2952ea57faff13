// Reads and changes iptables rules with iptables-save and iptables-restore. iptables has two
// backends (legacy and nft) with separate rules for IPv4 and IPv6. Works in the network namespace
// of the calling process.
#pragma once

#include <array>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "api/migration/iptables_save.h"
#include "nft/netlink/chain_reader.h"
#include "nft/types/family.h"

namespace svcmap::api {

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
