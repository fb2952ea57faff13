#include "proxy/diff/rewrite.h"

#include <algorithm>

#include "proxy/diff/plan.h"
#include "proxy/diff/removals.h"
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

std::vector<Number> FoundElements::StickyPortsNotIn(const nft::Transaction& desired) const {
  absl::flat_hash_set<Number> wanted;
  desired.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    if (IsStickyEndpoint(element.set.set)) wanted.insert(StickyPortOf(element));
  });
  absl::flat_hash_set<Number> found;
  for (const auto& [key, value] : values_) {
    const nft::ElementView element = FromFoundKey(key);
    if (!IsStickyEndpoint(element.set.set)) continue;
    const Number port = StickyPortOf(element);
    if (!wanted.contains(port)) found.insert(port);
  }
  return {found.begin(), found.end()};
}

absl::flat_hash_set<std::string> FoundElements::EndedLocalSets(
    const nft::Transaction& desired) const {
  absl::flat_hash_set<std::string> local_sets, in_use, ended;
  desired.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    const auto [family, set] = element.set;
    if (set == kLocalSets) local_sets.insert(SharedKey(element.set, element.key));
    if (set != kServiceIps && set != kRangePorts && set != kRangeBlocks) return;
    in_use.insert(SharedKey({family, kLocalSets}, element.data));
  });
  ForEach([&](const nft::ElementView& element) {
    if (element.set.set != kLocalSets) return;
    std::string key = SharedKey(element.set, element.key);
    if (in_use.contains(key) && !local_sets.contains(key)) ended.insert(std::move(key));
  });
  return ended;
}

std::vector<nft::SetRef> FoundElements::SetsToReplace(
    const absl::flat_hash_set<std::string>& wanted) const {
  size_t elements[2][kRowSetCount] = {}, deleted[2][kRowSetCount] = {};
  bool bounds_differ[2][kRowSetCount] = {};
  const auto compare = [&](const std::string& key) {
    const nft::ElementView element = FromFoundKey(key);
    bounds_differ[Index(element.set.family)][element.set.set] |= HasAddressRanges(element.set.set);
  };
  for (const std::string& key : wanted) {
    if (!values_.contains(key)) compare(key);
  }
  for (const auto& [key, value] : values_) {
    const nft::SetRef set = FromFoundKey(key).set;
    ++elements[Index(set.family)][set.set];
    if (wanted.contains(key)) continue;
    compare(key);
    ++deleted[Index(set.family)][set.set];
  }
  std::vector<nft::SetRef> sets;
  for (const Family family : kFamilies) {
    for (uint8_t set = 0; set < kRowSetCount; ++set) {
      const bool many = HasSourceRanges(set) && RemovesManySourceRows(deleted[Index(family)][set],
                                                                      elements[Index(family)][set]);
      if (many || bounds_differ[Index(family)][set]) sets.push_back({family, set});
    }
  }
  return sets;
}

nft::Transaction FoundElements::ChangesTo(const nft::Transaction& desired,
                                          std::vector<nft::SetRef>& replaced) const {
  absl::flat_hash_set<std::string> wanted;
  desired.ForEachElement(
      [&](nft::Verb, const nft::ElementView& element) { wanted.insert(FoundKey(element)); });
  replaced = SetsToReplace(wanted);
  const auto is_replaced = [&](nft::SetRef set) {
    return std::find(replaced.begin(), replaced.end(), set) != replaced.end();
  };
  nft::Transaction deletions, additions;
  for (const auto& [key, value] : values_) {
    const nft::ElementView element = FromFoundKey(key);
    if (!wanted.contains(key) && !is_replaced(element.set)) deletions.Delete(element);
  }
  desired.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    const auto found = values_.find(FoundKey(element));
    if (found == values_.end() || is_replaced(element.set)) {
      additions.Add(element);
    } else if (!Same(found->second, element)) {
      deletions.Delete(element);
      additions.Add(element);
    }
  });
  deletions.AddElements(std::move(additions));
  return deletions;
}

}  // namespace svcmap::proxy
