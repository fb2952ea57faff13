// Rewrites of the tables.

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "proxy/diff/chains.h"
#include "proxy/reconcile/planner.h"
#include "proxy/ruleset/descriptor.h"

namespace svcmap::proxy {
namespace {

// A dump takes quadratic time. Larger sets of endpoints are read by key.
constexpr uint64_t kMaxDump = 200000;

bool HasMarker(const std::vector<nft::Element>& elements, const std::vector<Row>& rows) {
  const auto is_found = [&](const Row& row) {
    return std::ranges::any_of(elements, [&](const nft::Element& element) {
      return std::ranges::equal(element.key, row.key.bytes()) &&
             std::ranges::equal(element.data, row.data.bytes());
    });
  };
  return elements.size() == rows.size() && std::ranges::all_of(rows, is_found);
}

}  // namespace

absl::StatusOr<FoundTables> Planner::ReadTables() const {
  FoundTables found;
  for (const Family family : kFamilies) {
    if (absl::Status read = ReadTable(family, found); !read.ok()) return read;
  }
  return found;
}

// Sets of another type are replaced without being read.
absl::Status Planner::ReadTable(Family family, FoundTables& found) const {
  auto read = kernel_.ReadTable(family);
  if (!read.ok()) return read.status();
  const std::optional<nft::TableContent>& content = found.contents[Index(family)] =
      *std::move(read);
  if (!content) {
    found.has_marker = false;
    return absl::OkStatus();
  }
  const nft::TableSpec spec = MakeTable(family, ruleset_, numbering_.timers.seconds());
  absl::StatusOr<nft::TableContent> reference = kernel_.ReferenceContent(spec);
  if (!reference.ok()) return reference.status();
  bool has_endpoints = false;
  for (uint8_t set = 0; set < spec.sets.size(); ++set) {
    const std::string& name = spec.sets[set].name;
    const auto digest = content->sets.find(name);
    const bool readable =
        digest != content->sets.end() && digest->second == reference->sets.at(name);
    if (set == kMarker) found.has_marker &= readable;
    if (!readable || spec.sets[set].dynamic_size != 0) continue;
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
    const absl::Status endpoints = ReadEndpoints(
        family, count != content->elements.end() ? std::optional(count->second) : std::nullopt,
        found.elements);
    if (!endpoints.ok()) return endpoints;
  }
  found.timers = numbering_.timers.seconds();
  found.rules = ruleset_.rules_in_use;
  found.references[Index(family)] = *std::move(reference);
  return absl::OkStatus();
}

// Looks up the slots of all groups that the found descriptors name, if the set is large. Reads the
// complete set if it is small, or if it has more than `count` elements, which no packet reaches.
// Kernels before Linux 6.16 do not report the count.
absl::Status Planner::ReadEndpoints(Family family, std::optional<uint64_t> count,
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

absl::StatusOr<SyncPlan> Planner::MakeRewrite(size_t element_limit, const FoundTables* found) {
  SyncPlan sync_plan;
  TakeNumbers(found);
  AddAllRows(sync_plan, element_limit);
  sync_plan.specs = MakeSpecs(ruleset_, numbering_.timers.seconds());
  if (found != nullptr) {
    absl::Status compared = KeepWhatIsFound(*found, sync_plan);
    if (compared.ok()) return sync_plan;
    Undo(sync_plan);
    return compared;
  }
  for (const auto& spec : sync_plan.specs) {
    sync_plan.plan.transaction().DropTable(spec->family);
    sync_plan.plan.transaction().CreateTable({.family = spec->family, .spec = spec});
  }
  return sync_plan;
}

void Planner::AddAllRows(SyncPlan& sync_plan, size_t element_limit) {
  sync_plan.rewrite = true;
  sync_plan.has_marker = false;  // Unless it is found.
  sync_plan.node_rows = node_.Rows(node_.facts());
  sync_plan.plan.AddRows({}, *sync_plan.node_rows);
  // The first rewrite of a run deletes all elements of Services that it does not contain.
  AddDirty(sync_plan, numbering_.found != nullptr ? SIZE_MAX : element_limit);
  absl::flat_hash_set<std::string_view> changed;
  for (const auto& [key, rows] : sync_plan.services) changed.insert(key);
  for (const auto& [key, rows] : applied_.services()) {
    if (!changed.contains(std::string_view(key))) sync_plan.plan.AddService(key, nullptr, rows);
  }
  sync_plan.plan.Finish();
  ruleset_.rules_in_use = NeededRules(sync_plan.more_resets, sync_plan.plan.counts());
}

// Replaces the rows of the plan, which contains all rows, with the differences from `found`.
absl::Status Planner::KeepWhatIsFound(const FoundTables& found, SyncPlan& sync_plan) const {
  ElementChanges difference = found.elements.ChangesTo(sync_plan.plan.transaction());
  nft::Transaction& changes = difference.transaction;
  for (const Family family : kFamilies) {
    const auto& spec = sync_plan.specs[Index(family)];
    const std::optional<nft::TableContent>& content = found.contents[Index(family)];
    if (!content) {
      changes.CreateTable({.family = family, .spec = spec});
      continue;
    }
    // The plan may have changed affinity timeouts, which have chains of their own, or rules.
    absl::StatusOr<nft::TableContent> reference = found.references[Index(family)];
    if (found.timers != numbering_.timers.seconds() || found.rules != ruleset_.rules_in_use) {
      reference = kernel_.ReferenceContent(*spec);
    }
    if (!reference.ok()) return reference.status();
    nft::ChainRepair repair = StructureRepair(*content, *reference, spec);
    for (const nft::SetRef set : difference.replaced) {
      if (set.family == family) ReplaceSet(static_cast<SetIndex>(set.set), repair);
    }
    if (RepairSize(repair) > 0) changes.RepairChains(std::move(repair));
    for (const std::string& chain : ChainsToReplace(*content, *spec)) {
      sync_plan.replaced_chains.push_back((family == Family::kIpv4 ? "ip " : "ip6 ") + spec->name +
                                          " " + chain);
    }
  }
  // The plan does not contain the marker yet, so the found one is deleted.
  if (found.has_marker && changes.repairs().empty() &&
      changes.element_count() == kFamilies.size() * applied_.marker().timers.size()) {
    sync_plan.has_marker = true;
    changes = {};
  }
  EndedSets sets;
  found.elements.ForEach([&](const nft::ElementView& element) { sets.AddOld(element); });
  if (!sets.empty()) {
    sync_plan.plan.transaction().ForEachElement(
        [&](nft::Verb, const nft::ElementView& element) { sets.AddNew(element); });
  }
  sync_plan.context.ended_sets = std::move(sets).Take();
  sync_plan.plan.transaction() = std::move(changes);
  return absl::OkStatus();
}

// Continues with the numbers in the tables of the previous run, so that its elements stay.
// `tables` is null if they cannot be read. Does nothing after the first plan of this run.
void Planner::TakeNumbers(const FoundTables* tables) {
  const std::optional<NextNumbers> next = std::exchange(previous_, std::nullopt);
  if (!next) return;
  auto found = std::make_shared<FoundPorts>();
  if (tables != nullptr) {
    tables->elements.ForEach([&](const nft::ElementView& element) { found->Add(element); });
  }
  found->Finish();
  for (const Number& number : found->numbers()) {
    numbering_.numbers.Of(number.pool, number.family).Keep(number.value);
  }
  for (const NumberPool pool : kNumberPools) {
    for (const Family family : kFamilies) {
      numbering_.numbers.Of(pool, family).SkipTo((*next)[Index(pool)][Index(family)]);
    }
  }
  numbering_.found = std::move(found);
}

std::vector<Number> Planner::ForgetFoundPorts() {
  const auto found = std::exchange(numbering_.found, nullptr);
  if (found == nullptr) return {};
  absl::flat_hash_set<Number> used;
  for (const auto& [key, rows] : applied_.services()) {
    for (const Number& number : NumbersOf(rows)) used.insert(number);
  }
  std::vector<Number> unused;
  std::ranges::copy_if(found->numbers(), std::back_inserter(unused),
                       [&](const Number& number) { return !used.contains(number); });
  return unused;
}

}  // namespace svcmap::proxy
