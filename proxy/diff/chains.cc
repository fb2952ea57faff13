#include "proxy/diff/chains.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"

namespace svcmap::proxy {
namespace {

void AddOnce(const std::string& name, std::vector<std::string>& names) {
  if (!absl::c_linear_search(names, name)) names.push_back(name);
}

std::vector<std::string> ChainsThatUse(const nft::TableSpec& table, SetIndex set) {
  std::vector<std::string> chains;
  for (const nft::RuleSpec& rule : table.rules) {
    const bool uses = absl::c_any_of(rule.exprs, [&](const nft::Expr& expr) {
      const auto* lookup = std::get_if<nft::Lookup>(&expr);
      const auto* dynamic = std::get_if<nft::DynamicElement>(&expr);
      return (lookup != nullptr && !lookup->anonymous && lookup->set == set) ||
             (dynamic != nullptr && dynamic->set == set);
    });
    if (uses) AddOnce(rule.chain, chains);
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
    if (std::ranges::find(specs, name, &Spec::name) == specs.end()) others.push_back(name);
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
  if (absl::c_linear_search(repair.add_sets, name)) return;
  AddOnce(name, repair.remove_sets);
  for (const std::string& chain : ChainsThatUse(*repair.spec, set)) AddOnce(chain, repair.rewrite);
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
         absl::c_any_of(repair.spec->sets, [&](const nft::SetSpec& set) {
           return absl::c_linear_search(repair.remove_sets, set.name);
         });
}

size_t RepairSize(const nft::ChainRepair& repair) {
  return repair.rewrite.size() + repair.remove_chains.size() + repair.remove_sets.size() +
         repair.add_sets.size() + repair.remove_objects.size() + (repair.clear_flags ? 1 : 0);
}

}  // namespace svcmap::proxy
