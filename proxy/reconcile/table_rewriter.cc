#include "proxy/reconcile/table_rewriter.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "proxy/diff/chains.h"
#include "proxy/repair/structure.h"
#include "proxy/ruleset/descriptor.h"

namespace svcmap::proxy {
namespace {

// A dump takes quadratic time. Larger sets of endpoints are read by key.
constexpr uint64_t kMaxDump = 200000;

using Existing = nft::Transaction::TableCreation::Existing;

// Returns the sets, chains and objects of a table to delete when the table is rewritten.
// `keep_records`: keeps the sets that only rules write, because they contain the affinity records
// of clients.
Existing ToDelete(const nft::TableContent& found, const nft::TableSpec& spec, bool keep_records) {
  Existing existing;
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
  existing.objects = found.objects;
  return existing;
}

// Returns the sets of svcmapd's table, except for the sets that contain the affinity records of
// clients.
Existing SetsWithoutRecords(const nft::TableSpec& spec) {
  Existing existing;
  for (const nft::SetSpec& set : spec.sets) {
    if (set.dynamic_size == 0) existing.sets.push_back(set.name);
  }
  return existing;
}

bool HasMarker(const std::vector<nft::Element>& elements, const std::vector<Row>& rows) {
  const auto is_found = [&](const Row& row) {
    return std::ranges::any_of(elements, [&](const nft::Element& element) {
      return std::ranges::equal(element.key, row.key.bytes()) &&
             std::ranges::equal(element.data, row.data.bytes());
    });
  };
  return elements.size() == rows.size() && std::ranges::all_of(rows, is_found);
}

void ReportReplacedChains(const nft::TableContent& found, const nft::TableSpec& spec,
                          std::vector<std::string>& replaced) {
  for (const std::string& chain : ChainsToReplace(found, spec)) {
    replaced.push_back((spec.family == Family::kIpv4 ? "ip " : "ip6 ") + spec.name + " " + chain);
  }
}

}  // namespace

absl::Status TableRewriter::Read(TableState state) {
  Forget();
  Contents contents;
  for (const Family family : kFamilies) {
    auto content = kernel_.ReadTable(family);
    if (!content.ok()) return content.status();
    contents[Index(family)] = *std::move(content);
  }
  contents_ = std::move(contents);
  if (state != TableState::kUnverified) return absl::OkStatus();
  Found found;
  found.timers = timers_.seconds();
  found.rules = ruleset_.rules_in_use;
  for (const Family family : kFamilies) {
    if (absl::Status read = ReadElements(family, found); !read.ok()) return read;
  }
  found_ = std::move(found);
  return absl::OkStatus();
}

void TableRewriter::Forget() {
  contents_.reset();
  found_.reset();
}

absl::Status TableRewriter::ReadElements(Family family, Found& found) const {
  const std::optional<nft::TableContent>& content = (*contents_)[Index(family)];
  if (!content) {
    found.has_marker = false;
    return absl::OkStatus();
  }
  const nft::TableSpec spec = MakeTable(family, ruleset_, timers_.seconds());
  absl::StatusOr<nft::TableContent> reference = kernel_.ReferenceContent(spec);
  if (!reference.ok()) return reference.status();
  bool has_endpoints = false;
  for (uint8_t set = 0; set < spec.sets.size(); ++set) {
    const std::string& name = spec.sets[set].name;
    const auto digest = content->sets.find(name);
    if (digest == content->sets.end()) continue;
    if (digest->second != reference->sets.at(name)) {
      found.comparable = false;
      continue;
    }
    if (spec.sets[set].dynamic_size != 0) continue;
    if (set == kEndpoints) {  // After the descriptors.
      has_endpoints = true;
      continue;
    }
    const auto elements = kernel_.ReadSet({family, set});
    if (!elements.ok()) return elements.status();
    if (set == kMarker) found.has_marker &= HasMarker(*elements, applied_.marker().ToRows(family));
    found.elements.Add({family, set}, *elements);
  }
  if (has_endpoints) {
    const auto count = content->elements.find(spec.sets[kEndpoints].name);
    const absl::Status read = ReadEndpoints(
        family, count != content->elements.end() ? std::optional(count->second) : std::nullopt,
        found.elements);
    if (!read.ok()) return read;
  }
  found.references[Index(family)] = *std::move(reference);
  return absl::OkStatus();
}

// Looks up the slots of all groups that the found descriptors name, if the set is large. Reads the
// complete set if it is small, or if it has more than `count` elements, which no packet reaches.
// Kernels before Linux 6.16 do not report the count.
absl::Status TableRewriter::ReadEndpoints(Family family, std::optional<uint64_t> count,
                                          FoundElements& elements) const {
  const nft::SetRef set = {family, kEndpoints};
  absl::flat_hash_map<uint32_t, uint32_t> capacities;  // By group.
  uint64_t slots = 0;
  elements.ForEach([&](const nft::ElementView& element) {
    const uint8_t index = element.set.set;
    if (element.set.family != family || (index != kServiceIps && index != kLocalSets)) return;
    const std::optional<IpAddress> descriptor = IpAddress::FromBytes(element.data);
    if (!descriptor) return;
    const DescriptorParts parts = ParseDescriptor(*descriptor);
    if (!parts.sticky && capacities.emplace(parts.group, parts.capacity).second) {
      slots += parts.capacity;
    }
  });
  std::vector<nft::Element> found;
  if (count.value_or(slots) > kMaxDump) {
    std::vector<nft::FieldBytes> keys;
    const auto read = [&]() -> absl::Status {
      const auto some = kernel_.ReadElements(set, keys);
      keys.clear();
      if (!some.ok()) return some.status();
      for (const std::optional<nft::Element>& slot : *some) {
        if (slot) found.push_back(*slot);
      }
      return absl::OkStatus();
    };
    constexpr size_t kKeysPerRequest = 1024;
    for (const auto& [group, capacity] : capacities) {
      for (uint32_t slot = 0; slot < capacity; ++slot) {
        keys.push_back(EndpointRow(set, group, slot, {}).key);
        if (keys.size() < kKeysPerRequest) continue;
        if (absl::Status status = read(); !status.ok()) return status;
      }
    }
    if (absl::Status status = read(); !status.ok()) return status;
  }
  if (count.value_or(slots) <= kMaxDump || (count && found.size() != *count)) {
    auto all = kernel_.ReadSet(set);
    if (!all.ok()) return all.status();
    found = *std::move(all);
  }
  elements.Add(set, found);
  return absl::OkStatus();
}

void TableRewriter::Write(TableState state, SyncPlan& sync_plan) const {
  sync_plan.specs = MakeSpecs(ruleset_, timers_.seconds());
  const bool exists = contents_ && ((*contents_)[0] || (*contents_)[1]);
  if (found_ && found_->comparable && exists && Change(sync_plan)) return;
  Replace(state, sync_plan);
}

// Writes the tables in one transaction, whatever they contain.
void TableRewriter::Replace(TableState state, SyncPlan& sync_plan) const {
  nft::Transaction& transaction = sync_plan.plan.transaction();
  for (const auto& spec : sync_plan.specs) {
    const Family family = spec->family;
    nft::Transaction::TableCreation creation{.family = family, .spec = spec};
    if (contents_) {
      if (const std::optional<nft::TableContent>& found = (*contents_)[Index(family)]) {
        creation.existing = ToDelete(*found, *spec, state == TableState::kUnverified);
        ReportReplacedChains(*found, *spec, sync_plan.replaced_chains);
      }
    } else if (state == TableState::kUnverified && kernel_.HasTable(family).value_or(false)) {
      creation.existing = SetsWithoutRecords(*spec);
    } else {
      transaction.DropTable(family);
    }
    transaction.CreateTable(std::move(creation));
  }
}

// Creates the tables that are missing, and writes only what differs from the elements, chains and
// sets that exist. Returns false if the kernel's rules cannot be compared.
bool TableRewriter::Change(SyncPlan& sync_plan) const {
  std::vector<nft::ChainRepair> repairs;
  nft::Transaction missing;
  for (const Family family : kFamilies) {
    const auto& spec = sync_plan.specs[Index(family)];
    if (!(*contents_)[Index(family)]) {
      missing.CreateTable({.family = family, .spec = spec});
      continue;
    }
    // The plan may have changed affinity timeouts, which have chains of their own, or rules.
    absl::StatusOr<nft::TableContent> reference = found_->references[Index(family)];
    if (found_->timers != timers_.seconds() || found_->rules != ruleset_.rules_in_use) {
      reference = kernel_.ReferenceContent(*spec);
    }
    if (!reference.ok()) return false;
    const nft::TableContent& content = *(*contents_)[Index(family)];
    repairs.push_back(StructureRepair(content, *reference, spec));
    for (const nft::SetSpec& set : spec->sets) {  // Rules that look up a missing set differ.
      if (!content.sets.contains(set.name)) repairs.back().remove_sets.push_back(set.name);
    }
    ReportReplacedChains(content, *spec, sync_plan.replaced_chains);
  }
  ElementChanges difference =
      found_->elements.ChangesTo(sync_plan.plan.transaction(), RangeSets::kReplace);
  nft::Transaction& changes = difference.transaction;
  for (const auto& creation : missing.creations()) changes.CreateTable(creation);
  for (nft::ChainRepair& repair : repairs) {
    for (const nft::SetRef set : difference.replaced) {
      if (set.family == repair.family) ReplaceSet(static_cast<SetIndex>(set.set), repair);
    }
    if (RepairSize(repair) > 0) changes.RepairChains(std::move(repair));
  }
  // The plan does not contain the marker yet, so the found one is deleted.
  if (found_->has_marker && changes.repairs().empty() &&
      changes.element_count() == kFamilies.size() * applied_.marker().timers.size()) {
    sync_plan.has_marker = true;
    changes = {};
  }
  sync_plan.ended_local_sets = found_->elements.EndedLocalSets(sync_plan.plan.transaction());
  sync_plan.gone_ports = found_->elements.StickyPortsNotIn(sync_plan.plan.transaction());
  sync_plan.plan.transaction() = std::move(changes);
  return true;
}

}  // namespace svcmap::proxy
