// One set or map of FakeKernel. Stores elements and accepts or rejects changes as nf_tables does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "nft/model/kernel.h"
#include "nft/model/table.h"

namespace svcmap::nft {

class FakeSet {
 public:
  // If one range ends where the next range starts, the end element comes first.
  struct Key {
    std::string bytes;
    bool start = true;  // False for the end element of an interval.
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Value {
    std::string data;
    std::string comment;
    std::string key_end;  // Last key of a range with several fields. Otherwise empty.
  };
  // The effect of one operation on the set. `before` is the previous value of `key`, or nullopt if
  // the key did not exist.
  struct Change {
    Key key;
    std::optional<Value> before;
  };
  struct Outcome {
    int error = 0;                 // The errno, or 0 on success.
    std::optional<Change> change;  // Nullopt if the operation failed or changed nothing.
  };

  explicit FakeSet(const SetSpec& spec);

  Outcome Add(const ElementView& element);
  Outcome Delete(const ElementView& element);
  void Undo(const Change& change);

  // Returns the element with this key. In an interval set, returns the start element of the range
  // that contains the key.
  std::optional<Element> Find(std::span<const uint8_t> key) const;
  bool IsKey(std::span<const uint8_t> key) const { return key.size() == key_size_; }
  std::vector<Element> All() const;
  size_t size() const { return elements_.size(); }

 private:
  using Elements = absl::btree_map<Key, Value>;

  int CheckOverlap(const Key& key) const;
  int CheckRanges(const ElementView& element) const;
  Elements::const_iterator RangeOf(std::span<const uint8_t> key) const;
  static Element ToElement(const Elements::value_type& entry);

  size_t key_size_;
  size_t data_size_;
  std::vector<size_t> field_sizes_;  // Size of each key field in bytes, with padding.
  bool interval_;
  bool ranges_;  // True for an interval set with several fields.
  Elements elements_;
};

}  // namespace svcmap::nft
