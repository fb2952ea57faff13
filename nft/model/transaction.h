// The content of one batch, in order: table operations (drop, create, repair), then element
// operations. The Transaction class sends nothing to the kernel.
//
// All elements are stored in one contiguous buffer, at about 30 bytes per IPv4 endpoint, so that a
// transaction with a million elements stays small.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nft/model/table.h"
#include "nft/model/table_content.h"

namespace svcmap::nft {

struct SetRef {
  Family family = Family::kIpv4;
  uint8_t set = 0;  // Index in TableSpec::sets.

  friend bool operator==(const SetRef&, const SetRef&) = default;
};

// One element of a set. The spans and the string view do not own their bytes.
struct ElementView {
  SetRef set;
  std::span<const uint8_t> key;
  std::span<const uint8_t> data;  // Data of a map element. Empty for sets.
  std::string_view comment;       // Truncated to 127 bytes when the element is added.
  // True if the key is the first key after a range. Can be true only in interval sets with one
  // field.
  bool interval_end = false;
  // The last key of a range, in interval sets with several fields. `key_end` and `key` have the
  // same length.
  std::span<const uint8_t> key_end = {};
};

enum class Verb : uint8_t { kAdd, kDelete };

// Repairs chains of one table. Other chains, the sets of `spec` and all elements are not modified.
// The batch deletes all rules of the listed chains, then `remove_sets`, then `remove_chains` and
// `remove_objects`. Finally, the batch creates `add_sets` and the missing chains of `rewrite`, and
// adds the rules of `rewrite`.
//
// A base chain that is in both `rewrite` and `remove_chains` is deleted and created again. Without
// the deletion, the kernel rejects the batch if the existing chain has a different hook or
// priority. The kernel also rejects the removal of a chain that other rules still jump to.
struct ChainRepair {
  Family family = Family::kIpv4;
  // If null, the nft::Kernel uses its own table spec.
  std::shared_ptr<const TableSpec> spec;
  std::vector<std::string> rewrite;        // Chains of `spec`, existing or missing.
  std::vector<std::string> remove_chains;  // Existing chains to delete.
  // Existing sets to delete. A set of `spec` is created again, without elements. The rules that
  // look up such a set must be in `rewrite`.
  std::vector<std::string> remove_sets;
  std::vector<std::string> add_sets;  // Missing sets of `spec` to create.
  // Existing objects to delete. The rules and sets that use them must be in the other lists.
  std::vector<ForeignObject> remove_objects;
  bool clear_flags = false;  // True if flags of the table, such as dormant, are deleted.
};

class Transaction {
 public:
  // Maximum length of a comment that nft 1.0.6 can both print and load.
  static constexpr size_t kMaxComment = 127;

  struct TableCreation {
    Family family;
    // Chains and rules of the table. If null, the nft::Kernel uses its own table spec. All specs of
    // a family have the same sets.
    std::shared_ptr<const TableSpec> spec = nullptr;
  };

  // Deletes the table if it exists.
  void DropTable(Family family) { drops_.push_back(family); }
  void CreateTable(TableCreation creation) { creations_.push_back(std::move(creation)); }

  // Adds a repair, which takes effect after drops and creations and before element operations.
  void RepairChains(ChainRepair repair) { repairs_.push_back(std::move(repair)); }

  // The kernel rejects a batch that adds an existing element with different data, or that deletes a
  // missing element.
  void Add(const ElementView& element) { Append(Verb::kAdd, element); }
  void Delete(const ElementView& element) { Append(Verb::kDelete, element); }

  // Appends the elements of `more` to this transaction.
  void AddElements(Transaction more);

  std::span<const Family> drops() const { return drops_; }
  std::span<const TableCreation> creations() const { return creations_; }
  std::span<const ChainRepair> repairs() const { return repairs_; }
  size_t element_count() const { return count_; }
  size_t byte_count() const { return buffer_.size(); }
  size_t deletion_count() const { return deletions_; }
  bool empty() const {
    return drops_.empty() && creations_.empty() && repairs_.empty() && count_ == 0;
  }

  // Calls fn(Verb, const ElementView&) for each element in order.
  template <typename Fn>
  void ForEachElement(Fn&& fn) const {
    for (size_t offset = 0; offset < buffer_.size();) {
      Verb verb;
      ElementView view;
      offset = Parse(offset, verb, view);
      fn(verb, static_cast<const ElementView&>(view));
    }
  }

  // Calls fn(Transaction) for each part of the element operations, in order. A part has at most
  // `max_elements` elements.
  template <typename Fn>
  void ForEachPart(size_t max_elements, Fn&& fn) const {
    Transaction part;
    ForEachElement([&](Verb verb, const ElementView& element) {
      part.Append(verb, element);
      if (part.element_count() == max_elements) fn(std::exchange(part, Transaction()));
    });
    if (!part.empty()) fn(std::move(part));
  }

 private:
  void Append(Verb verb, const ElementView& element);
  size_t Parse(size_t offset, Verb& verb, ElementView& view) const;

  std::vector<Family> drops_;
  std::vector<TableCreation> creations_;
  std::vector<ChainRepair> repairs_;
  std::string buffer_;
  size_t count_ = 0;
  size_t deletions_ = 0;
};

}  // namespace svcmap::nft
