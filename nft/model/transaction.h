// What one batch does, in order: tables first (drop, create, repair), then elements. Nothing is
// sent here.
//
// Elements lie one behind another in one buffer, about 30 bytes for an IPv4 endpoint, so that a
// transaction of a million elements stays small.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nft/model/table.h"

namespace svcmap::nft {

struct SetRef {
  Family family = Family::kIpv4;
  uint8_t set = 0;  // Position in TableSpec::sets.

  friend bool operator==(const SetRef&, const SetRef&) = default;
};

// One element as it stands in a set. The spans point into their owner.
struct ElementView {
  SetRef set;
  std::span<const uint8_t> key;
  std::span<const uint8_t> data;  // Empty for sets.
  std::string_view comment;       // Of an addition the first 127 bytes count.
  bool interval_end = false;      // The first key after a range, in sets with a single field.
  // The last key of a range, in interval sets with several fields; as long as `key`.
  std::span<const uint8_t> key_end = {};
};

enum class Verb : uint8_t { kAdd, kDelete };

// Chains of one table put right, while its sets, all elements and its other chains stay as they
// are: all rules of all chains named here go, then `remove_sets`, then `remove_chains`; the chains
// of `rewrite` that are missing are made, and their rules added.
//
// A base chain that is there with another hook or priority makes the kernel reject the batch,
// unless it stands in both lists: then it is deleted and made anew. A chain that other rules still
// lead to cannot be removed. A missing set that a rule needs is no case for this: only a new table
// helps.
struct ChainRepair {
  Family family = Family::kIpv4;
  std::shared_ptr<const TableSpec> spec;   // Null: the one that the kernel was opened with.
  std::vector<std::string> rewrite;        // Chains of `spec`, there or not.
  std::vector<std::string> remove_chains;  // Must be there.
  std::vector<std::string> remove_sets;    // Must be there; none of `spec`.
};

class Transaction {
 public:
  // The longest comment that nft 1.0.6 prints and loads again.
  static constexpr size_t kMaxComment = 127;

  struct TableCreation {
    Family family;
    std::vector<uint32_t> sizes;  // By position of the set; ignored where a set is not sized.
    // Its chains and rules; null: those the kernel was opened with. The sets are always the same.
    std::shared_ptr<const TableSpec> spec;
    // The table is there, with our sets: they and all rules are replaced, and only dynamic sets
    // keep their elements.
    bool in_place = false;
  };

  // Drops the table if it is there; its absence is no error.
  void DropTable(Family family) { drops_.push_back(family); }
  void CreateTable(TableCreation creation) { creations_.push_back(std::move(creation)); }

  // After drops and creations, before elements.
  void RepairChains(ChainRepair repair) { repairs_.push_back(std::move(repair)); }

  // An element that is already there with other data makes the kernel reject the batch, so does
  // deleting one that is not there.
  void Add(const ElementView& element) { Append(Verb::kAdd, element); }
  void Delete(const ElementView& element) { Append(Verb::kDelete, element); }

  // The elements of `more` behind ours.
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
