#include "proxy/reconcile/table_rewriter.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "proxy/diff/chains.h"
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

void ReportReplacedChains(const nft::TableContent& found, const nft::TableSpec& spec,
                          std::vector<std::string>& replaced) {
  for (const std::string& chain : ChainsToReplace(found, spec)) {
    replaced.push_back((spec.family == Family::kIpv4 ? "ip " : "ip6 ") + spec.name + " " + chain);
  }
}

}  // namespace

absl::Status TableRewriter::Read() {
  Forget();
  Found found;
  for (const Family family : kFamilies) {
    if (absl::Status read = ReadElements(family, found); !read.ok()) return read;
  }
  found_ = std::move(found);
  return absl::OkStatus();
}

// Sets of another type are replaced without being read.
absl::Status TableRewriter::ReadElements(Family family, Found& found) const {
  auto read = kernel_.ReadTable(family);
  if (!read.ok()) return read.status();
  const std::optional<nft::TableContent>& content = found.contents[Index(family)] =
      *std::move(read);
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
  found.timers = timers_.seconds();
  found.rules = ruleset_.rules_in_use;
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

void TableRewriter::Replace(SyncPlan& sync_plan) const {
  sync_plan.specs = MakeSpecs(ruleset_, timers_.seconds());
  for (const auto& spec : sync_plan.specs) {
    sync_plan.plan.transaction().DropTable(spec->family);
    sync_plan.plan.transaction().CreateTable({.family = spec->family, .spec = spec});
  }
}

absl::Status TableRewriter::Write(SyncPlan& sync_plan) const {
  sync_plan.specs = MakeSpecs(ruleset_, timers_.seconds());
  std::vector<nft::ChainRepair> repairs;
  nft::Transaction missing;
  for (const Family family : kFamilies) {
    const auto& spec = sync_plan.specs[Index(family)];
    const std::optional<nft::TableContent>& content = found_->contents[Index(family)];
    if (!content) {
      missing.CreateTable({.family = family, .spec = spec});
      continue;
    }
    // The plan may have changed affinity timeouts, which have chains of their own, or rules.
    absl::StatusOr<nft::TableContent> reference = found_->references[Index(family)];
    if (found_->timers != timers_.seconds() || found_->rules != ruleset_.rules_in_use) {
      reference = kernel_.ReferenceContent(*spec);
    }
    if (!reference.ok()) return reference.status();
    repairs.push_back(StructureRepair(*content, *reference, spec));
    ReportReplacedChains(*content, *spec, sync_plan.replaced_chains);
  }
  ElementChanges difference = found_->elements.ChangesTo(sync_plan.plan.transaction());
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
  LocalSets local_sets;
  found_->elements.ForEach([&](const nft::ElementView& element) { local_sets.AddOld(element); });
  if (!local_sets.empty()) {
    sync_plan.plan.transaction().ForEachElement(
        [&](nft::Verb, const nft::ElementView& element) { local_sets.AddNew(element); });
  }
  sync_plan.ended_local_sets = std::move(local_sets).Ended();
  sync_plan.gone_ports = found_->elements.StickyPortsNotIn(sync_plan.plan.transaction());
  sync_plan.plan.transaction() = std::move(changes);
  return absl::OkStatus();
}

}  // namespace svcmap::proxy
