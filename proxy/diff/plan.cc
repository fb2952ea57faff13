#include "proxy/diff/plan.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <tuple>

namespace svcmap::proxy {
namespace {

std::string_view Text(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

auto OrderOf(const Row& row) {
  return std::make_tuple(row.set.family, row.set.set, Text(row.key.bytes()),
                         Text(row.key_end.bytes()), row.interval_end);
}

bool SameContent(const Row& a, const Row& b) {
  return Text(a.data.bytes()) == Text(b.data.bytes()) && a.comment == b.comment;
}

void AppendBe64(nft::FieldBytes& bytes, uint64_t value) {
  bytes.AppendU32Be(static_cast<uint32_t>(value >> 32)).AppendU32Be(static_cast<uint32_t>(value));
}

uint64_t ReadBe64(const uint8_t* bytes) {
  uint64_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return be64toh(value);
}

nft::FieldBytes TimerKey(size_t timer) {
  constexpr uint32_t kFirst = 16;
  return nft::FieldBytes().AppendU32Host(kFirst + static_cast<uint32_t>(timer));
}
// Size of the last allocated number of each pool, in bits.
constexpr std::array<unsigned, kNumberPools.size()> kNumberBits = {24, 16, 16};

// The rows of these sets have neither data nor comment.
bool IsFirewall(uint8_t set) {
  return set == kFirewallIps || set == kRangeFirewallIps || HasSourceRanges(set);
}

struct SlotsOfSet {
  nft::SetRef slots;  // The map with the slots.
  const EndpointSet* set;
};

bool ByGroup(const SlotsOfSet& a, const SlotsOfSet& b) {
  return std::pair(a.slots.family, a.set->group) < std::pair(b.slots.family, b.set->group);
}

// Returns the endpoint sets of ports without affinity, sorted by family and group. OwnRows returns
// the sets of ports with affinity.
std::vector<SlotsOfSet> SetsWithoutAffinity(const ServiceRows& service) {
  std::vector<SlotsOfSet> sets;
  sets.reserve(service.ports.size());
  for (const PortRows& port : service.ports) {
    if (port.affinity) continue;
    for (const EndpointSet* set : {&port.cluster, &port.local}) {
      if (set->group != 0) sets.push_back({SlotsOf(port), set});
    }
  }
  std::sort(sets.begin(), sets.end(), ByGroup);
  return sets;
}

// Returns the set in `sets` with the same family and group, or null.
const EndpointSet* FindSet(const std::vector<SlotsOfSet>& sets, const SlotsOfSet& like) {
  const auto found = std::lower_bound(sets.begin(), sets.end(), like, ByGroup);
  return found == sets.end() || ByGroup(like, *found) ? nullptr : found->set;
}

// The first rows of both are usually equal, such as the clusterIPs, and change nothing.
void CountShared(const std::vector<Row>& before, const std::vector<Row>& after,
                 SharedCounts& changes) {
  const auto same = [](const Row& a, const Row& b) {
    return a.set == b.set && Text(a.key.bytes()) == Text(b.key.bytes());
  };
  const auto [old_row, new_row] = std::ranges::mismatch(before, after, same);
  changes.reserve(changes.size() +
                  static_cast<size_t>((before.end() - old_row) + (after.end() - new_row)));
  const auto count = [&](auto first, auto last, int32_t change) {
    for (; first != last; ++first) changes[SharedKey(first->set, first->key.bytes())] += change;
  };
  count(old_row, before.end(), -1);
  count(new_row, after.end(), +1);
}

}  // namespace

int32_t CountOf(const SharedCounts& counts, const std::string& key) {
  const auto found = counts.find(key);
  return found == counts.end() ? 0 : found->second;
}

std::string SharedKey(nft::SetRef set, std::span<const uint8_t> row_key) {
  std::string key;
  key.reserve(2 + row_key.size());
  key += static_cast<char>(set.family);
  key += static_cast<char>(set.set);
  key += Text(row_key);
  return key;
}

nft::ElementView FromSharedKey(const std::string& key) {
  nft::ElementView element;
  element.set = {static_cast<Family>(key[0]), static_cast<uint8_t>(key[1])};
  element.key = {reinterpret_cast<const uint8_t*>(key.data()) + 2, key.size() - 2};
  return element;
}

std::string EndedSets::KeyOf(const nft::ElementView& element) {
  constexpr size_t kPortSize = 2;  // An endpoint's key begins with the number of its port.
  const bool sticky = HasStickyEndpoints(element.set.set);
  return SharedKey(element.set, sticky ? element.key.first(kPortSize) : element.key);
}

void EndedSets::AddNew(const nft::ElementView& element) {
  const auto [family, set] = element.set;
  if (HasKey(set)) old_.erase(KeyOf(element));
  if (set != kServiceIps && set != kRangePorts && set != kRangeBlocks) return;
  in_use_.insert(SharedKey({family, kLocalSets}, element.data));
}

absl::flat_hash_set<std::string> EndedSets::Take() && {
  absl::erase_if(old_, [this](const std::string& key) {
    return FromSharedKey(key).set.set == kLocalSets && !in_use_.contains(key);
  });
  return std::move(old_);
}

nft::FieldBytes MarkerKey() { return nft::FieldBytes().AppendU32Host(2); }

std::vector<nft::FieldBytes> MarkerKeys() {
  std::vector<nft::FieldBytes> keys = {MarkerKey()};
  for (size_t timer = 1; timer < kMaxTimers; ++timer) keys.push_back(TimerKey(timer));
  return keys;
}

std::vector<Row> Marker::ToRows(Family family) const {
  std::vector<Row> rows;
  const auto add = [&](const nft::FieldBytes& key, uint64_t high, uint64_t low) {
    Row& row = rows.emplace_back();
    row.set = {family, kMarker};
    row.key = key;
    AppendBe64(row.data, high);
    AppendBe64(row.data, low);
  };
  uint64_t numbers = saved ? 1 : 0;
  for (size_t pool = 0; pool < kNumberPools.size(); ++pool) {
    const uint64_t last = std::max<uint32_t>(next_numbers[pool][Index(family)], 1) - 1;
    numbers = numbers << kNumberBits[pool] | last;
  }
  add(MarkerKey(), numbers, generation);
  for (size_t timer = 1; timer < timers.size(); ++timer) add(TimerKey(timer), 0, timers[timer]);
  return rows;
}

bool ParseMarker(Family family, const std::vector<std::optional<nft::Element>>& rows,
                 Marker& marker) {
  const auto word = [&](size_t row, size_t offset) {
    return rows[row] && rows[row]->data.size() == 16 ? ReadBe64(rows[row]->data.data() + offset)
                                                     : 0;
  };
  if (!rows[0]) return false;
  uint64_t numbers = word(0, 0);
  for (size_t pool = kNumberPools.size(); pool-- > 0;) {
    const uint64_t mask = (uint64_t{1} << kNumberBits[pool]) - 1;
    uint32_t& next = marker.next_numbers[pool][Index(family)];
    next = std::max(next, static_cast<uint32_t>(numbers & mask) + 1);
    numbers >>= kNumberBits[pool];
  }
  if (word(0, 8) >= marker.generation) marker.saved = numbers == 1;
  marker.generation = std::max(marker.generation, word(0, 8));
  for (size_t timer = 1; timer < rows.size() && rows[timer]; ++timer) {
    if (marker.timers.size() > timer) continue;
    marker.timers.push_back(static_cast<uint32_t>(word(timer, 8)));
  }
  return true;
}

void ReplaceMarker(const Marker* before, const Marker& after, nft::Transaction& transaction) {
  for (const Family family : kFamilies) {
    const std::vector<Row> old_rows =
        before != nullptr ? before->ToRows(family) : std::vector<Row>();
    const std::vector<Row> new_rows = after.ToRows(family);
    const auto differs = [](const Row& row, size_t place, const std::vector<Row>& others) {
      return place >= others.size() ||
             !std::ranges::equal(row.data.bytes(), others[place].data.bytes());
    };
    for (size_t i = 0; i < old_rows.size(); ++i) {
      if (differs(old_rows[i], i, new_rows)) transaction.Delete(old_rows[i].view());
    }
    for (size_t i = 0; i < new_rows.size(); ++i) {
      if (differs(new_rows[i], i, old_rows)) transaction.Add(new_rows[i].view());
    }
  }
}

void Plan::Add(const nft::ElementView& element) {
  additions_.Add(element);
  if (HasSourceRanges(element.set.set)) ++source_rows_added_;
  ++counts_[Index(element.set.family)][element.set.set];
}

void Plan::Delete(const nft::ElementView& element) {
  transaction_.Delete(element);
  if (HasSourceRanges(element.set.set)) ++source_rows_removed_;
  deletes_firewall_rows_ |= IsFirewall(element.set.set);
  --counts_[Index(element.set.family)][element.set.set];
}

// An element whose data changes is deleted and added, because the kernel cannot change data in
// place. Only ranges that differ are deleted and added, because packets can miss a range that is
// deleted and added in one transaction (Linux before 6.18). A range is deleted and added with both
// bounds: Linux 6.18.44 rejects the deletion of one bound in some cases.
void Plan::AddRows(std::vector<Row> before, std::vector<Row> after) {
  const auto by_order = [](const Row& a, const Row& b) { return OrderOf(a) < OrderOf(b); };
  std::sort(before.begin(), before.end(), by_order);
  std::sort(after.begin(), after.end(), by_order);
  // Returns the first row, and the end of its range unless the range contains the last address.
  const auto front = [](std::span<const Row> rows) {
    return rows.first(rows.size() > 1 && rows[1].interval_end ? 2 : 1);
  };
  const auto same = [](const Row& a, const Row& b) {
    return OrderOf(a) == OrderOf(b) && SameContent(a, b);
  };
  std::span<const Row> old_rows = before, new_rows = after;
  while (!old_rows.empty() || !new_rows.empty()) {
    std::span<const Row> deleted, added;
    if (new_rows.empty() || (!old_rows.empty() && OrderOf(old_rows[0]) <= OrderOf(new_rows[0]))) {
      deleted = front(old_rows);
    }
    if (old_rows.empty() || (!new_rows.empty() && OrderOf(new_rows[0]) <= OrderOf(old_rows[0]))) {
      added = front(new_rows);
    }
    old_rows = old_rows.subspan(deleted.size());
    new_rows = new_rows.subspan(added.size());
    if (std::equal(deleted.begin(), deleted.end(), added.begin(), added.end(), same)) continue;
    for (const Row& row : deleted) Delete(row.view());
    for (const Row& row : added) Add(row.view());
  }
}

void Plan::AddSlots(nft::SetRef map, const EndpointSet* before, const EndpointSet* after) {
  const uint32_t group = after != nullptr ? after->group : before->group;
  static const std::vector<EndpointAddress> kNone;
  const auto& old_slots = before != nullptr ? before->slots : kNone;
  const auto& new_slots = after != nullptr ? after->slots : kNone;
  const size_t size = std::max(old_slots.size(), new_slots.size());
  for (size_t i = 0; i < size; ++i) {
    const bool had = i < old_slots.size();
    const bool has = i < new_slots.size();
    if (had && has && old_slots[i] == new_slots[i]) continue;
    const auto slot = static_cast<uint32_t>(i);
    if (had) Delete(EndpointRow(map, group, slot, old_slots[i]).view());
    if (has) Add(EndpointRow(map, group, slot, new_slots[i]).view());
  }
}

void Plan::AddService(const std::string& key, const ServiceRows* before, const ServiceRows& after) {
  static const ServiceRows kNothing;
  const ServiceRows& old_rows = before != nullptr ? *before : kNothing;
  if (old_rows == after) return;

  const std::vector<SlotsOfSet> old_sets = SetsWithoutAffinity(old_rows);
  const std::vector<SlotsOfSet> new_sets = SetsWithoutAffinity(after);
  for (const SlotsOfSet& set : new_sets) AddSlots(set.slots, FindSet(old_sets, set), set.set);
  for (const SlotsOfSet& set : old_sets) {
    if (FindSet(new_sets, set) == nullptr) AddSlots(set.slots, set.set, nullptr);
  }

  if (before == nullptr) {
    for (const Row& row : OwnRows(key, after)) Add(row.view());
  } else {
    std::vector<Row> old_own = OwnRows(key, old_rows), new_own = OwnRows(key, after);
    // Descriptors and port numbers of different Services differ.
    EndedSets sets;
    for (const Row& row : old_own) sets.AddOld(row.view());
    if (!sets.empty()) {
      for (const Row& row : new_own) sets.AddNew(row.view());
      ended_sets_.merge(std::move(sets).Take());
    }
    AddRows(std::move(old_own), std::move(new_own));
  }
  CountShared(SharedRows(old_rows), SharedRows(after), shared_changes_);
}

// Does not write firewall rows that one Service releases and another one needs, for example because
// a Service gets another name. Packets could pass or be dropped while the kernel replaces the rows.
void Plan::KeepMovedRows() {
  if (!deletes_firewall_rows_ || additions_.empty()) return;
  const auto key_of = [](const nft::ElementView& element) {
    return SharedKey(element.set, element.key).append(Text(element.key_end));
  };
  absl::flat_hash_set<std::string> deleted, moved;
  transaction_.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    if (IsFirewall(element.set.set)) deleted.insert(key_of(element));
  });
  nft::Transaction additions, deletions;
  additions_.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    if (!IsFirewall(element.set.set) || !deleted.contains(key_of(element))) {
      additions.Add(element);
    } else if (moved.insert(key_of(element)).second && HasSourceRanges(element.set.set)) {
      --source_rows_added_;
      --source_rows_removed_;
    }
  });
  if (moved.empty()) return;
  transaction_.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    if (!IsFirewall(element.set.set) || !moved.contains(key_of(element))) deletions.Delete(element);
  });
  additions_ = std::move(additions);
  transaction_ = std::move(deletions);
}

void Plan::Finish() {
  KeepMovedRows();
  for (const auto& [key, change] : shared_changes_) {
    const int32_t before = CountOf(*shared_, key);
    if (before == 0 && before + change > 0) Add(FromSharedKey(key));
    if (before > 0 && before + change == 0) Delete(FromSharedKey(key));
  }
  transaction_.AddElements(std::exchange(additions_, {}));
}

}  // namespace svcmap::proxy
