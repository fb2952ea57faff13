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

}  // namespace

absl::StatusOr<AdoptedState> Reconciler::Adopt(const SavedObjects& saved) {
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
  if (has_table) next_numbers_ = marker.next_numbers;
  const bool has_saved = saved.revision != 0;
  if (!has_marker) {
    marker.generation = saved.revision;
    applied_.ContinueFrom(marker);
    if (has_saved) return AdoptedState::kSaved;
    if (has_table) previous_services_ = CountServicesInTables(kernel_);
    return previous_services_ == 0 ? AdoptedState::kNothing : AdoptedState::kUnknown;
  }
  numbering_.timers.Restore(marker.timers);
  // A killed run may have saved the objects of a commit that did not take place, or may not have
  // saved the objects of its last commit, which then has no Ack.
  const bool current = has_saved && marker.saved && saved.revision + 1 >= marker.generation;
  marker.generation = std::max(marker.generation, saved.revision);
  applied_.ContinueFrom(marker);
  if (current) return AdoptedState::kSaved;
  previous_services_ = CountServicesInTables(kernel_);
  outdated_ = true;
  return AdoptedState::kUnknown;
}

// Continues with the numbers in the tables of the previous run, so that its elements stay.
// `elements` is null if they cannot be read. Does nothing after the first plan of this run.
void Reconciler::TakeNumbers(const FoundElements* elements) {
  const std::optional<NextNumbers> next = std::exchange(next_numbers_, std::nullopt);
  if (!next) return;
  auto found = std::make_shared<FoundPorts>();
  if (elements != nullptr) {
    elements->ForEach([&](const nft::ElementView& element) { found->Add(element); });
  }
  found->Finish();
  for (const NumberPool pool : kNumberPools) {
    for (const Family family : kFamilies) {
      numbering_.numbers.Of(pool, family)
          .Restore(found->numbers()[Index(pool)][Index(family)],
                   (*next)[Index(pool)][Index(family)]);
    }
  }
  numbering_.found = std::move(found);
}

// All Services are written. Numbers of the previous run that none of them uses become free when
// their elements are deleted.
void Reconciler::ForgetFoundPorts() {
  const auto found = std::exchange(numbering_.found, nullptr);
  if (found == nullptr) return;
  absl::flat_hash_set<Number> used;
  for (const auto& [key, rows] : applied_.services()) {
    for (const Number& number : NumbersOf(rows)) used.insert(number);
  }
  std::vector<Number> unused;
  for (const NumberPool pool : kNumberPools) {
    for (const Family family : kFamilies) {
      for (const uint32_t value : found->numbers()[Index(pool)][Index(family)]) {
        const Number number = {pool, family, value};
        if (!used.contains(number)) unused.push_back(number);
      }
    }
  }
  leftovers_.Add({}, unused);
}

}  // namespace svcmap::proxy
