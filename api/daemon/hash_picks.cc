#include "api/daemon/hash_picks.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "nft/netlink/probe.h"

namespace svcmap::api {
namespace {

// Returns tables with all sets, but only one rule, so that the probe is short.
nft::TableSpecs TablesWithOneHash(const proxy::RulesetOptions& ruleset) {
  nft::TableSpecs tables = proxy::MakeTables(ruleset);
  for (nft::TableSpec& table : tables) {
    const auto hash = std::find_if(table.rules.begin(), table.rules.end(), [](const auto& rule) {
      return rule.chain.starts_with("hash-");
    });
    table.rules = {*hash};
    std::erase_if(table.chains, [&](const nft::ChainSpec& chain) {
      return chain.name != table.rules.front().chain;
    });
  }
  return tables;
}

}  // namespace

void DropHashPicksIfUnsupported(proxy::RulesetOptions& ruleset) {
  const absl::StatusOr<std::vector<nft::MissingFeature>> missing =
      nft::FindMissingFeatures(TablesWithOneHash(ruleset));
  if (!missing.ok()) return;  // The preflight checks report this error.
  const bool unsupported =
      std::any_of(missing->begin(), missing->end(),
                  [](const nft::MissingFeature& feature) { return feature.module == "nft_hash"; });
  if (!unsupported) return;
  ruleset.hash_picks = false;
  spdlog::warn(
      "the kernel has no hashes, Services with endpointPick pick endpoints at random "
      "module=nft_hash option=CONFIG_NFT_HASH");
}

}  // namespace svcmap::api
