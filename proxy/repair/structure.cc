#include "proxy/repair/structure.h"

#include <algorithm>
#include <map>
#include <utility>

namespace svcmap::proxy {
namespace {

// The names that `specs` do not have.
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

std::vector<std::string> UnknownChains(const nft::TableContent& found, const nft::TableSpec& spec) {
  return NotAmong(spec.chains, found.chains);
}

nft::ChainRepair StructureRepair(const nft::TableContent& found, const nft::TableContent& reference,
                                 std::shared_ptr<const nft::TableSpec> spec) {
  nft::ChainRepair repair{.family = spec->family,
                          .spec = spec,
                          .remove_chains = UnknownChains(found, *spec),
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
  return repair;
}

size_t RepairSize(const nft::ChainRepair& repair) {
  return repair.rewrite.size() + repair.remove_chains.size() + repair.remove_sets.size() +
         repair.remove_objects.size() + (repair.clear_flags ? 1 : 0);
}

}  // namespace svcmap::proxy
