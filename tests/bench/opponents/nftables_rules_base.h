// What the table of kube-proxy's nftables mode holds whatever the Services are.
#pragma once

#include "tests/bench/opponents/nftables_rules.h"
#include "tests/bench/opponents/nftables_text.h"

namespace svcmap::bench {

// Sets, maps, base chains and the chains behind them, flushed and refilled; elements of
// nodeport-ips only. `first`: base chains are made anew, as once in the life of a kube-proxy
// (S-342).
void WriteNftablesBase(NftText& text, const NftablesNode& node, bool first);

}  // namespace svcmap::bench
