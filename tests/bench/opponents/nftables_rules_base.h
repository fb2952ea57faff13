// The part of kube-proxy's nftables table that does not depend on Services.
#pragma once

#include "tests/bench/opponents/nftables_rules.h"
#include "tests/bench/opponents/nftables_text.h"

namespace svcmap::bench {

// Flushes and refills sets, maps, base chains and the chains to which base chains jump. Adds
// elements only to the set nodeport-ips. If `first` is true, the base chains are recreated, as when
// kube-proxy starts (S-342).
void WriteNftablesBase(NftText& text, const NftablesNode& node, bool first);

}  // namespace svcmap::bench
