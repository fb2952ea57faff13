// Takes over the tables and the saved objects of the previous run.
#include <algorithm>
#include <thread>

#include "absl/container/flat_hash_set.h"
#include "proxy/reconcile/reconciler.h"

namespace svcmap::proxy {
namespace {

// Reads a set, and retries while commits of other processes interrupt the dump. May block, because
// svcmapd has nothing else to do at start.
absl::StatusOr<std::vector<nft::Element>> ReadUndisturbed(nft::Kernel& kernel, nft::SetRef set) {
  constexpr int kAttempts = 100;
  absl::StatusOr<std::vector<nft::Element>> elements;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    elements = kernel.ReadSet(set);
    if (!absl::IsUnavailable(elements.status())) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(attempt, 20)));
  }
  return elements;
}

// Tables of another version may have other sets. Then the result is 0.
size_t CountServicesInTables(nft::Kernel& kernel) {
  absl::flat_hash_set<std::string> services;
  for (const Family family : kFamilies) {
    const absl::StatusOr<std::vector<nft::Element>> elements =
        ReadUndisturbed(kernel, {family, kServiceIps});
    if (!elements.ok()) continue;
    for (const nft::Element& element : *elements) {
      services.insert(element.comment.substr(0, element.comment.rfind(':')));
    }
  }
  return services.size();
}

// Returns what the run has received if the saved objects match the tables.
Received ReceivedFrom(const SavedObjects& saved) {
  if (!saved.partial) return Received::kStored;
  // Without objects, the previous run has only created empty tables.
  return saved.objects.empty() ? Received::kNothing : Received::kPartial;
}

}  // namespace

absl::StatusOr<Received> Reconciler::Adopt(const SavedObjects& saved) {
  Marker marker;
  bool has_marker = false, has_table = false;
  for (const Family family : kFamilies) {
    const absl::StatusOr<bool> there = kernel_.HasTable(family);
    if (!there.ok()) return there.status();
    has_table |= *there;
    const auto rows = kernel_.ReadElements({family, kMarker}, MarkerKeys());
    if (!rows.ok()) return rows.status();
    has_marker |= ParseMarker(family, *rows, marker);
  }
  if (has_table) planner_.ContinueFrom(marker.next_numbers);
  const bool has_saved = saved.revision != 0;
  if (!has_marker) {
    marker.generation = saved.revision;
    applied_.ContinueFrom(marker);
    if (has_saved) return ReceivedFrom(saved);
    if (has_table) previous_services_ = CountServicesInTables(kernel_);
    return previous_services_ == 0 ? Received::kNothing : Received::kPreviousRules;
  }
  planner_.numbering().timers.Restore(marker.timers);
  // A killed run may have saved the objects of a commit that did not take place, or may not have
  // saved the objects of its last commit, which then has no Ack.
  const bool current = has_saved && marker.saved && saved.revision + 1 >= marker.generation;
  marker.generation = std::max(marker.generation, saved.revision);
  applied_.ContinueFrom(marker);
  if (current) return ReceivedFrom(saved);
  previous_services_ = CountServicesInTables(kernel_);
  outdated_ = true;
  return Received::kPreviousRules;
}

}  // namespace svcmap::proxy
