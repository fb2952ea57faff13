// One set or map of FakeKernel: its elements, and which ones nf_tables takes or refuses.
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
  // Where one range ends and the next one starts, the end comes first.
  struct Key {
    std::string bytes;
    bool start = true;  // False: an interval end.
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Value {
    std::string data;
    std::string comment;
    std::string key_end;  // Of ranges with several fields.
  };
  // What one operation did: `before` was there under `key`, or nothing.
  struct Change {
    Key key;
    std::optional<Value> before;
  };
  struct Outcome {
    int error = 0;                 // An errno.
    std::optional<Change> change;  // Nothing if it failed or if there was nothing to do.
  };

  // `size` 0: no limit.
  FakeSet(const SetSpec& spec, uint32_t size);

  // As a second creation by another batch does: the elements stay, another size counts from now on.
  void Recreate(uint32_t size);

  Outcome Add(const ElementView& element);
  Outcome Delete(const ElementView& element);
  void Undo(const Change& change);

  // In an interval set a key also finds the start of the range that it lies in.
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
  std::vector<size_t> field_sizes_;  // Padded.
  bool interval_;
  bool ranges_;  // An interval set with several fields.
  uint32_t size_;
  Elements elements_;
};

}  // namespace svcmap::nft
