#include "proxy/reconcile/reconciler.h"

#include <algorithm>
#include <bit>

#include "nft/base/status.h"
#include "proxy/desired/service.h"
#include "proxy/desired/service_cidrs.h"
#include "proxy/explain/kernel_check.h"

namespace svcmap::proxy {
namespace {

// A sized map costs 8 bytes for each of its slots at once, so it starts small. It grows to at least
// four times what is needed: each growth writes everything again.
constexpr uint32_t kInitialSize = 1024;
constexpr uint64_t kGrowth = 4;

nft::SetRef MarkerSet(Family family) { return {family, kMarker}; }

}  // namespace

struct Reconciler::Draft {
  explicit Draft(const SharedCounts& shared) : plan(shared) {}

  Plan plan;
  bool recreate = false;
  std::vector<Store::Dirty> taken;
  Applied::ServiceChanges services;
  std::vector<uint32_t> new_groups;
  std::vector<uint32_t> old_groups;
  std::vector<Row> node_rows;
  std::vector<std::pair<uint64_t, Finding>> findings;
};

Reconciler::Reconciler(nft::Kernel& kernel, ReconcilerOptions options)
    : kernel_(kernel), options_(std::move(options)) {}

void Reconciler::SetInterfaceAddresses(std::vector<IpAddress> addresses) {
  interfaces_ = std::move(addresses);
  node_changed_ = true;
}

bool Reconciler::Pending() const {
  return recreate_ || store_.dirty_count() > 0 || node_changed_ ||
         node_version_ != store_.node_version();
}

absl::StatusOr<bool> Reconciler::Adopt() {
  bool found = false;
  Marker newest = applied_.marker();
  for (const Family family : kFamilies) {
    const auto element = kernel_.ReadElement(MarkerSet(family), MarkerKey().bytes());
    if (!element.ok()) return element.status();
    Marker marker;
    if (!*element || !ParseMarker((*element)->data, marker)) continue;
    found = true;
    if (marker.generation > newest.generation) newest = marker;
  }
  applied_.Advance(Plan(applied_.shared()), true, {}, {}, newest);
  return found;
}

std::vector<Row> Reconciler::ServiceCidrs() const {
  std::vector<IpPrefix> prefixes;
  for (const auto& [name, cidr] : store_.service_cidrs()) {
    prefixes.insert(prefixes.end(), cidr->cidrs.begin(), cidr->cidrs.end());
  }
  return ServiceCidrRows(prefixes);
}

// When the addresses change on which nodePorts are accepted, all Services with one are written
// again: the one change that costs more than itself, and it is rare.
void Reconciler::FollowNode() {
  if (!node_changed_ && node_version_ == store_.node_version()) return;
  const auto node = store_.nodes().find(options_.node_name);
  std::vector<IpAddress> accepted = AcceptedNodePortAddresses(
      options_.node_port_addresses, node == store_.nodes().end() ? nullptr : node->second.get(),
      interfaces_);
  if (accepted == node_port_addresses_) return;
  node_port_addresses_ = std::move(accepted);
  store_.MarkNodePortServicesDirty();
}

void Reconciler::AddDirty(Draft& draft, size_t element_limit) {
  const DesiredContext context{store_.claims(), node_port_addresses_, place_};
  // What one Service gives up must not be taken by another one before.
  if (store_.addresses_moved()) element_limit = SIZE_MAX;
  while (store_.FirstDirty() != nullptr && draft.plan.element_bound() < element_limit) {
    Store::Dirty dirty = store_.TakeDirty();
    const ServiceRows* before = applied_.Find(dirty.key);
    DesiredService desired = MakeDesiredService(store_.Find(dirty.key), context, before, groups_);
    draft.plan.AddService(dirty.key, draft.recreate ? nullptr : before, desired.rows);
    for (auto [from, to] : {std::pair{&desired.new_groups, &draft.new_groups},
                            std::pair{&desired.old_groups, &draft.old_groups}}) {
      to->insert(to->end(), from->begin(), from->end());
    }
    for (Finding& finding : desired.findings) {
      draft.findings.emplace_back(dirty.sequence, std::move(finding));
    }
    draft.services.emplace_back(dirty.key, std::move(desired.rows));
    draft.taken.push_back(std::move(dirty));
  }
}

Reconciler::Draft Reconciler::MakeDraft(size_t element_limit) {
  Draft draft(applied_.shared());
  draft.node_rows = applied_.node_rows();
  if (node_version_ != store_.node_version()) {
    draft.node_rows = ServiceCidrs();
    draft.plan.AddRanges(applied_.node_rows(), draft.node_rows);
  }
  AddDirty(draft, element_limit);
  draft.plan.Finish();
  return draft;
}

Reconciler::Draft Reconciler::MakeRecreation(size_t element_limit) {
  static const SharedCounts kNone;
  Draft draft(kNone);
  draft.recreate = true;
  draft.node_rows = ServiceCidrs();
  draft.plan.AddRanges({}, draft.node_rows);
  AddDirty(draft, element_limit);
  absl::flat_hash_set<std::string_view> changed;
  for (const auto& [key, rows] : draft.services) changed.insert(key);
  for (const auto& [key, rows] : applied_.services()) {
    if (!changed.contains(std::string_view(key))) draft.plan.AddService(key, nullptr, rows);
  }
  draft.plan.Finish();
  nft::Transaction& transaction = draft.plan.transaction();
  const SetCounts counts = Expected(draft.plan.counts());
  for (const Family family : kFamilies) {
    transaction.DropTable(family);
    transaction.CreateTable({family, SizesFor(counts[Index(family)])});
  }
  return draft;
}

// What is left to program will follow at once: the maps are made for it, too.
SetCounts Reconciler::Expected(SetCounts counts) const {
  store_.ForEachDirty([&](const Store::Dirty& dirty) {
    const ServiceEntry* entry = store_.Find(dirty.key);
    if (entry == nullptr || !entry->service) return;
    const auto ports = static_cast<int64_t>(entry->service->ports.size());
    for (const auto& slice : entry->slices) {
      counts[Index(slice->family)][kEndpoints] +=
          ports * static_cast<int64_t>(slice->endpoints.size());
    }
    for (const ClaimKey& claim : ClaimsOf(*entry->service)) {
      ++counts[Index(claim.address.family())][kServiceIps];
    }
  });
  return counts;
}

std::vector<uint32_t> Reconciler::SizesFor(const std::array<int64_t, kSetCount>& counts) {
  std::vector<uint32_t> sizes(kSetCount);
  for (size_t set = 0; set < kSetCount; ++set) {
    const auto needed = static_cast<uint64_t>(counts[set]);
    sizes[set] = std::max(kInitialSize, static_cast<uint32_t>(std::bit_ceil(needed * kGrowth)));
  }
  return sizes;
}

bool Reconciler::Fits(const Draft& draft) const {
  for (const Family family : kFamilies) {
    for (const SetIndex set : {kServiceIps, kEndpoints}) {
      const size_t index = Index(family);
      const int64_t after = applied_.counts()[index][set] + draft.plan.counts()[index][set];
      if (after > static_cast<int64_t>(sizes_[index][set])) return false;
    }
  }
  return true;
}

void Reconciler::Undo(Draft& draft) {
  groups_.Release(draft.new_groups);
  store_.ReturnDirty(std::move(draft.taken));
}

SyncResult Reconciler::Sync(size_t element_limit) {
  SyncResult result;
  FollowNode();
  Draft draft = recreate_ ? MakeRecreation(element_limit) : MakeDraft(element_limit);
  if (!draft.recreate && !Fits(draft)) {
    Undo(draft);
    draft = MakeRecreation(element_limit);
  }
  const uint64_t node_version = store_.node_version();
  const bool empty = draft.plan.transaction().empty();
  Marker marker = applied_.marker();
  if (!empty) {
    marker.digest = (draft.recreate ? 0 : marker.digest) + draft.plan.digest_change();
    ++marker.generation;
    draft.plan.AddMarker(draft.recreate ? nullptr : &applied_.marker(), marker);

    const auto start = std::chrono::steady_clock::now();
    const nft::ApplyResult applied = kernel_.Apply(draft.plan.transaction());
    result.duration = std::chrono::steady_clock::now() - start;
    result.error = Settle(applied, marker);
    if (!result.error.ok()) {
      Undo(draft);
      result.outcome = SyncResult::Outcome::kFailed;
      return result;
    }
    result.outcome = SyncResult::Outcome::kCommitted;
    result.elements = draft.plan.transaction().element_count();
    result.recreated = draft.recreate;
  }
  if (draft.recreate) {
    for (const auto& creation : draft.plan.transaction().creations()) {
      sizes_[Index(creation.family)] = creation.sizes;
    }
    recreate_ = false;
  }
  applied_.Advance(draft.plan, draft.recreate, std::move(draft.services),
                   std::move(draft.node_rows), marker);
  groups_.Release(draft.old_groups);
  node_changed_ = false;
  node_version_ = node_version;
  result.findings = std::move(draft.findings);
  return result;
}

// OK if the kernel holds what was attempted. Where the marker cannot tell, or the kernel is not
// what we thought, everything is written again next time.
absl::Status Reconciler::Settle(const nft::ApplyResult& result, const Marker& attempted) {
  switch (result.outcome) {
    case nft::ApplyOutcome::kCommitted:
      return absl::OkStatus();
    case nft::ApplyOutcome::kRejected:
      // The element was there, or was not: the tables are not what we applied.
      if (absl::IsNotFound(result.error) || absl::IsAlreadyExists(result.error) ||
          absl::IsUnavailable(result.error) || absl::IsInvalidArgument(result.error)) {
        recreate_ = true;
      }
      return result.error;
    case nft::ApplyOutcome::kUnknown:
      break;
  }
  for (const Family family : kFamilies) {
    const auto element = kernel_.ReadElement(MarkerSet(family), MarkerKey().bytes());
    Marker marker;
    const bool known = element.ok() && *element && ParseMarker((*element)->data, marker);
    if (known && marker == attempted) continue;
    if (!known || marker != applied_.marker()) recreate_ = true;
    return Annotate(result.error, known ? "not committed" : "not known to be committed");
  }
  return absl::OkStatus();
}

nft::Transaction Reconciler::AppliedRows() const {
  static const SharedCounts kNone;
  Plan plan(kNone);
  plan.AddRanges({}, applied_.node_rows());
  for (const auto& [key, rows] : applied_.services()) plan.AddService(key, nullptr, rows);
  plan.Finish();
  return std::move(plan.transaction());
}

nft::Transaction Reconciler::DesiredRows() {
  FollowNode();
  static const SharedCounts kNone;
  Plan plan(kNone);
  plan.AddRanges({}, ServiceCidrs());
  const DesiredContext context{store_.claims(), node_port_addresses_, place_};
  GroupAllocator groups = groups_;  // The numbers are taken when the rows are written.
  store_.ForEachService([&](const std::string& key, const ServiceEntry& entry) {
    DesiredService desired = MakeDesiredService(&entry, context, applied_.Find(key), groups);
    plan.AddService(key, nullptr, desired.rows);
  });
  plan.Finish();
  return std::move(plan.transaction());
}

nft::Transaction Reconciler::PendingRows() {
  FollowNode();
  const GroupAllocator groups = groups_;
  Draft draft = recreate_ ? MakeRecreation(SIZE_MAX) : MakeDraft(SIZE_MAX);
  nft::Transaction rows = std::move(draft.plan.transaction());
  Undo(draft);
  groups_ = groups;
  return rows;
}

ExplainContext Reconciler::ContextForExplain(const SourceRules& sources) {
  FollowNode();
  ExplainContext context{store_, sources, place_, node_port_addresses_, interfaces_};
  const auto node = store_.nodes().find(options_.node_name);
  if (node == store_.nodes().end()) return context;
  for (const IpAddress& address : node->second->addresses) {
    std::optional<IpAddress>& own = context.node_ip[Index(address.family())];
    if (!own) own = address;
  }
  return context;
}

absl::StatusOr<std::vector<std::string>> Reconciler::Disagreements(const nft::TableSpecs& tables,
                                                                   const Question& question,
                                                                   const Explained& explained) {
  static const SharedCounts kNone;
  Plan plan(kNone);
  ServiceRows rows;
  if (!explained.service_key.empty()) {
    const std::string& key = explained.service_key;
    const DesiredContext context{store_.claims(), node_port_addresses_, place_};
    GroupAllocator groups = groups_;  // The numbers are taken when the rows are written.
    rows = MakeDesiredService(store_.Find(key), context, applied_.Find(key), groups).rows;
    std::erase_if(rows.ports, [&](const PortRows& port) {
      return port.family != question.destination.family() ||
             port.protocol != explained.port.protocol || port.port != explained.port.port;
    });
  }
  // The address may be the clusterIP of another Service than the one that has the port.
  rows.cluster_ips.clear();
  if (explained.cluster_ip) rows.cluster_ips = {question.destination};
  plan.AddService(explained.service_key, nullptr, rows);
  plan.Finish();
  return KernelDifferences(kernel_, tables, plan.transaction(),
                           DecidingRows(question.destination, question.protocol, question.port));
}

}  // namespace svcmap::proxy
