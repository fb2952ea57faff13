#include "proxy/repair/repairer.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "proxy/diff/chains.h"
#include "proxy/diff/phases.h"
#include "proxy/diff/rewrite.h"

namespace svcmap::proxy {
namespace {

// Returns true for the set of affinity records. Rules write these records, so their expected
// content is unknown. Rules also write `service-connections`, but Repairer checks only the sets
// that can have rows.
bool WrittenByRules(uint8_t set) { return set == kAffinity; }

bool HasRanges(uint8_t set) { return HasAddressRanges(set) || HasSourceRanges(set); }

}  // namespace

void Repairer::TablesWritten(std::array<std::shared_ptr<const nft::TableSpec>, 2> specs) {
  RulesWritten(std::move(specs));
  structure_ = search_uncounted_ = {};
  rows_.clear();
  sets_ = {};
  audits_due_ = 0;
  at_service_.clear();
  at_row_ = 0;
  rejected_ = 0;
}

void Repairer::RulesWritten(std::array<std::shared_ptr<const nft::TableSpec>, 2> specs) {
  specs_ = std::move(specs);
  references_ = {};
}

void Repairer::MarkSuspect(const nft::ForeignChange& change) {
  if (change.lost) audits_due_ = at_service_.empty() && at_row_ == 0 ? 1 : 2;
  if (change.table || change.structure || change.lost) structure_ = {true, true};
  for (const nft::SetRef set : change.sets) sets_[Index(set.family)].set(set.set);
  for (const Touched& touched : change.elements) {
    if (!sets_[Index(touched.set.family)][touched.set.set]) rows_.push_back(touched);
  }
  // Above kMaxElements rows, comparing complete sets is cheaper than looking up single rows.
  if (rows_.size() <= nft::ForeignChange::kMaxElements) return;
  for (const Touched& touched : rows_) sets_[Index(touched.set.family)].set(touched.set.set);
  rows_.clear();
}

void Repairer::MarkRowsSuspect(const nft::Transaction& transaction) {
  nft::ForeignChange change;
  change.structure = true;
  transaction.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    if (HasRanges(element.set.set)) {
      change.sets.push_back(element.set);
    } else {
      change.elements.push_back({element.set, {element.key.begin(), element.key.end()}});
    }
  });
  MarkSuspect(change);
}

RepairResult Repairer::Repair() {
  using Outcome = RepairResult::Outcome;
  absl::StatusOr<Damage> damage = CheckNext();
  if (!damage.ok()) return {.outcome = Outcome::kFailed, .error = damage.status()};
  RepairResult result{.elements = damage->elements, .chains = damage->chains};
  if (damage->rewrite) result.outcome = Outcome::kRewrite;
  if (damage->rewrite || result.elements + result.chains == 0) return result;
  const auto start = std::chrono::steady_clock::now();
  const nft::ApplyResult applied = ApplyInParts(kernel_, damage->repair);
  result.duration = std::chrono::steady_clock::now() - start;
  if (applied.outcome == nft::ApplyOutcome::kCommitted) {
    rejected_ = 0;
    result.outcome = Outcome::kRepaired;
    return result;
  }
  // Another process may have changed the tables again.
  MarkSuspect(damage->checked);
  ++rejected_;
  result.outcome = Outcome::kFailed;
  result.error = applied.error;
  return result;
}

// Single rows first: a plan may need their repair, commits of other processes do not interrupt
// their check, and element counts are compared with the structure.
absl::StatusOr<Repairer::Damage> Repairer::CheckNext() {
  absl::Status failed;
  std::vector<Touched> rows = std::exchange(rows_, {});
  std::erase_if(rows, [](const Touched& row) {
    return WrittenByRules(row.set.set) || HasRanges(row.set.set);
  });
  if (!rows.empty()) {
    absl::flat_hash_set<std::string> keys;
    for (const Touched& row : rows) keys.insert(SharedKey(row.set, row.key));
    const nft::Transaction expected = ExpectedElements([&](const nft::ElementView& element) {
      return keys.contains(SharedKey(element.set, element.key));
    });
    absl::StatusOr<Damage> damage = CheckRows(std::move(rows), expected);
    if (damage.ok()) return damage;
    failed = damage.status();  // The check of the structure finds a set that is gone.
  }
  for (const Family family : kFamilies) {
    if (!structure_[Index(family)]) continue;
    absl::StatusOr<Damage> damage = CheckStructure(family);
    if (damage.ok()) structure_[Index(family)] = false;
    return damage;
  }
  if (!failed.ok()) return failed;
  for (const Family family : kFamilies) {
    for (uint8_t set = 0; set < RowSetCount(*specs_[Index(family)]); ++set) {
      if (!sets_[Index(family)][set]) continue;
      absl::StatusOr<Damage> damage = CheckSet({family, set});
      if (damage.ok()) sets_[Index(family)].reset(set);
      return damage;
    }
  }
  return Audit();
}

absl::StatusOr<Repairer::Damage> Repairer::CheckStructure(Family family) {
  const auto found = kernel_.ReadTable(family);
  if (!found.ok()) return found.status();
  Damage damage{.rewrite = !*found, .checked = {.structure = true}};
  if (damage.rewrite) return damage;
  std::optional<nft::TableContent>& reference = references_[Index(family)];
  if (!reference) {
    absl::StatusOr<nft::TableContent> content = kernel_.ReferenceContent(*specs_[Index(family)]);
    if (!content.ok()) return content.status();
    reference = *std::move(content);
  }
  nft::ChainRepair repair = StructureRepair(**found, *reference, specs_[Index(family)]);
  damage.chains = RepairSize(repair);
  damage.rewrite = CreatesSets(repair);
  if (damage.rewrite) return damage;
  if (damage.chains > 0) damage.repair.RepairChains(std::move(repair));
  CompareCounts(**found, family);
  return damage;
}

void Repairer::CompareCounts(const nft::TableContent& found, Family family) {
  const nft::TableSpec& spec = *specs_[Index(family)];
  for (uint8_t set = 0; set < RowSetCount(spec); ++set) {
    if (WrittenByRules(set)) continue;
    int64_t wanted = ExpectedCount({family, set});
    // The kernel counts ranges, not bounds (Linux 6.18).
    if (spec.sets[set].has_bounds()) wanted /= 2;
    const auto count = found.elements.find(spec.sets[set].name);
    const bool suspect = count != found.elements.end()
                             ? count->second != wanted
                             : search_uncounted_[Index(family)] && wanted <= kMaxDump;
    if (suspect) sets_[Index(family)].set(set);
  }
  search_uncounted_[Index(family)] = false;
}

absl::StatusOr<Repairer::Damage> Repairer::CheckRows(std::vector<Touched> rows,
                                                     const nft::Transaction& expected) {
  // Sorts the rows, so that each set is read with one request without duplicate keys.
  const auto order = [](const Touched& a, const Touched& b) {
    return std::tie(a.set.family, a.set.set, a.key) < std::tie(b.set.family, b.set.set, b.key);
  };
  std::sort(rows.begin(), rows.end(), order);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());

  FoundElements found;
  for (size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    while (end < rows.size() && rows[end].set == rows[begin].set) ++end;
    std::vector<nft::FieldBytes> keys;
    for (size_t i = begin; i < end; ++i) keys.emplace_back().Append(rows[i].key);
    auto elements = kernel_.ReadElements(rows[begin].set, keys);
    if (!elements.ok()) {
      MarkSuspect({.elements = std::move(rows)});
      return elements.status();
    }
    std::vector<nft::Element> existing;
    for (std::optional<nft::Element>& element : *elements) {
      if (element) existing.push_back(*std::move(element));
    }
    found.Add(rows[begin].set, existing);
  }
  ElementChanges changes = found.ChangesTo(expected);
  return Damage{.repair = std::move(changes.transaction),
                .elements = changes.count,
                .checked = {.elements = std::move(rows)}};
}

// Searches the rows of all Services. This takes about 10 ms for 100,000 endpoints, and is necessary
// only after changes of other processes. Each audit checks all sets of ranges, so the endpoints of
// Services are then not searched.
nft::Transaction Repairer::ExpectedElements(
    absl::FunctionRef<bool(const nft::ElementView&)> is_wanted, bool ranges) const {
  nft::Transaction expected;
  const auto add = [&](const nft::ElementView& element) {
    if (is_wanted(element)) expected.Add(element);
  };
  const auto add_row = [&](const Row& row) { add(row.view()); };
  for (const auto& [key, service] : applied_.services()) {
    if (!ranges || !service.sources.empty()) ForEachOwnRow(key, service, add_row);
  }
  for (const Row& row : applied_.node_rows()) add_row(row);
  if (ranges) return expected;
  for (const Family family : kFamilies) {
    for (const Row& row : applied_.marker().ToRows(family)) add_row(row);
  }
  for (const auto& [key, uses] : applied_.shared()) add(FromSharedKey(key));
  return expected;
}

absl::StatusOr<Repairer::Damage> Repairer::CheckSet(nft::SetRef set) {
  if (WrittenByRules(set.set)) return Damage();
  const bool ranges = HasRanges(set.set);
  if (!ranges && ExpectedCount(set) > kMaxDump) return Damage{.rewrite = true};
  const auto found = kernel_.ReadSet(set);
  if (absl::IsNotFound(found.status())) return Damage{.rewrite = true};
  if (!found.ok()) return found.status();
  FoundElements elements;
  elements.Add(set, *found);
  const auto is_in_set = [&](const nft::ElementView& element) { return element.set == set; };
  ElementChanges changes = elements.ChangesTo(ExpectedElements(is_in_set, ranges));
  // A rewrite replaces sets of ranges, because the kernel may reject the repair of a single bound.
  if (ranges) return Damage{.rewrite = changes.count > 0, .elements = changes.count};
  return Damage{.repair = std::move(changes.transaction),
                .elements = changes.count,
                .checked = {.sets = {set}}};
}

int64_t Repairer::ExpectedCount(nft::SetRef set) const {
  return set.set == kMarker ? static_cast<int64_t>(applied_.marker().timers.size())
                            : applied_.counts()[Index(set.family)][set.set];
}

absl::StatusOr<Repairer::Damage> Repairer::Audit() {
  std::vector<Touched> rows;
  nft::Transaction expected;
  absl::flat_hash_set<std::string> seen;  // Services can share rows.
  const Applied::Services& services = applied_.services();
  for (auto service = services.lower_bound(at_service_);
       service != services.end() && rows.size() < kRows; ++service) {
    if (service->first != at_service_) at_row_ = 0;
    at_service_ = service->first;
    size_t number = 0;
    const auto add = [&](const Row& row) {
      if (number++ < at_row_ || rows.size() >= kRows || HasRanges(row.set.set)) return;
      at_row_ = number;
      const auto key = row.key.bytes();
      if (!seen.insert(SharedKey(row.set, key)).second) return;
      rows.push_back({row.set, {key.begin(), key.end()}});
      expected.Add(row.view());
    };
    ForEachOwnRow(service->first, service->second, add);
    for (const Row& row : SharedRows(service->second)) add(row);
    if (rows.size() < kRows) at_row_ = number;  // Includes all remaining rows of the Service.
  }
  if (!rows.empty()) return CheckRows(std::move(rows), expected);
  // At the end of the audit, checks the rows that do not belong to a single Service and looks for
  // unknown elements.
  at_service_.clear();
  at_row_ = 0;
  ++audits_;
  const auto add = [this](const Row& row) {
    rows_.push_back({row.set, {row.key.bytes().begin(), row.key.bytes().end()}});
  };
  for (const Family family : kFamilies) {
    structure_[Index(family)] = true;
    for (uint8_t set = 0; set < RowSetCount(*specs_[Index(family)]); ++set) {
      if (HasRanges(set)) sets_[Index(family)].set(set);
    }
    for (const Row& row : applied_.marker().ToRows(family)) add(row);
  }
  for (const Row& row : applied_.node_rows()) {
    if (row.set.set == kPingTarget) add(row);
  }
  if (audits_due_ > 0) {
    --audits_due_;
    search_uncounted_ = {true, true};
  }
  return Damage();
}

nft::ApplyResult ApplyInParts(nft::Kernel& kernel, nft::Transaction& transaction) {
  bool deletes = false;
  transaction.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
    deletes |= verb == nft::Verb::kDelete && element.set.set != kMarker;
  });
  if (deletes || !transaction.repairs().empty() || !transaction.drops().empty() ||
      transaction.element_count() <= kElementsPerCommit) {
    return kernel.Apply(transaction);
  }
  PutFirstSlotsFirst(transaction);
  nft::ApplyResult result;
  size_t before = 0;  // Number of elements before this part.
  transaction.ForEachPart(kElementsPerCommit, [&](nft::Transaction part) {
    if (result.outcome != nft::ApplyOutcome::kCommitted) return;
    if (before == 0) {
      for (const auto& creation : transaction.creations()) part.CreateTable(creation);
    }
    result = kernel.Apply(part);
    if (result.failed_element) *result.failed_element += before;
    before += part.element_count();
  });
  return result;
}

}  // namespace svcmap::proxy
