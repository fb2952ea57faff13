// The difference between the applied state and the desired state: a transaction, and the changes to
// the applied state after the commit. Plan does not modify the applied state.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "nft/model/kernel.h"
#include "nft/model/transaction.h"
#include "proxy/desired/groups.h"
#include "proxy/desired/rows.h"
#include "proxy/ruleset/table.h"

namespace svcmap::proxy {

// Approximate maximum number of elements in one commit, for elements that need not change together:
// elements that no packet can reach yet or any more, and repairs that only add elements. If the
// kernel has no preemption, other threads on the CPU wait for the end of a commit: 1 to 3 us for
// each element (decision 0011).
inline constexpr size_t kElementsPerCommit = 300;

// Like kElementsPerCommit, but for the first load of a run. Larger commits are faster, and most
// Services do not work yet.
inline constexpr size_t kElementsOfFirstLoad = 2000;

// If a plan has more than this number of elements, svcmapd adds the elements that no packet can
// reach yet in separate commits, and then commits the remaining elements together.
inline constexpr size_t kMaxElementsTogether = 10000;

using SetCounts = std::array<std::array<int64_t, kRowSetCount>, 2>;  // Counts by family and set.

// Elements that several Services share, with the number of Services per element. The key encodes
// family, set and element.
using SharedCounts = absl::flat_hash_map<std::string, int32_t>;
int32_t CountOf(const SharedCounts& counts, const std::string& key);  // 0 if absent.
std::string SharedKey(nft::SetRef set, std::span<const uint8_t> row_key);
nft::ElementView FromSharedKey(const std::string& key);

// Returns the key of the restriction of all port ranges of an address and protocol. `ports` is an
// element of a map of ranges. Its port has two bytes, and two bytes of padding.
inline std::span<const uint8_t> RangeFirewallKey(const nft::ElementView& ports) {
  return ports.key.first(ports.key.size() - 4);
}

// The elements of the marker set, for svcmapd's next run. The first row contains `saved`,
// `next_numbers` of its family and `generation`. Further rows contain affinity timeouts.
struct Marker {
  uint64_t generation = 0;  // Revision: grows with each commit that has an effect.
  // True if the objects that led to the table's content are saved on disk.
  bool saved = false;
  NextNumbers next_numbers = {};
  // Affinity timeouts by number. The first one is constant and has no row.
  std::vector<uint32_t> timers = {kDefaultAffinitySeconds};

  std::vector<Row> ToRows(Family family) const;
  friend bool operator==(const Marker&, const Marker&) = default;
};
nft::FieldBytes MarkerKey();  // Of the first row.
// The keys of all rows that a marker can have.
std::vector<nft::FieldBytes> MarkerKeys();
// Adds the rows of one family, in the order of MarkerKeys(), to `marker`. Returns false if there is
// no marker.
bool ParseMarker(Family family, const std::vector<std::optional<nft::Element>>& rows,
                 Marker& marker);

// Replaces the rows of the marker that differ. `before` is null if there is no marker.
void ReplaceMarker(const Marker* before, const Marker& after, nft::Transaction& transaction);

// Finds the endpoint sets that end with a commit:
// - Deleted elements of `local-sets` whose descriptors stay in use. Packets to these descriptors
//   have no local endpoint after the commit (S-80).
// - Cluster and local endpoint sets of ports with session affinity. No descriptor leads to these
//   sets after the commit.
class EndedSets {
 public:
  // Returns the key of the endpoint set that the element belongs to.
  static std::string KeyOf(const nft::ElementView& element);

  void AddOld(const nft::ElementView& element) {
    if (HasKey(element.set.set)) old_.insert(KeyOf(element));
  }
  bool empty() const { return old_.empty(); }
  void AddNew(const nft::ElementView& element);  // Call after the last AddOld.
  absl::flat_hash_set<std::string> Take() &&;    // Contains results of KeyOf().

 private:
  static bool HasKey(uint8_t set) { return set == kLocalSets || HasStickyEndpoints(set); }

  absl::flat_hash_set<std::string> old_, in_use_;
};

class Plan {
 public:
  // `shared` contains the applied shared elements, and is empty for a new table.
  explicit Plan(const SharedCounts& shared = kNoCounts) : shared_(&shared) {}

  // Changes one Service from `before` to `after`. `before` is null if the Service has no applied
  // rows. Call AddService once per Service.
  void AddService(const std::string& key, const ServiceRows* before, const ServiceRows& after);

  // Replaces the rows `before` with `after`, which belong to no Service.
  void AddRows(std::vector<Row> before, std::vector<Row> after);

  // Completes the transaction with the shared elements. Call Finish after all methods above.
  void Finish();

  // Upper bound for the number of elements in the transaction. Call before Finish().
  size_t element_bound() const {
    return transaction_.element_count() + additions_.element_count() + shared_changes_.size();
  }
  // All deletions precede all additions, so that a row released by one Service can be used by
  // another Service in the same transaction. Finish() appends the additions.
  nft::Transaction& transaction() { return transaction_; }
  const nft::Transaction& transaction() const { return transaction_; }

  // Changes to the applied state after the commit.
  const SetCounts& counts() const { return counts_; }
  const SharedCounts& shared_changes() const { return shared_changes_; }
  size_t source_rows_added() const { return source_rows_added_; }
  size_t source_rows_removed() const { return source_rows_removed_; }
  const absl::flat_hash_set<std::string>& ended_sets() const { return ended_sets_; }

 private:
  void Add(const nft::ElementView& element);
  void Delete(const nft::ElementView& element);
  void KeepMovedRows();
  void AddSlots(nft::SetRef map, const EndpointSet* before, const EndpointSet* after);

  static inline const SharedCounts kNoCounts;

  const SharedCounts* shared_;
  nft::Transaction transaction_;
  nft::Transaction additions_;  // Additions, appended to the transaction by Finish().
  SetCounts counts_ = {};
  SharedCounts shared_changes_;
  bool deletes_firewall_rows_ = false;
  size_t source_rows_added_ = 0;
  size_t source_rows_removed_ = 0;
  absl::flat_hash_set<std::string> ended_sets_;
};

}  // namespace svcmap::proxy
