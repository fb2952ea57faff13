// Changes the structure of the tables: at start, after damage, with a new affinity timeout, and
// when many source ranges are deleted. Base chains stay hooked.
#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_set.h"
#include "proxy/reconcile/sync_plan.h"
#include "proxy/repair/structure.h"

namespace svcmap::proxy {
namespace {

// Returns the sets and chains of a table to delete when the table is rewritten. `keep_records`:
// keeps the sets that only rules write, because they contain the affinity records of clients.
nft::Transaction::TableCreation::Existing ToDelete(const nft::TableContent& found,
                                                   const nft::TableSpec& spec, bool keep_records) {
  nft::Transaction::TableCreation::Existing existing;
  for (const auto& [name, digest] : found.sets) {
    const auto is_record_set = [&name = name](const nft::SetSpec& set) {
      return set.name == name && set.dynamic_size != 0;
    };
    const bool keep =
        keep_records && std::any_of(spec.sets.begin(), spec.sets.end(), is_record_set);
    if (!keep) existing.sets.push_back(name);
  }
  existing.chains = UnknownChains(found, spec);
  const std::vector<std::string> replaced = ChainsToReplace(found, spec);
  existing.chains.insert(existing.chains.end(), replaced.begin(), replaced.end());
  return existing;
}

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

// Deletes the set and creates it again. Rewrites the chains whose rules look up the set.
void ReplaceSet(SetIndex set, nft::ChainRepair& repair) {
  repair.remove_sets.push_back(repair.spec->sets[set].name);
  for (std::string& chain : ChainsThatUse(*repair.spec, set)) {
    if (std::find(repair.rewrite.begin(), repair.rewrite.end(), chain) == repair.rewrite.end()) {
      repair.rewrite.push_back(std::move(chain));
    }
  }
}

std::vector<std::string> RulesOf(const nft::TableSpec& table, const std::string& chain) {
  std::vector<std::string> rules;
  for (const nft::RuleSpec& rule : table.rules) {
    if (rule.chain == chain) rules.push_back(rule.text);
  }
  return rules;
}

std::vector<std::string> ChangedChains(const nft::TableSpec& before, const nft::TableSpec& after) {
  std::vector<std::string> changed;
  for (const nft::ChainSpec& chain : after.chains) {
    if (RulesOf(before, chain.name) != RulesOf(after, chain.name)) changed.push_back(chain.name);
  }
  return changed;
}

std::vector<std::string> RemovedChains(const nft::TableSpec& before, const nft::TableSpec& after) {
  absl::flat_hash_set<std::string_view> kept;
  for (const nft::ChainSpec& chain : after.chains) kept.insert(chain.name);
  std::vector<std::string> removed;
  for (const nft::ChainSpec& chain : before.chains) {
    if (!kept.contains(chain.name)) removed.push_back(chain.name);
  }
  return removed;
}

// Returns the sets of svcmapd's table. `keep_records`: without the sets that contain the affinity
// records of clients.
nft::Transaction::TableCreation::Existing OwnSets(const nft::TableSpec& spec, bool keep_records) {
  nft::Transaction::TableCreation::Existing existing;
  for (const nft::SetSpec& set : spec.sets) {
    if (!keep_records || set.dynamic_size == 0) existing.sets.push_back(set.name);
  }
  return existing;
}

void ReportReplacedChains(const nft::TableContent& found, const nft::TableSpec& spec,
                          std::vector<std::string>& replaced) {
  for (const std::string& chain : ChainsToReplace(found, spec)) {
    replaced.push_back((spec.family == Family::kIpv4 ? "ip " : "ip6 ") + spec.name + " " + chain);
  }
}

}  // namespace

// Writes the table in one transaction, whatever it contains.
void Reconciler::ReplaceTable(Family family, SyncPlan& sync_plan) {
  nft::Transaction& transaction = sync_plan.plan.transaction();
  const auto& spec = sync_plan.specs[Index(family)];
  const std::optional<nft::TableContent>& found = previous_tables_[Index(family)];
  nft::Transaction::TableCreation creation{.family = family, .spec = spec};
  if (!tables_read_) {
    // Other processes change the tables too fast to read them.
    if (failed_rewrites_ == 0 && kernel_.HasTable(family).value_or(false)) {
      creation.existing = OwnSets(*spec, in_place_);
    } else {
      transaction.DropTable(family);
    }
  } else if (found) {
    creation.existing = ToDelete(*found, *spec, in_place_);
    ReportReplacedChains(*found, *spec, sync_plan.replaced_chains);
  }
  transaction.CreateTable(std::move(creation));
}

// Writes only what differs from the elements, chains and sets that exist. Returns false if the
// kernel's rules cannot be compared.
bool Reconciler::ChangeTables(const FoundTables& found, SyncPlan& sync_plan) {
  std::vector<nft::ChainRepair> repairs;
  for (const Family family : kFamilies) {
    const auto& spec = sync_plan.specs[Index(family)];
    // The plan may have changed affinity timeouts, which have chains of their own, or rules.
    absl::StatusOr<nft::TableContent> reference = found.references[Index(family)];
    if (found.timers != timers_.seconds() || found.rules != options_.ruleset.rules_in_use) {
      reference = kernel_.ReferenceContent(*spec);
    }
    if (!reference.ok()) return false;
    const nft::TableContent& content = *previous_tables_[Index(family)];
    repairs.push_back(StructureRepair(content, *reference, spec));
    for (const nft::SetSpec& set : spec->sets) {  // Rules that look up a missing set differ.
      if (!content.sets.contains(set.name)) repairs.back().remove_sets.push_back(set.name);
    }
    ReportReplacedChains(content, *spec, sync_plan.replaced_chains);
  }
  std::vector<nft::SetRef> replaced;
  nft::Transaction changes = found.elements.ChangesTo(sync_plan.plan.transaction(), replaced);
  for (nft::ChainRepair& repair : repairs) {
    for (const nft::SetRef set : replaced) {
      if (set.family == repair.family) ReplaceSet(static_cast<SetIndex>(set.set), repair);
    }
    if (RepairSize(repair) > 0) changes.RepairChains(std::move(repair));
  }
  sync_plan.gone_ports = found.elements.StickyPortsNotIn(sync_plan.plan.transaction());
  sync_plan.plan.transaction() = std::move(changes);
  return true;
}

// Reads the elements of both tables. Returns nullopt if a table is missing, if a set has another
// type, or if a set is too large to be read.
std::optional<Reconciler::FoundTables> Reconciler::ReadFoundTables() {
  if (!tables_read_ || failed_rewrites_ > 0) return std::nullopt;
  for (const std::optional<nft::TableContent>& content : previous_tables_) {
    if (!content || !content->others.empty()) return std::nullopt;
  }
  FoundTables found;
  found.timers = timers_.seconds();
  found.rules = options_.ruleset.rules_in_use;
  for (const Family family : kFamilies) {
    const std::optional<nft::TableContent>& content = previous_tables_[Index(family)];
    const nft::TableSpec spec = MakeTable(family, options_.ruleset, timers_.seconds());
    absl::StatusOr<nft::TableContent> reference = kernel_.ReferenceContent(spec);
    if (!reference.ok()) return std::nullopt;
    for (uint8_t set = 0; set < spec.sets.size(); ++set) {
      const auto digest = content->sets.find(spec.sets[set].name);
      if (digest == content->sets.end()) continue;
      if (digest->second != reference->sets.at(spec.sets[set].name)) return std::nullopt;
      if (spec.sets[set].dynamic_size != 0) continue;
      const auto count = content->elements.find(spec.sets[set].name);
      if (count != content->elements.end() && count->second > Repairer::kMaxRead) {
        return std::nullopt;
      }
      const auto elements = kernel_.ReadSet({family, set});
      if (!elements.ok()) return std::nullopt;
      found.elements.Add({family, set}, *elements);
    }
    found.references[Index(family)] = *std::move(reference);
  }
  return found;
}

// Returns true if no table with rows of Services exists, so the tables can be written in several
// commits.
bool Reconciler::TablesAreGone() const {
  if (!tables_read_) return false;
  return std::ranges::all_of(kFamilies, [&](Family family) {
    const auto& counts = applied_.counts()[Index(family)];
    bool has_rows = false;
    for (uint8_t set = 0; set < kSetCount; ++set) {
      has_rows |= !HasAddressRanges(set) && counts[set] != 0;
    }
    return !previous_tables_[Index(family)] || (!has_rows && !applied_.services().empty());
  });
}

// Keeps the groups of unknown Services out of use until their elements are deleted: a packet with
// an old descriptor must not reach another Service.
void Reconciler::ReserveGroups(const FoundElements& found) {
  if (!applied_.services().empty() || !reserved_groups_.empty()) return;
  for (const auto& [pool, values] : found.Groups()) {
    NumberAllocator& allocator = numbers_.Of(pool.pool, pool.family);
    for (const uint32_t unused : allocator.Restore(values)) allocator.Release(unused);
    for (const uint32_t value : values) {
      reserved_groups_.push_back({pool.pool, pool.family, value});
    }
  }
}

// If a Service has an affinity timeout without chains, adds the chains of this timeout and rewrites
// the rules that jump to them. The timeout can replace one that no Service uses. If the plan needs
// other RulesInUse, writes the chains that have these rules.
void Reconciler::ChangeRules(SyncPlan& sync_plan) const {
  const std::vector<uint32_t>& timers = timers_.seconds();
  const bool same_rules = options_.ruleset.rules_in_use == rules_created_;
  if (sync_plan.recreate || (timers_.committed() == timers && same_rules)) return;
  RulesetOptions options_before = options_.ruleset;
  options_before.rules_in_use = rules_created_;
  for (const Family family : kFamilies) {
    const nft::TableSpec before = MakeTable(family, options_before, timers_.committed());
    const auto spec = std::make_shared<nft::TableSpec>(MakeTable(family, options_.ruleset, timers));
    sync_plan.plan.transaction().RepairChains({.family = family,
                                               .spec = spec,
                                               .rewrite = ChangedChains(before, *spec),
                                               .remove_chains = RemovedChains(before, *spec)});
    sync_plan.specs[Index(family)] = spec;
  }
}

// The kernel needs quadratic time to delete many ranges from a set with several fields. Instead,
// the set is replaced, and the ranges of all Services are added.
void Reconciler::ReplaceManyRanges(SyncPlan& sync_plan) const {
  size_t rows = 0;
  for (const Family family : kFamilies) rows += applied_.SourceRows(family);
  if (sync_plan.recreate || !RemovesManySourceRows(sync_plan.plan.source_rows_removed(), rows)) {
    return;
  }
  nft::Transaction transaction;
  for (const nft::ChainRepair& repair : sync_plan.plan.transaction().repairs()) {
    transaction.RepairChains(repair);
  }
  for (const Family family : kFamilies) {
    const auto spec =
        std::make_shared<nft::TableSpec>(MakeTable(family, options_.ruleset, timers_.seconds()));
    nft::ChainRepair repair{.family = family, .spec = spec};
    for (const SetIndex set : kSourceSets) {
      if (set < RowSetCount(*spec)) ReplaceSet(set, repair);
    }
    transaction.RepairChains(std::move(repair));
  }
  sync_plan.plan.transaction().ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
    if (HasSourceRanges(element.set.set)) return;
    if (verb == nft::Verb::kAdd) {
      transaction.Add(element);
    } else {
      transaction.Delete(element);
    }
  });
  const auto add_ranges = [&](const std::string& key, const ServiceRows& rows) {
    if (rows.sources.empty()) return;
    for (const Row& row : OwnRows(key, rows)) {
      if (HasSourceRanges(row.set.set)) transaction.Add(row.view());
    }
  };
  absl::flat_hash_set<std::string_view> changed;
  for (const auto& [key, rows] : sync_plan.services) {
    changed.insert(key);
    add_ranges(key, rows);
  }
  for (const auto& [key, rows] : applied_.services()) {
    if (!changed.contains(std::string_view(key))) add_ranges(key, rows);
  }
  sync_plan.plan.transaction() = std::move(transaction);
}

}  // namespace svcmap::proxy
