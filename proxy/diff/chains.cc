#include "proxy/diff/chains.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace svcmap::proxy {
namespace {

std::vector<std::string> ChainsThatUse(const nft::TableSpec& table, SetIndex set) {
  std::vector<std::string> chains;
  for (const nft::RuleSpec& rule : table.rules) {
    const bool uses = std::any_of(rule.exprs.begin(), rule.exprs.end(), [&](const nft::Expr& expr) {
      const auto* lookup = std::get_if<nft::Lookup>(&expr);
      return lookup != nullptr && !lookup->anonymous && lookup->set == set;
    });
    if (uses && std::find(chains.begin(), chains.end(), rule.chain) == chains.end()) {
      chains.push_back(rule.chain);
    }
  }
  return chains;
}

std::vector<std::string> RulesOf(const nft::TableSpec& table, const std::string& chain) {
  std::vector<std::string> rules;
  for (const nft::RuleSpec& rule : table.rules) {
    if (rule.chain == chain) rules.push_back(rule.text);
  }
  return rules;
}

}  // namespace

nft::ChainRepair ChainChanges(const nft::TableSpec& before,
                              std::shared_ptr<const nft::TableSpec> after) {
  nft::ChainRepair changes{.family = after->family, .spec = after};
  absl::flat_hash_set<std::string_view> kept;
  for (const nft::ChainSpec& chain : after->chains) {
    kept.insert(chain.name);
    if (RulesOf(before, chain.name) != RulesOf(*after, chain.name)) {
      changes.rewrite.push_back(chain.name);
    }
  }
  for (const nft::ChainSpec& chain : before.chains) {
    if (!kept.contains(chain.name)) changes.remove_chains.push_back(chain.name);
  }
  return changes;
}

void ReplaceSet(SetIndex set, nft::ChainRepair& repair) {
  repair.remove_sets.push_back(repair.spec->sets[set].name);
  for (std::string& chain : ChainsThatUse(*repair.spec, set)) {
    if (std::find(repair.rewrite.begin(), repair.rewrite.end(), chain) == repair.rewrite.end()) {
      repair.rewrite.push_back(std::move(chain));
    }
  }
}

}  // namespace svcmap::proxy
