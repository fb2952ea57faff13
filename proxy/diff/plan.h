// The difference between what is applied and what is wanted, as a transaction and as what becomes
// true once the kernel has committed it. Pure; the applied view is only read.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "nft/model/transaction.h"
#include "proxy/desired/rows.h"
#include "proxy/ruleset/table.h"

namespace svcmap::proxy {

using SetCounts = std::array<std::array<int64_t, kSetCount>, 2>;  // By family and set.

// Elements that several Services contribute to, and how many do; the key names family, set and
// element.
using SharedCounts = absl::flat_hash_map<std::string, int32_t>;
std::string SharedKey(nft::SetRef set, std::span<const uint8_t> row_key);
nft::ElementView FromSharedKey(const std::string& key);

// A digest of rows that does not depend on their order: adding and removing one costs the same.
uint64_t RowDigest(const nft::ElementView& element);

// The element in marker: says which state the table holds.
struct Marker {
  uint64_t digest = 0;
  uint64_t generation = 0;

  Row ToRow(Family family) const;
  friend bool operator==(const Marker&, const Marker&) = default;
};
nft::FieldBytes MarkerKey();
bool ParseMarker(const std::vector<uint8_t>& data, Marker& marker);

class Plan {
 public:
  // `shared` counts what is applied; empty for a table that is created anew.
  explicit Plan(const SharedCounts& shared) : shared_(&shared) {}

  // Brings one Service from `before` (null: nothing is applied) to `after`. Once per Service.
  void AddService(const std::string& key, const ServiceRows* before, const ServiceRows& after);

  // Brings address ranges, which no Service contributes to, from `before` to `after`.
  void AddRanges(const std::vector<Row>& before, const std::vector<Row>& after);

  // After the last of the above: adds the elements that Services share, and completes the
  // transaction.
  void Finish();

  // Replaces the marker, in every batch; `before` is null where there is none.
  void AddMarker(const Marker* before, const Marker& after);

  // Before Finish(): how many elements the transaction will have at most.
  size_t element_bound() const {
    return transaction_.element_count() + additions_.element_count() + shared_changes_.size();
  }
  // All deletions come before all additions: what one Service gives up another may take in the same
  // transaction. Nothing is added before Finish().
  nft::Transaction& transaction() { return transaction_; }
  const nft::Transaction& transaction() const { return transaction_; }

  // What committing changes.
  const SetCounts& counts() const { return counts_; }
  const SharedCounts& shared_changes() const { return shared_changes_; }
  uint64_t digest_change() const { return digest_; }
  size_t source_rows_removed() const { return source_rows_removed_; }

 private:
  void Add(const nft::ElementView& element);
  void Delete(const nft::ElementView& element);
  void Count(const nft::ElementView& element, int64_t change, uint64_t digest);
  void AddRows(std::vector<Row> before, std::vector<Row> after);
  void AddSlots(Family family, const EndpointSet* before, const EndpointSet* after);
  void CountShared(const ServiceRows& service, int32_t change);

  const SharedCounts* shared_;
  nft::Transaction transaction_;
  nft::Transaction additions_;  // Until Finish().
  SetCounts counts_ = {};
  SharedCounts shared_changes_;
  uint64_t digest_ = 0;
  size_t source_rows_removed_ = 0;
};

}  // namespace svcmap::proxy
