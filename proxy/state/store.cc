#include "proxy/state/store.h"

#include <xxhash.h>

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "proxy/state/port_range.h"

namespace svcmap::proxy {
namespace {

std::string SnapshotKey(Kind kind, const std::string& key) {
  return std::string(KindName(kind)) + " " + key;
}

// Stores or removes an object in a map by name. Returns the previous object.
template <typename Map, typename Pointer>
Pointer Exchange(Map& map, const std::string& key, const Pointer& object) {
  const auto held = map.find(key);
  Pointer before = held == map.end() ? nullptr : held->second;
  if (object) {
    map[key] = object;
  } else if (before) {
    map.erase(held);
  }
  return before;
}

template <typename Pointer>
const std::string* MessageOf(const Pointer& object) {
  return object ? &object->message : nullptr;
}

template <typename Pointer>
bool Equal(const Pointer& a, const Pointer& b) {
  return a && b ? a->message == b->message : a == b;
}

// Returns true if an endpoint can get connections (S-24).
bool HasUsableEndpoints(const EndpointSlice& slice) {
  return !slice.ports.empty() && std::ranges::any_of(slice.endpoints, [](const Endpoint& endpoint) {
    const EndpointConditions& is = endpoint.conditions;
    return endpoint.weight > 0 && (is.ready || (is.serving && is.terminating));
  });
}

bool HasUsableEndpoints(const ServiceEntry& entry) {
  return entry.service && std::ranges::any_of(entry.slices, [](const auto& slice) {
           return HasUsableEndpoints(*slice);
         });
}

// Returns the token of one object. The hash of the key is the seed for the hash of the message, so
// that the boundary between key and message is unambiguous.
StateToken TokenOf(Kind kind, const std::string& key, const std::string& message) {
  const XXH64_hash_t name =
      XXH3_64bits_withSeed(key.data(), key.size(), static_cast<uint64_t>(kind));
  const XXH128_hash_t hash = XXH3_128bits_withSeed(message.data(), message.size(), name);
  return {hash.high64, hash.low64};
}

}  // namespace

uint64_t SlotCount(const EndpointSlice& slice) {
  return uint64_t{slice.ports.size()} * slice.endpoints.size();
}

uint64_t CountedTableSize(const Service& service) {
  if (service.pick_by == PickBy::kRandom) return 0;
  return service.pick_table_size != 0 ? service.pick_table_size : kHashTableSizes[1];
}

size_t PortElementCount(const ServicePort& port) {
  return port.is_range() ? DividePorts(port.port, port.end_port).size() : 1;
}

uint64_t ElementCount(const Service& service) {
  if (!service.proxied) return 0;
  const bool local = service.internal_policy == TrafficPolicy::kLocal ||
                     service.external_policy == TrafficPolicy::kLocal;
  uint64_t addresses = 0;
  uint64_t slots = 0;
  for (const Family family : kFamilies) {
    if (!service.cluster_ip[Index(family)]) continue;  // The family is not programmed.
    slots += CountedTableSize(service) * (local ? 2 : 1);
    ++addresses;
    for (const auto* list : {&service.external_ips, &service.load_balancer_ips}) {
      for (const IpAddress& address : *list) addresses += address.family() == family ? 1 : 0;
    }
  }
  uint64_t elements = 0;
  for (const ServicePort& port : service.ports) {
    elements += kElementsPerAddress * addresses * PortElementCount(port) + slots;
  }
  return elements;
}

uint64_t ElementCount(const EndpointSlice& slice) {
  if (slice.service_key.empty()) return 0;
  uint64_t weights = 0;
  for (const Endpoint& endpoint : slice.endpoints)
    weights += std::max<uint16_t>(endpoint.weight, 1);
  return weights * slice.ports.size();
}

bool Store::Apply(const Change& change, uint64_t sequence) {
  if (base_ && FollowSnapshot(change)) return false;
  if (trial_) trial_->undo.push_back(Stored(change.kind, change.key));
  return Replace(change, sequence);
}

bool Store::FollowSnapshot(const Change& change) {
  const std::string key = SnapshotKey(change.kind, change.key);
  if (change.removal()) {
    base_->added.erase(key);
  } else if (!Contains(change.kind, change.key)) {
    base_->added.insert(key);
  }
  if (!snapshot_ || !snapshot_->removes) return false;
  if (change.kind == Kind::kEndpointSlice) snapshot_->waiting.erase(change.key);
  if (change.removal()) {
    snapshot_->keys.erase(key);
    return false;
  }
  snapshot_->keys.insert(key);
  if (!change.slice || HasUsableEndpoints(*change.slice)) return false;
  const auto held = slices_.find(change.key);
  if (held == slices_.end() || !HasUsableEndpoints(*held->second)) return false;
  snapshot_->waiting[change.key] = change;
  return true;
}

bool Store::Contains(Kind kind, const std::string& key) const {
  switch (kind) {
    case Kind::kService: {
      const ServiceEntry* entry = Find(key);
      return entry != nullptr && entry->service;
    }
    case Kind::kEndpointSlice:
      return slices_.contains(key);
    case Kind::kNode:
      return nodes_.contains(key);
    case Kind::kServiceCidr:
      return service_cidrs_.contains(key);
  }
  return false;
}

bool Store::Replace(const Change& change, uint64_t sequence) {
  const auto exchange = [&](auto& objects, const auto& after) {
    const auto before = Exchange(objects, change.key, after);
    if (Equal(before, after)) return false;
    ++node_version_;
    if (!trial_ && sequence != 0) node_sequence_ = sequence;
    Touch(change, MessageOf(before), MessageOf(after));
    return true;
  };
  switch (change.kind) {
    case Kind::kService:
      return ApplyService(change, sequence);
    case Kind::kEndpointSlice:
      return ApplySlice(change, sequence);
    case Kind::kNode:
      return exchange(nodes_, change.node);
    case Kind::kServiceCidr:
      return exchange(service_cidrs_, change.service_cidr);
  }
  return false;
}

bool Store::ApplyService(const Change& change, uint64_t sequence) {
  if (!change.service && !services_.contains(change.key)) return false;
  ServiceEntry& entry = services_[change.key];
  if (Equal(entry.service, change.service)) return false;
  if (!entry.service) {
    entry.first_seen = change.first_seen.value_or(snapshot_ ? snapshot_->revision : revision_);
  }
  Touch(change, MessageOf(entry.service), MessageOf(change.service));
  const std::shared_ptr<const Service> before = std::exchange(entry.service, change.service);
  service_count_ += (change.service ? 1 : 0);
  service_count_ -= (before ? 1 : 0);
  elements_ += change.service ? ElementCount(*change.service) : 0;
  elements_ -= before ? ElementCount(*before) : 0;
  MarkDirty(change.key, sequence);
  const Claims::Moved claims = claims_.Update(before, change.service, entry.first_seen);
  moved_ |= !claims.others.empty() || (released_ && claims.acquired);
  released_ |= claims.released;
  if (claims.acquired || claims.released) NoteMove(change.key);
  for (const std::string& other : claims.others) {
    MarkDirty(other, sequence);
    NoteMove(other);
  }
  DropIfEmpty(change.key);
  return true;
}

bool Store::ApplySlice(const Change& change, uint64_t sequence) {
  const auto held = slices_.find(change.key);
  const std::shared_ptr<const EndpointSlice> before =
      held == slices_.end() ? nullptr : held->second;
  const std::shared_ptr<const EndpointSlice>& after = change.slice;
  if (Equal(before, after)) return false;
  Touch(change, MessageOf(before), MessageOf(after));
  NoteMoves(before.get(), after.get());

  if (before && !before->service_key.empty()) {
    RemoveSlice(*before);
    if (!after || after->service_key != before->service_key) DropIfEmpty(before->service_key);
    MarkDirty(before->service_key, sequence);
  }
  if (after) {
    slices_[change.key] = after;
    if (!after->service_key.empty()) {
      AddSlice(after);
      if (!before || before->service_key != after->service_key) {
        MarkDirty(after->service_key, sequence);
      }
    }
  } else {
    slices_.erase(change.key);
  }
  return true;
}

void Store::NoteMove(const std::string& key) {
  if (keep_moves_) moves_[key].any = true;
}

// Handshakes exist only for TCP and SCTP.
void Store::NoteMoves(const EndpointSlice* before, const EndpointSlice* after) {
  constexpr size_t kMaxAdded = 65'536;
  if (!keep_moves_) return;
  const auto has_handshakes = [](const EndpointSlice* slice) {
    return slice != nullptr && !slice->service_key.empty() &&
           absl::c_any_of(slice->ports,
                          [](const EndpointPort& p) { return p.protocol != Protocol::kUdp; });
  };
  static const std::vector<Endpoint> kNone;
  const bool had = has_handshakes(before), has = has_handshakes(after);
  std::span<const Endpoint> old_endpoints = had ? before->endpoints : kNone;
  std::span<const Endpoint> new_endpoints = has ? after->endpoints : kNone;
  const auto leave = [&](const IpAddress& address) {
    for (const EndpointPort& port : before->ports) {
      if (port.protocol == Protocol::kTcp)
        moves_[before->service_key].left.emplace(address, port.port);
    }
  };
  if (had && (!has || before->service_key != after->service_key)) {
    NoteMove(before->service_key);
    for (const Endpoint& endpoint : old_endpoints) leave(endpoint.address);
    old_endpoints = {};
  }
  if (!has) return;
  // Most updates change only a few endpoints.
  const auto same = [](const Endpoint& a, const Endpoint& b) { return a.address == b.address; };
  while (!old_endpoints.empty() && !new_endpoints.empty() &&
         same(old_endpoints.front(), new_endpoints.front())) {
    old_endpoints = old_endpoints.subspan(1);
    new_endpoints = new_endpoints.subspan(1);
  }
  while (!old_endpoints.empty() && !new_endpoints.empty() &&
         same(old_endpoints.back(), new_endpoints.back())) {
    old_endpoints = old_endpoints.first(old_endpoints.size() - 1);
    new_endpoints = new_endpoints.first(new_endpoints.size() - 1);
  }
  const bool other_ports =
      had && !absl::c_equal(before->ports, after->ports, [](const auto& a, const auto& b) {
        return a.port == b.port && a.protocol == b.protocol;
      });
  if (!other_ports && old_endpoints.empty() && new_endpoints.empty()) return;
  absl::flat_hash_set<IpAddress> left;
  for (const Endpoint& endpoint : old_endpoints) left.insert(endpoint.address);
  const bool same_service = had && before->service_key == after->service_key;
  ServiceMoves& moves = moves_[after->service_key];
  for (const Endpoint& endpoint : new_endpoints) {
    if (left.erase(endpoint.address) > 0 || added_ >= kMaxAdded) continue;
    moves.added.push_back(endpoint.address);
    ++added_;
  }
  moves.any |= other_ports || !left.empty();
  if (other_ports && same_service) {
    for (const Endpoint& endpoint : before->endpoints) leave(endpoint.address);
  } else {
    for (const IpAddress& address : left) leave(address);
  }
}

ServiceMoves Store::TakeMoves(const std::string& key) {
  const auto found = moves_.find(key);
  if (found == moves_.end()) return {};
  ServiceMoves moves = std::move(found->second);
  moves_.erase(found);
  added_ -= moves.added.size();
  return moves;
}

void Store::AddSlice(const std::shared_ptr<const EndpointSlice>& slice) {
  ServiceEntry& entry = services_[slice->service_key];
  entry.slices.insert(slice);
  entry.endpoints[Index(slice->family)] += slice->endpoints.size();
  entry.slots[Index(slice->family)] += SlotCount(*slice);
  elements_ += ElementCount(*slice);
}

void Store::RemoveSlice(const EndpointSlice& slice) {
  ServiceEntry& entry = services_[slice.service_key];
  entry.slices.erase(entry.slices.find(slice.key));
  entry.endpoints[Index(slice.family)] -= slice.endpoints.size();
  entry.slots[Index(slice.family)] -= SlotCount(slice);
  elements_ -= ElementCount(slice);
}

void Store::Touch(const Change& change, const std::string* before, const std::string* after) {
  if (before != nullptr) {
    bytes_ -= ObjectBytes(change.key, *before);
    const StateToken token = TokenOf(change.kind, change.key, *before);
    for (size_t i = 0; i < token.size(); ++i) token_[i] -= token[i];
  }
  if (after != nullptr) {
    bytes_ += ObjectBytes(change.key, *after);
    const StateToken token = TokenOf(change.kind, change.key, *after);
    for (size_t i = 0; i < token.size(); ++i) token_[i] += token[i];
  }
  if (keep_touched_) touched_.emplace_back(change.kind, change.key);
}

Change Store::Stored(Kind kind, const std::string& key) const {
  Change held{.kind = kind, .key = key};
  const auto find = [&key](const auto& objects, auto& object) {
    const auto found = objects.find(key);
    if (found != objects.end()) object = found->second;
  };
  switch (kind) {
    case Kind::kService:
      if (const ServiceEntry* entry = Find(key); entry != nullptr && entry->service) {
        held.service = entry->service;
        held.first_seen = entry->first_seen;
      }
      break;
    case Kind::kEndpointSlice:
      find(slices_, held.slice);
      break;
    case Kind::kNode:
      find(nodes_, held.node);
      break;
    case Kind::kServiceCidr:
      find(service_cidrs_, held.service_cidr);
      break;
  }
  return held;
}

const std::string* Store::FindMessage(Kind kind, const std::string& key) const {
  // The change refers to the stored objects, so the pointer remains valid.
  const Change held = Stored(kind, key);
  if (held.service) return MessageOf(held.service);
  if (held.slice) return MessageOf(held.slice);
  if (held.node) return MessageOf(held.node);
  return MessageOf(held.service_cidr);
}

const std::string* Store::FindLatestSlice(const std::string& key) const {
  if (snapshot_) {
    const auto waiting = snapshot_->waiting.find(key);
    if (waiting != snapshot_->waiting.end()) return MessageOf(waiting->second.slice);
  }
  return FindMessage(Kind::kEndpointSlice, key);
}

uint64_t Store::FirstSeen(Kind kind, const std::string& key) const {
  return kind == Kind::kService ? Stored(kind, key).first_seen.value_or(0) : 0;
}

void Store::BeginTrial() {
  trial_.emplace();
  trial_->node_version = node_version_;
  trial_->token = token_;
  trial_->touched = std::exchange(touched_, {});
  trial_->dirty = std::exchange(dirty_, {});
  trial_->moves = std::exchange(moves_, {});
  trial_->added = std::exchange(added_, 0);
  trial_->released = std::exchange(released_, false);
  trial_->moved = std::exchange(moved_, false);
  trial_->snapshot = std::exchange(snapshot_, std::nullopt);
  trial_->base = std::exchange(base_, std::nullopt);
}

void Store::EndTrial() {
  Trial trial = *std::exchange(trial_, std::nullopt);
  for (auto change = trial.undo.rbegin(); change != trial.undo.rend(); ++change) {
    Replace(*change, 0);
  }
  node_version_ = trial.node_version;
  token_ = trial.token;
  touched_ = std::move(trial.touched);
  dirty_ = std::move(trial.dirty);
  moves_ = std::move(trial.moves);
  added_ = trial.added;
  released_ = trial.released;
  moved_ = trial.moved;
  snapshot_ = std::move(trial.snapshot);
  base_ = std::move(trial.base);
}

void Store::DropIfEmpty(const std::string& key) {
  const auto found = services_.find(key);
  if (found != services_.end() && !found->second.service && found->second.slices.empty()) {
    services_.erase(found);
  }
}

void Store::MarkDirty(const std::string& key, uint64_t sequence) {
  if (dirty_.size() == 0) released_ = moved_ = false;
  dirty_.Mark(key, sequence);
}

// Inserts the Services at the front of the list with sequence number 0, so that no batch of changes
// waits for these Services.
void Store::MarkDirtyIf(const std::function<bool(const ServiceEntry&)>& affected) {
  std::vector<DirtyService> dirty;
  for (const auto& [key, entry] : services_) {
    if (entry.service && affected(entry)) dirty.push_back({.key = key});
  }
  std::ranges::sort(dirty, {}, &DirtyService::key);
  if (dirty_.size() == 0) released_ = moved_ = false;
  dirty_.Return(std::move(dirty));
}

void Store::BeginSnapshot() {
  snapshot_.reset();
  const bool removes =
      !services_.empty() || !slices_.empty() || !nodes_.empty() || !service_cidrs_.empty();
  if (removes && !base_) {
    base_ = {.amounts = CountObjects(), .added = {}};
  }
  snapshot_ = {.revision = revision_, .removes = removes, .keys = {}, .waiting = {}};
}

void Store::AddToSnapshot(Kind kind, const std::string& key) {
  if (snapshot_ && snapshot_->removes) snapshot_->keys.insert(SnapshotKey(kind, key));
}

void Store::ForEachUnlisted(const std::function<void(Kind, const std::string&)>& fn) const {
  const auto check = [&](Kind kind, const std::string& key) {
    if (!snapshot_->keys.contains(SnapshotKey(kind, key))) fn(kind, key);
  };
  for (const auto& [key, entry] : services_) {
    if (entry.service) check(Kind::kService, key);
  }
  for (const auto& [key, slice] : slices_) check(Kind::kEndpointSlice, key);
  for (const auto& [key, node] : nodes_) check(Kind::kNode, key);
  for (const auto& [key, cidr] : service_cidrs_) check(Kind::kServiceCidr, key);
}

bool Store::KeepsEndpoints(const std::string& key, const ServiceEntry& entry) const {
  if (!snapshot_ || !snapshot_->removes) return HasUsableEndpoints(entry);
  if (!entry.service || !snapshot_->keys.contains(SnapshotKey(Kind::kService, key))) return false;
  return std::ranges::any_of(entry.slices, [this](const auto& slice) {
    return HasUsableEndpoints(*slice) && !snapshot_->waiting.contains(slice->key) &&
           snapshot_->keys.contains(SnapshotKey(Kind::kEndpointSlice, slice->key));
  });
}

size_t Store::ServicesWithEndpoints() const {
  return static_cast<size_t>(std::ranges::count_if(services_, [this](const auto& service) {
    return KeepsEndpoints(service.first, service.second);
  }));
}

Store::Amounts Store::CountObjects() const {
  return {.objects = {service_count_, slices_.size(), nodes_.size(), service_cidrs_.size()},
          .with_endpoints = ServicesWithEndpoints()};
}

SnapshotLoss Store::LossOfSnapshot() const {
  SnapshotLoss loss;
  if (!snapshot_ || !snapshot_->removes || !base_) return loss;
  const Amounts& before = base_->amounts;
  for (size_t kind = 0; kind < before.objects.size(); ++kind) {
    loss.kinds[kind].before = before.objects[kind];
  }
  ForEachUnlisted([&](Kind kind, const std::string& key) {
    if (!base_->added.contains(SnapshotKey(kind, key))) ++loss.kinds[Index(kind)].lost;
  });
  loss.with_endpoints.before = before.with_endpoints;
  for (const auto& [key, entry] : services_) {
    if (!HasUsableEndpoints(entry) || KeepsEndpoints(key, entry)) continue;
    if (!base_->added.contains(SnapshotKey(Kind::kService, key))) ++loss.with_endpoints.lost;
  }
  return loss;
}

KindCounts Store::EndSnapshot(uint64_t sequence) {
  KindCounts removed = {};
  if (!snapshot_ || !snapshot_->removes) {
    snapshot_.reset();
    base_.reset();
    return removed;
  }
  std::vector<Change> changes;
  ForEachUnlisted([&](Kind kind, const std::string& key) {
    changes.push_back({.kind = kind, .key = key});
    ++removed[Index(kind)];
  });
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::tie(a.kind, a.key) < std::tie(b.kind, b.key);
  });
  for (auto& [key, change] : snapshot_->waiting) changes.push_back(std::move(change));
  snapshot_.reset();
  base_.reset();
  for (const Change& change : changes) Apply(change, sequence);
  return removed;
}

const ServiceEntry* Store::Find(const std::string& key) const {
  const auto found = services_.find(key);
  return found == services_.end() ? nullptr : &found->second;
}

void Store::ForEachService(
    const std::function<void(const std::string&, const ServiceEntry&)>& fn) const {
  for (const auto& [key, entry] : services_) fn(key, entry);
}

void Store::ForEachSlice(
    const std::function<void(const std::shared_ptr<const EndpointSlice>&)>& fn) const {
  for (const auto& [key, slice] : slices_) fn(slice);
}

}  // namespace svcmap::proxy
