// Takes over the tables and the saved state of the previous run.
#include <algorithm>
#include <iterator>
#include <thread>

#include "absl/container/flat_hash_set.h"
#include "proxy/diff/removals.h"
#include "proxy/reconcile/reconciler.h"

namespace svcmap::proxy {
namespace {

std::vector<uint32_t>& ListOf(const Number& number, NumberLists& lists) {
  return lists[static_cast<size_t>(number.pool)][Index(number.family)];
}

bool BothAre(const Marker& marker, const std::array<std::optional<Marker>, 2>& markers) {
  return markers[0] == marker && markers[1] == marker;
}

// Returns the rows that the attempt replaced, for each Service that it changed.
std::vector<std::pair<std::string, ServiceRows>> ReplacedBy(
    const SavedState::Attempt& attempt,
    const std::vector<std::pair<std::string, ServiceRows>>& before) {
  absl::flat_hash_set<std::string_view> changed;
  for (const auto& [key, rows] : attempt.services) changed.insert(key);
  std::vector<std::pair<std::string, ServiceRows>> replaced;
  for (const auto& service : before) {
    if (!attempt.whole && changed.contains(service.first)) replaced.push_back(service);
  }
  return replaced;
}

nft::Transaction AllRows(const std::string& key, const ServiceRows& rows) {
  nft::Transaction transaction;
  ForEachOwnRow(key, rows, [&](const Row& row) { transaction.Add(row.view()); });
  for (const Row& row : SharedRows(rows)) transaction.Add(row.view());
  return transaction;
}

// Adds the numbers of all rows to `numbers`. Returns the numbers that only leftovers use.
std::vector<Number> CollectNumbers(
    const std::vector<std::pair<std::string, ServiceRows>>& services,
    const std::vector<std::pair<std::string, ServiceRows>>& left_over, NumberLists& numbers) {
  std::vector<Number> unused;
  absl::flat_hash_set<Number> used;
  for (const auto& [key, rows] : services) {
    for (const Number& number : NumbersOf(rows)) {
      ListOf(number, numbers).push_back(number.value);
      if (!left_over.empty()) used.insert(number);
    }
  }
  for (const auto& [key, rows] : left_over) {
    for (const Number& number : NumbersOf(rows)) {
      if (!used.insert(number).second) continue;
      ListOf(number, numbers).push_back(number.value);
      unused.push_back(number);
    }
  }
  return unused;
}

// Returns true if an address in the rows of the Service `key` belongs to another Service. An
// address and port of a Service take precedence over nodePorts (S-94), and nodePorts over ranges.
bool HasMovedAddress(const std::string& key, const ServiceRows& rows, const Claims& claims) {
  for (const PortRows& port : rows.ports) {
    for (const ReachedAt& at : port.addresses) {
      const Service* owner = nullptr;
      if (!port.is_range()) {
        owner = claims.Owner({at.address, port.protocol, at.port});
        if (owner == nullptr)
          owner = claims.Owner(NodePortClaim(port.family, port.protocol, at.port));
      }
      if (owner == nullptr) owner = claims.Owner(PortRangesClaim(at.address, port.protocol));
      if (owner != nullptr && owner->key != key) return true;
    }
  }
  return false;
}

}  // namespace

// The last attempt of the previous run.
struct Reconciler::PreviousAttempt {
  // Rows that an attempt replaces, or that were possibly added ahead of an attempt that was not
  // committed.
  SavedRows left_over;
  bool rewritten = false;  // A rewrite was committed.
};

// By Index(Family). Absent if the table or its marker does not exist.
absl::StatusOr<Reconciler::Markers> Reconciler::ReadMarkers() {
  Markers markers;
  for (const Family family : kFamilies) {
    const auto element = kernel_.ReadElement({family, kMarker}, MarkerKey().bytes());
    if (!element.ok()) return element.status();
    Marker marker;
    if (*element && ParseMarker((*element)->data, marker)) markers[Index(family)] = marker;
  }
  return markers;
}

absl::StatusOr<AdoptedState> Reconciler::Adopt(SavedState& saved) {
  const absl::StatusOr<Markers> markers = ReadMarkers();
  if (!markers.ok()) return markers.status();
  const PreviousAttempt attempt = ResolveAttempt(*markers, saved);
  if (!saved.marker || !BothAre(*saved.marker, *markers)) return AdoptUnknown(*markers, saved);
  const std::optional<uint32_t> saved_generation = saved.generation;
  const uint64_t ruleset = saved.tables.ruleset;
  if (!Restore(saved, attempt.left_over)) return AdoptUnknown(*markers, saved);
  // The previous run may have ended before it deleted the leftovers of its last commit. After a
  // rewrite, any element may be left over, so the tables are compared completely.
  tables_ = TableState::kDiffering;
  if (attempt.rewritten) return AdoptedState::kSaved;
  const absl::StatusOr<AdoptedState> adopted = Verify(saved_generation, ruleset);
  for (const auto& [key, rows] : attempt.left_over) repairer_.MarkRowsSuspect(AllRows(key, rows));
  // The log describes only the last attempt, so this happens before the first attempt of this run.
  RepairSuspectRows();
  return adopted;
}

Reconciler::PreviousAttempt Reconciler::ResolveAttempt(const Markers& markers, SavedState& saved) {
  PreviousAttempt previous;
  if (!saved.attempt) return previous;
  const bool committed = BothAre(saved.attempt->marker, markers);
  previous.rewritten = committed && saved.attempt->whole;
  previous.left_over = ReplacedBy(*saved.attempt, saved.services);
  // Commits ahead of the attempt may have added new rows.
  if (!committed && !saved.attempt->whole) {
    std::ranges::copy(saved.attempt->services, std::back_inserter(previous.left_over));
  }
  Resolve(saved, committed);
  for (auto& [key, rows] : previous.left_over) {
    DropRowsOfOptions(RowSetCount(options_.ruleset), rows);
  }
  // The rows that the attempt may have left are not checked yet.
  journal_.AdoptAttempt(committed);
  return previous;
}

// The saved rows do not belong to the tables in the kernel.
absl::StatusOr<AdoptedState> Reconciler::AdoptUnknown(const Markers& markers, SavedState& saved) {
  tables_ = TableState::kUnknown;
  const std::optional<Marker> saved_marker = saved.marker;
  Marker newest = applied_.marker();
  bool found = false;
  // True if the markers match, but the saved rows do not match the markers.
  bool newer = BothAre(saved_marker.value_or(Marker()), markers);
  for (const std::optional<Marker>& marker : markers) {
    if (!marker) continue;
    found = true;
    if (marker->generation > newest.generation) newest = *marker;
    newer |=
        marker != saved_marker && marker->generation >= saved_marker.value_or(Marker()).generation;
  }
  // Another process has deleted at least one table, or restored tables that are older than the
  // saved state.
  if (saved_marker && !newer) {
    if (!Restore(saved, {}))
      applied_.Advance(Plan(applied_.shared()), true, {}, std::vector<Row>(), *saved_marker);
    // The saved numbers keep clients' affinity records valid.
    bool exist = true;
    for (const Family family : kFamilies) {
      const absl::StatusOr<bool> there = kernel_.HasTable(family);
      if (!there.ok()) return there.status();
      exist &= *there;
    }
    if (exist) tables_ = TableState::kDiffering;
    return AdoptedState::kSaved;
  }
  journal_.Outdate(saved.objects);
  applied_.Advance(Plan(applied_.shared()), true, {}, std::vector<Row>(), newest);
  if (!found) return AdoptedState::kNothing;
  previous_services_ = CountServicesInTables();
  const absl::Status status = AdoptAffinity();
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  // kNotFound: a version without session affinity created the tables.
  if (status.ok()) tables_ = TableState::kDiffering;
  return AdoptedState::kUnknown;
}

void Reconciler::FindMovedAddresses() {
  const bool moved = std::ranges::any_of(applied_.services(), [this](const auto& service) {
    return HasMovedAddress(service.first, service.second, store_.claims());
  });
  if (moved) store_.NoteMovedAddresses();
}

// Trusts the saved rows if nf_tables has not changed since.
absl::StatusOr<AdoptedState> Reconciler::Verify(std::optional<uint32_t> saved_generation,
                                                uint64_t saved_ruleset) {
  if (saved_ruleset != RulesetDigest(ruleset_)) return AdoptedState::kUpgrade;
  tables_ = TableState::kCurrent;
  const absl::StatusOr<uint32_t> generation = kernel_.Generation();
  if (!generation.ok()) return generation.status();
  if (saved_generation == *generation) {
    journal_.SetGeneration(*generation);
    return AdoptedState::kTrusted;
  }
  repairer_.MarkAllSuspect();
  return AdoptedState::kToVerify;
}

// Reads a set, and retries while commits of other processes interrupt the dump. May block, because
// svcmapd has nothing else to do at start.
absl::StatusOr<std::vector<nft::Element>> Reconciler::ReadUndisturbed(nft::SetRef set) {
  constexpr int kAttempts = 100;
  absl::StatusOr<std::vector<nft::Element>> elements;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    elements = kernel_.ReadSet(set);
    if (!absl::IsUnavailable(elements.status())) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(attempt, 20)));
  }
  return elements;
}

// Tables of another version may have other sets. Then the result is 0.
size_t Reconciler::CountServicesInTables() {
  absl::flat_hash_set<std::string> services;
  for (const Family family : kFamilies) {
    const absl::StatusOr<std::vector<nft::Element>> elements =
        ReadUndisturbed({family, kServiceIps});
    if (!elements.ok()) continue;
    for (const nft::Element& element : *elements) {
      services.insert(element.comment.substr(0, element.comment.rfind(':')));
    }
  }
  return services.size();
}

// Remembers the numbers that clients' affinity records use.
absl::Status Reconciler::AdoptAffinity() {
  for (const Family family : kFamilies) {
    for (uint8_t set = 0; set < RowSetCount(options_.ruleset); ++set) {
      if (!IsStickyEndpoint(set)) continue;
      const absl::StatusOr<std::vector<nft::Element>> elements = ReadUndisturbed({family, set});
      // The previous run may have had other options.
      if (absl::IsNotFound(elements.status()) && set >= kSetCount) continue;
      if (!elements.ok()) return elements.status();
      numbering_.memory.Remember(family, *elements, numbering_.numbers);
    }
  }
  return absl::OkStatus();
}

// Returns false if the marker in the kernel does not belong to the saved rows. `left_over` are rows
// that may be in the kernel, in addition to the saved rows.
bool Reconciler::Restore(SavedState& saved, const SavedRows& left_over) {
  const std::vector<uint32_t> timers = saved.tables.timers;
  NumberLists numbers;
  const std::vector<Number> replaced = CollectNumbers(saved.services, left_over, numbers);
  if (!applied_.Restore(std::move(saved.services), std::move(saved.node_rows), *saved.marker)) {
    return false;
  }
  applied_.ForgetOptions(RowSetCount(options_.ruleset));
  // Elements of the previous run may still use these numbers. A client's affinity record would lead
  // to the endpoint of another Service.
  leftovers_.Add({}, replaced);
  leftovers_.Add({}, RestoreNumbers(numbers, saved.next_numbers));
  numbering_.timers.Restore(timers);
  planner_.RulesRestored();
  // The rows of the node also depend on the options of this run.
  node_.CompareRows();
  repairer_.TablesWritten(MakeSpecs(ruleset_, numbering_.timers.seconds()));
  // Mark all Services as dirty, so that Services without an object are deleted from the kernel.
  for (const auto& [key, rows] : applied_.services()) store_.MarkDirty(key, 0);
  return true;
}

// Returns the numbers that are not in use. `next`: numbers below were allocated at some time, and
// the log names only the leftovers of the last attempt.
std::vector<Number> Reconciler::RestoreNumbers(NumberLists& numbers, const NextNumbers& next) {
  std::vector<Number> unused;
  for (const NumberPool pool : kNumberPools) {
    for (const Family family : kFamilies) {
      std::vector<uint32_t>& values = ListOf({pool, family, 0}, numbers);
      std::sort(values.begin(), values.end());
      const uint32_t below = next[static_cast<size_t>(pool)][Index(family)];
      for (const uint32_t value : numbering_.numbers.Of(pool, family).Restore(values, below)) {
        unused.push_back({pool, family, value});
      }
    }
  }
  return unused;
}

}  // namespace svcmap::proxy
