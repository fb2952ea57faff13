#include "proxy/diff/rewrite.h"

#include <algorithm>
#include <array>
#include <bitset>

#include "absl/container/flat_hash_set.h"
#include "proxy/diff/plan.h"
#include "proxy/ruleset/table.h"

namespace svcmap::proxy {
namespace {

std::string_view TextOf(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Family, set, kind of bound, length of the key, key, last key.
std::string FoundKey(const nft::ElementView& element) {
  std::string key;
  key += static_cast<char>(element.set.family);
  key += static_cast<char>(element.set.set);
  key += element.interval_end ? 'e' : ' ';
  key += static_cast<char>(element.key.size());
  key += TextOf(element.key);
  key += TextOf(element.key_end);
  return key;
}

nft::ElementView FromFoundKey(std::string_view key) {
  constexpr size_t kHeader = 4;
  const auto* bytes = reinterpret_cast<const uint8_t*>(key.data());
  nft::ElementView element;
  element.set = {static_cast<Family>(key[0]), static_cast<uint8_t>(key[1])};
  element.interval_end = key[2] == 'e';
  const size_t size = bytes[3];
  element.key = {bytes + kHeader, size};
  element.key_end = {bytes + kHeader + size, key.size() - kHeader - size};
  return element;
}

}  // namespace

// Comments are compared as the transaction stores them. Elements of an earlier version can have a
// comment that is no longer needed.
bool FoundElements::Same(const Value& value, const nft::ElementView& element) {
  return value.data == TextOf(element.data) &&
         (element.comment.empty() ||
          value.comment == element.comment.substr(0, nft::Transaction::kMaxComment));
}

void FoundElements::Add(nft::SetRef set, const std::vector<nft::Element>& elements) {
  values_.reserve(values_.size() + elements.size());
  for (const nft::Element& element : elements) {
    values_.emplace(FoundKey({.set = set,
                              .key = element.key,
                              .data = {},
                              .comment = {},
                              .interval_end = element.interval_end,
                              .key_end = element.key_end}),
                    Value{std::string(TextOf(element.data)), element.comment});
  }
}

nft::ElementView FoundElements::ViewOf(const std::string& key, const Value& value) {
  nft::ElementView element = FromFoundKey(key);
  element.data = {reinterpret_cast<const uint8_t*>(value.data.data()), value.data.size()};
  element.comment = value.comment;
  return element;
}

ElementChanges FoundElements::ChangesTo(const nft::Transaction& desired) const {
  ElementChanges changes;
  std::vector<const Value*> found_values;  // Of each desired element. Null if it is missing.
  found_values.reserve(desired.element_count());
  absl::flat_hash_set<const Value*> wanted;
  wanted.reserve(desired.element_count());
  SetCounts found = {}, deleted = {};
  std::array<std::bitset<kRowSetCount>, 2> replace = {};
  for (const auto& [key, value] : values_) {
    const auto [family, set] = FromFoundKey(key).set;
    ++found[Index(family)][set];
  }
  desired.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    const bool none = found[Index(element.set.family)][element.set.set] == 0;
    const auto value = none ? values_.end() : values_.find(FoundKey(element));
    const bool missing = value == values_.end();
    found_values.push_back(missing ? nullptr : &value->second);
    if (!missing) wanted.insert(&value->second);
    if (missing && HasAddressRanges(element.set.set)) {
      replace[Index(element.set.family)].set(element.set.set);
    }
  });
  for (const auto& [key, value] : values_) {
    const auto [family, set] = FromFoundKey(key).set;
    if (wanted.contains(&value)) continue;
    ++deleted[Index(family)][set];
    if (HasAddressRanges(set)) replace[Index(family)].set(set);
  }
  for (const Family family : kFamilies) {
    const size_t index = Index(family);
    for (const SetIndex set : kSourceSets) {
      if (RemovesManySourceRows(deleted[index][set], found[index][set])) replace[index].set(set);
    }
    for (uint8_t set = 0; set < kRowSetCount; ++set) {
      if (replace[index][set]) changes.replaced.push_back({family, set});
    }
  }
  const auto is_replaced = [&](nft::SetRef set) { return replace[Index(set.family)][set.set]; };
  nft::Transaction& deletions = changes.transaction;
  nft::Transaction additions;
  for (const auto& [key, value] : values_) {
    if (wanted.contains(&value)) continue;
    ++changes.count;
    const nft::ElementView element = FromFoundKey(key);
    if (!is_replaced(element.set)) deletions.Delete(element);
  }
  auto next = found_values.begin();
  desired.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    const Value* const value = *next++;
    if (value == nullptr || !Same(*value, element)) ++changes.count;
    if (value == nullptr || is_replaced(element.set)) {
      additions.Add(element);
    } else if (!Same(*value, element)) {
      deletions.Delete(element);
      additions.Add(element);
    }
  });
  deletions.AddElements(std::move(additions));
  return changes;
}

}  // namespace svcmap::proxy
