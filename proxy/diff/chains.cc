#include "proxy/diff/chains.h"

#include <algorithm>
#include <map>
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
      const auto* dynamic = std::get_if<nft::DynamicElement>(&expr);
      return (lookup != nullptr && !lookup->anonymous && lookup->set == set) ||
             (dynamic != nullptr && dynamic->set == set);
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

// Returns the names that `specs` does not contain.
template <typename Spec>
std::vector<std::string> NotAmong(const std::vector<Spec>& specs,
                                  const std::map<std::string, uint64_t>& names) {
  std::vector<std::string> others;
  for (const auto& [name, digest] : names) {
    const auto same = [&name = name](const Spec& spec) { return spec.name == name; };
    if (std::none_of(specs.begin(), specs.end(), same)) others.push_back(name);
  }
  return others;
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
  const std::string& name = repair.spec->sets[set].name;
  const auto has = [&](const std::vector<std::string>& sets) {
    return std::find(sets.begin(), sets.end(), name) != sets.end();
  };
  if (has(repair.remove_sets) || has(repair.add_sets)) return;
  repair.remove_sets.push_back(name);
  for (std::string& chain : ChainsThatUse(*repair.spec, set)) {
    if (std::find(repair.rewrite.begin(), repair.rewrite.end(), chain) == repair.rewrite.end()) {
      repair.rewrite.push_back(std::move(chain));
    }
  }
}

std::vector<std::string> ChainsToReplace(const nft::TableContent& found,
                                         const nft::TableSpec& spec) {
  std::vector<std::string> chains;
  for (const nft::ChainSpec& chain : spec.chains) {
    if (!found.chains.contains(chain.name)) continue;
    const auto base = found.bases.find(chain.name);
    const bool same = base == found.bases.end() ? !chain.base : chain.base == base->second;
    if (!same) chains.push_back(chain.name);
  }
  return chains;
}

nft::ChainRepair StructureRepair(const nft::TableContent& found, const nft::TableContent& reference,
                                 std::shared_ptr<const nft::TableSpec> spec) {
  nft::ChainRepair repair{.family = spec->family,
                          .spec = spec,
                          .remove_chains = NotAmong(spec->chains, found.chains),
                          .remove_sets = NotAmong(spec->sets, found.sets),
                          .remove_objects = found.objects,
                          .clear_flags = found.flags != 0};
  for (const auto& [name, digest] : reference.chains) {
    const auto chain = found.chains.find(name);
    if (chain == found.chains.end() || chain->second != digest) repair.rewrite.push_back(name);
  }
  for (std::string& chain : ChainsToReplace(found, *spec)) {
    repair.remove_chains.push_back(std::move(chain));
  }
  for (uint8_t set = 0; set < spec->sets.size(); ++set) {
    const std::string& name = spec->sets[set].name;
    const auto existing = found.sets.find(name);
    if (existing == found.sets.end()) {
      repair.add_sets.push_back(name);  // The rules that look up the set are also missing.
    } else if (existing->second != reference.sets.at(name)) {
      ReplaceSet(static_cast<SetIndex>(set), repair);
    }
  }
  return repair;
}

bool CreatesSets(const nft::ChainRepair& repair) {
  return !repair.add_sets.empty() ||
         std::any_of(repair.spec->sets.begin(), repair.spec->sets.end(), [&](const auto& set) {
           return std::find(repair.remove_sets.begin(), repair.remove_sets.end(), set.name) !=
                  repair.remove_sets.end();
         });
}

size_t RepairSize(const nft::ChainRepair& repair) {
  return repair.rewrite.size() + repair.remove_chains.size() + repair.remove_sets.size() +
         repair.add_sets.size() + repair.remove_objects.size() + (repair.clear_flags ? 1 : 0);
}

}  // namespace svcmap::proxy
