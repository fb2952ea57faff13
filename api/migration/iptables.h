// Reads and changes what iptables keeps, by its own programs: there are two flavours, and each
// keeps rules of its own for each family. In the calling process's network namespace.
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
  bool legacy = false;  // In tables of the kernel's own; else in tables of nf_tables.

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
  std::vector<std::string> unread;  // What could not be looked at, and why.
};

// Looks at each flavour that is in use: the legacy ones if the kernel has such tables, the others
// if `wanted` says so of one of `chains`, which are those of nf_tables. Makes no tables. What was
// stopped is unread.
IptablesRead ReadIptables(const std::vector<nft::ForeignChain>& chains,
                          const std::function<bool(const nft::ForeignChain&)>& wanted,
                          const std::stop_token& stop = {});

// A chain in a table that iptables-nft may have made.
bool IsOfIptables(const nft::ForeignChain& chain);

// By iptables-restore --noflush; of one flavour. Waits for others that change the rules (-w).
absl::Status RestoreIptables(const IptablesFlavour& flavour, const std::string& text,
                             const std::stop_token& stop);

}  // namespace svcmap::api
