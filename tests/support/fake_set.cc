#include "tests/support/fake_set.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

namespace svcmap::nft {
namespace {

std::string ToString(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

FakeSet::FakeSet(const SetSpec& spec)
    : key_size_(FieldsSize(spec.key)),
      data_size_(spec.data.empty() ? 0 : FieldsSize(spec.data)),
      interval_(spec.has_bounds()),
      ranges_(spec.has_ranges()) {
  for (const Field field : spec.key) {
    field_sizes_.push_back(PaddedFieldSize(field));
  }
}

FakeSet::Outcome FakeSet::Add(const ElementView& element) {
  const bool end = element.interval_end;
  if (element.key.size() != key_size_ || (end && !interval_)) return {EINVAL, std::nullopt};
  if (element.data.size() != (end ? 0 : data_size_)) return {EINVAL, std::nullopt};
  if (element.key_end.size() != (ranges_ ? key_size_ : 0)) return {EINVAL, std::nullopt};

  Key key{ToString(element.key), !end};
  const auto found = elements_.find(key);
  if (found != elements_.end()) {
    if (ranges_ && found->second.key_end != ToString(element.key_end)) {
      return {EEXIST, std::nullopt};
    }
    // If only the comment differs, the kernel accepts the element and keeps the old comment.
    return {found->second.data == ToString(element.data) ? 0 : EEXIST, std::nullopt};
  }
  if (interval_ && CheckOverlap(key) != 0) return {CheckOverlap(key), std::nullopt};
  if (ranges_ && CheckRanges(element) != 0) return {CheckRanges(element), std::nullopt};
  elements_.emplace(
      key, Value{ToString(element.data), std::string(element.comment), ToString(element.key_end)});
  return {0, Change{std::move(key), std::nullopt}};
}

// The kernel validates start and end elements one by one, not as ranges. The kernel rejects a start
// element directly after another start element, and an end element directly before or after another
// end element.
int FakeSet::CheckOverlap(const Key& key) const {
  const auto next = elements_.lower_bound(key);
  const bool next_is_end = next != elements_.end() && !next->first.start;
  if (!key.start && next_is_end) return EEXIST;
  if (next == elements_.begin()) return 0;
  return std::prev(next)->first.start == key.start ? EEXIST : 0;
}

// The kernel checks whether the first or the last key of a new range is in an existing range. The
// kernel does not check the keys between the first and the last key.
int FakeSet::CheckRanges(const ElementView& element) const {
  return RangeOf(element.key) != elements_.end() || RangeOf(element.key_end) != elements_.end()
             ? EEXIST
             : 0;
}

// A range contains a key if each field of the range contains the corresponding field of the key.
FakeSet::Elements::const_iterator FakeSet::RangeOf(std::span<const uint8_t> key) const {
  const std::string bytes = ToString(key);
  return std::find_if(elements_.begin(), elements_.end(), [&](const auto& range) {
    bool inside = true;
    size_t offset = 0;
    for (const size_t size : field_sizes_) {
      inside &= range.first.bytes.compare(offset, size, bytes, offset, size) <= 0 &&
                bytes.compare(offset, size, range.second.key_end, offset, size) <= 0;
      offset += size;
    }
    return inside;
  });
}

FakeSet::Outcome FakeSet::Delete(const ElementView& element) {
  if (element.key.size() != key_size_) return {EINVAL, std::nullopt};
  const Elements::const_iterator found =
      ranges_ ? RangeOf(element.key)
              : elements_.find(Key{ToString(element.key), !element.interval_end});
  if (found == elements_.end()) return {ENOENT, std::nullopt};
  Change change{found->first, found->second};
  elements_.erase(found);
  return {0, std::move(change)};
}

void FakeSet::Undo(const Change& change) {
  if (change.before) {
    elements_[change.key] = *change.before;
  } else {
    elements_.erase(change.key);
  }
}

std::optional<Element> FakeSet::Find(std::span<const uint8_t> key) const {
  if (ranges_) {
    const auto range = RangeOf(key);
    return range == elements_.end() ? std::nullopt : std::optional(ToElement(*range));
  }
  const auto next = elements_.upper_bound(Key{ToString(key), true});
  if (next == elements_.begin()) return std::nullopt;
  const auto found = std::prev(next);
  if (!found->first.start || (!interval_ && found->first.bytes != ToString(key))) {
    return std::nullopt;
  }
  return ToElement(*found);
}

std::vector<Element> FakeSet::All() const {
  std::vector<Element> all;
  all.reserve(elements_.size());
  for (const auto& entry : elements_) all.push_back(ToElement(entry));
  return all;
}

Element FakeSet::ToElement(const Elements::value_type& entry) {
  const auto& [key, value] = entry;
  return {.key = {key.bytes.begin(), key.bytes.end()},
          .data = {value.data.begin(), value.data.end()},
          .comment = value.comment,
          .interval_end = !key.start,
          .key_end = {value.key_end.begin(), value.key_end.end()}};
}

}  // namespace svcmap::nft
