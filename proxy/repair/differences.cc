#include "proxy/repair/differences.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace svcmap::proxy {
namespace {

nft::ElementView View(nft::SetRef set, const nft::Element& element) {
  return {set, element.key, element.data, element.comment, element.interval_end, element.key_end};
}

// Elements of an earlier version can have a comment that is no longer needed.
bool IsAsExpected(const nft::ElementView& expected, const nft::ElementView& found) {
  return std::ranges::equal(expected.data, found.data) &&
         (expected.comment.empty() || expected.comment == found.comment);
}

std::string Place(const nft::ElementView& element) {
  std::string place(element.interval_end ? "e" : "s");
  place.append(element.key.begin(), element.key.end());
  place.append(element.key_end.begin(), element.key_end.end());
  return place;
}

}  // namespace

void Differences::Compare(nft::SetRef set, std::span<const uint8_t> key,
                          const std::optional<Row>& expected,
                          const std::optional<nft::Element>& found) {
  if (!expected && !found) return;
  if (expected && found && IsAsExpected(expected->view(), View(set, *found))) return;
  ++count_;
  if (found) deletions_.Delete({.set = set, .key = key, .data = found->data, .comment = {}});
  if (expected) additions_.Add(expected->view());
}

void Differences::CompareSet(nft::SetRef set, const std::vector<Row>& expected,
                             const std::vector<nft::Element>& found) {
  absl::flat_hash_map<std::string, const nft::Element*> there;
  there.reserve(found.size());
  for (const nft::Element& element : found) there.emplace(Place(View(set, element)), &element);
  for (const Row& row : expected) {
    const auto match = there.find(Place(row.view()));
    if (match == there.end()) {
      additions_.Add(row.view());
    } else {
      const nft::ElementView element = View(set, *match->second);
      there.erase(match);
      if (IsAsExpected(row.view(), element)) continue;
      deletions_.Delete(element);
      additions_.Add(row.view());
    }
    ++count_;
  }
  count_ += there.size();
  // The kernel may require that the start of a range is deleted directly before its end.
  std::vector<const nft::Element*> unknown;
  for (const auto& [place, element] : there) unknown.push_back(element);
  std::ranges::sort(unknown, [](const nft::Element* a, const nft::Element* b) {
    return std::tie(a->key, b->interval_end) < std::tie(b->key, a->interval_end);
  });
  for (const nft::Element* element : unknown) deletions_.Delete(View(set, *element));
}

nft::Transaction Differences::TakeRepair() {
  deletions_.AddElements(std::exchange(additions_, {}));
  return std::exchange(deletions_, {});
}

}  // namespace svcmap::proxy
