#include "proxy/state/store.h"

#include <xxhash.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "proxy/state/port_range.h"

namespace svcmap::proxy {
namespace {

std::string SnapshotKey(Kind kind, const std::string& key) {
  return std::string(KindName(kind)) + " " + key;
}

// Returns the object, or null if it is not stored.
template <typename Objects>
typename Objects::mapped_type ObjectIn(const Objects& objects, const std::string& key) {
  const auto found = objects.find(key);
  return found == objects.end() ? nullptr : found->second;
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
  if (progress_.base && FollowSnapshot(change)) return false;
  if (trial_) trial_->undo.push_back(Stored(change.kind, change.key));
  return Replace(change, sequence);
}

bool Store::FollowSnapshot(const Change& change) {
  const std::string key = SnapshotKey(change.kind, change.key);
  if (change.removal()) {
    progress_.base->added.erase(key);
  } else if (Stored(change.kind, change.key).removal()) {
    progress_.base->added.insert(key);
  }
  if (!Removes()) return false;
  if (change.kind == Kind::kEndpointSlice) progress_.snapshot->waiting.erase(change.key);
  if (change.removal()) {
    progress_.snapshot->keys.erase(key);
    return false;
  }
  progress_.snapshot->keys.insert(key);
  if (!change.slice || HasUsableEndpoints(*change.slice)) return false;
  const auto held = ObjectIn(slices_, change.key);
  if (!held || !HasUsableEndpoints(*held)) return false;
  progress_.snapshot->waiting[change.key] = change;
  return true;
}

bool Store::Replace(const Change& change, uint64_t sequence) {
  const auto exchange = [&](auto& objects, const auto& after) {
    const auto before = ObjectIn(objects, change.key);
    if (Equal(before, after)) return false;
    if (after) {
      objects[change.key] = after;
    } else {
      objects.erase(change.key);
    }
    ++progress_.node_version;
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
    entry.first_seen =
        change.first_seen.value_or(progress_.snapshot ? progress_.snapshot->revision : revision_);
  }
  Touch(change, MessageOf(entry.service), MessageOf(change.service));
  const std::shared_ptr<const Service> before = std::exchange(entry.service, change.service);
  service_count_ += (change.service ? 1 : 0);
  service_count_ -= (before ? 1 : 0);
  elements_ += change.service ? ElementCount(*change.service) : 0;
  elements_ -= before ? ElementCount(*before) : 0;
  MarkDirty(change.key, sequence);
  const Claims::Moved claims = claims_.Update(before, change.service, entry.first_seen);
  progress_.moved |= !claims.others.empty() || (progress_.released && claims.acquired);
  progress_.released |= claims.released;
  if (claims.acquired || claims.released) NoteMove(change.key);
  for (const std::string& other : claims.others) {
    MarkDirty(other, sequence);
    NoteMove(other);
  }
  DropIfEmpty(change.key);
  return true;
}

bool Store::ApplySlice(const Change& change, uint64_t sequence) {
  const std::shared_ptr<const EndpointSlice> before = ObjectIn(slices_, change.key);
  const std::shared_ptr<const EndpointSlice>& after = change.slice;
  if (Equal(before, after)) return false;
  Touch(change, MessageOf(before), MessageOf(after));
  NoteMoves(before.get(), after.get());

  if (before && !before->service_key.empty()) {
    CountSlice(*before, -1);
    auto& slices = services_[before->service_key].slices;
    slices.erase(slices.find(before->key));
    if (!after || after->service_key != before->service_key) DropIfEmpty(before->service_key);
    MarkDirty(before->service_key, sequence);
  }
  if (after) {
    slices_[change.key] = after;
    if (!after->service_key.empty()) {
      services_[after->service_key].slices.insert(after);
      CountSlice(*after, 1);
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
  if (keep_moves_) progress_.moves[key].any = true;
}

// Handshakes exist only for TCP and SCTP. Departures are also recorded before KeepMoves(), because
// clients can use endpoints before the state is complete.
void Store::NoteMoves(const EndpointSlice* before, const EndpointSlice* after) {
  constexpr size_t kMaxAdded = 65'536;
  const auto has_handshakes = [](const EndpointSlice* slice) {
    return slice != nullptr && !slice->service_key.empty() &&
           absl::c_any_of(slice->ports,
                          [](const EndpointPort& p) { return p.protocol != Protocol::kUdp; });
  };
  const bool had = has_handshakes(before), has = has_handshakes(after);
  const bool stays = had && has && before->service_key == after->service_key;
  const bool same_ports =
      stays && absl::c_equal(before->ports, after->ports, [](const auto& a, const auto& b) {
        return a.port == b.port && a.protocol == b.protocol;
      });
  absl::flat_hash_set<IpAddress> left;
  if (had) {
    for (const Endpoint& endpoint : before->endpoints) left.insert(endpoint.address);
  }
  if (has && keep_moves_) {
    for (const Endpoint& endpoint : after->endpoints) {
      if ((stays && left.contains(endpoint.address)) || progress_.added >= kMaxAdded) continue;
      progress_.moves[after->service_key].added.push_back(endpoint.address);
      ++progress_.added;
    }
  }
  if (same_ports) {
    for (const Endpoint& endpoint : after->endpoints) left.erase(endpoint.address);
  }
  if (left.empty()) return;
  NoteMove(before->service_key);
  for (const IpAddress& address : left) {
    for (const EndpointPort& port : before->ports) {
      if (port.protocol != Protocol::kTcp) continue;
      progress_.moves[before->service_key].left.emplace(address, port.port);
    }
  }
}

ServiceMoves Store::TakeMoves(const std::string& key) {
  const auto found = progress_.moves.find(key);
  if (found == progress_.moves.end()) return {};
  ServiceMoves moves = std::move(found->second);
  progress_.moves.erase(found);
  progress_.added -= moves.added.size();
  return moves;
}

// `sign`: 1 adds the amounts of the slice, and -1 subtracts them.
void Store::CountSlice(const EndpointSlice& slice, int sign) {
  const auto factor = static_cast<uint64_t>(sign);
  ServiceEntry& entry = services_[slice.service_key];
  entry.endpoints[Index(slice.family)] += factor * slice.endpoints.size();
  entry.slots[Index(slice.family)] += factor * SlotCount(slice);
  elements_ += factor * ElementCount(slice);
}

void Store::Touch(const Change& change, const std::string* before, const std::string* after) {
  const auto count = [&](const std::string* message, uint64_t factor) {
    if (message == nullptr) return;
    bytes_ += factor * ObjectBytes(change.key, *message);
    const StateToken token = TokenOf(change.kind, change.key, *message);
    for (size_t i = 0; i < token.size(); ++i) progress_.token[i] += factor * token[i];
  };
  count(before, uint64_t{0} - 1);
  count(after, 1);
  progress_.touched.emplace(change.kind, change.key);
}

Change Store::Stored(Kind kind, const std::string& key) const {
  Change held{.kind = kind, .key = key};
  switch (kind) {
    case Kind::kService:
      if (const ServiceEntry* entry = Find(key); entry != nullptr && entry->service) {
        held.service = entry->service;
        held.first_seen = entry->first_seen;
      }
      break;
    case Kind::kEndpointSlice:
      held.slice = ObjectIn(slices_, key);
      break;
    case Kind::kNode:
      held.node = ObjectIn(nodes_, key);
      break;
    case Kind::kServiceCidr:
      held.service_cidr = ObjectIn(service_cidrs_, key);
      break;
  }
  return held;
}

const std::string* Store::FindLatestSlice(const std::string& key) const {
  if (progress_.snapshot) {
    const auto waiting = progress_.snapshot->waiting.find(key);
    if (waiting != progress_.snapshot->waiting.end()) return MessageOf(waiting->second.slice);
  }
  return MessageOf(ObjectIn(slices_, key));  // The stored object keeps the text valid.
}

void Store::BeginTrial() {
  Progress trial{.node_version = progress_.node_version, .token = progress_.token};
  trial_ = Trial{.undo = {}, .before = std::exchange(progress_, std::move(trial))};
}

void Store::EndTrial() {
  Trial trial = *std::exchange(trial_, std::nullopt);
  for (auto change = trial.undo.rbegin(); change != trial.undo.rend(); ++change) {
    Replace(*change, 0);
  }
  progress_ = std::move(trial.before);
}

void Store::DropIfEmpty(const std::string& key) {
  const auto found = services_.find(key);
  if (found != services_.end() && !found->second.service && found->second.slices.empty()) {
    services_.erase(found);
  }
}

void Store::MarkDirty(const std::string& key, uint64_t sequence) {
  if (progress_.dirty.size() == 0) progress_.released = progress_.moved = false;
  progress_.dirty.Mark(key, sequence);
}

// Inserts the Services at the front of the list with sequence number 0, so that no batch of changes
// waits for these Services.
void Store::MarkDirtyIf(const std::function<bool(const ServiceEntry&)>& affected) {
  std::vector<DirtyService> dirty;
  for (const auto& [key, entry] : services_) {
    if (entry.service && affected(entry)) dirty.push_back({.key = key});
  }
  std::ranges::sort(dirty, {}, &DirtyService::key);
  if (progress_.dirty.size() == 0) progress_.released = progress_.moved = false;
  progress_.dirty.Return(std::move(dirty));
}

void Store::BeginSnapshot() {
  progress_.snapshot.reset();
  const bool removes =
      !services_.empty() || !slices_.empty() || !nodes_.empty() || !service_cidrs_.empty();
  if (removes && !progress_.base) {
    progress_.base = {.amounts = CountObjects(), .added = {}};
  }
  progress_.snapshot = {.revision = revision_, .removes = removes, .keys = {}, .waiting = {}};
}

void Store::AddToSnapshot(Kind kind, const std::string& key) {
  if (Removes()) progress_.snapshot->keys.insert(SnapshotKey(kind, key));
}

void Store::ForEachUnlisted(const std::function<void(Kind, const std::string&)>& fn) const {
  ForEachObject([&](Kind kind, const std::string& key) {
    if (!progress_.snapshot->keys.contains(SnapshotKey(kind, key))) fn(kind, key);
  });
}

bool Store::KeepsEndpoints(const std::string& key, const ServiceEntry& entry) const {
  if (!Removes()) return HasUsableEndpoints(entry);
  if (!entry.service || !progress_.snapshot->keys.contains(SnapshotKey(Kind::kService, key)))
    return false;
  return std::ranges::any_of(entry.slices, [this](const auto& slice) {
    return HasUsableEndpoints(*slice) && !progress_.snapshot->waiting.contains(slice->key) &&
           progress_.snapshot->keys.contains(SnapshotKey(Kind::kEndpointSlice, slice->key));
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
  if (!Removes() || !progress_.base) return loss;
  const Amounts& before = progress_.base->amounts;
  for (size_t kind = 0; kind < before.objects.size(); ++kind) {
    loss.kinds[kind].before = before.objects[kind];
  }
  ForEachUnlisted([&](Kind kind, const std::string& key) {
    if (!progress_.base->added.contains(SnapshotKey(kind, key))) ++loss.kinds[Index(kind)].lost;
  });
  loss.with_endpoints.before = before.with_endpoints;
  for (const auto& [key, entry] : services_) {
    if (!HasUsableEndpoints(entry) || KeepsEndpoints(key, entry)) continue;
    if (!progress_.base->added.contains(SnapshotKey(Kind::kService, key)))
      ++loss.with_endpoints.lost;
  }
  return loss;
}

KindCounts Store::EndSnapshot(uint64_t sequence) {
  KindCounts removed = {};
  std::vector<Change> changes;
  if (Removes()) {
    ForEachUnlisted([&](Kind kind, const std::string& key) {
      changes.push_back({.kind = kind, .key = key});
      ++removed[Index(kind)];
    });
    std::ranges::sort(changes, {}, [](const Change& c) { return std::tie(c.kind, c.key); });
    for (auto& [key, change] : progress_.snapshot->waiting) changes.push_back(std::move(change));
  }
  progress_.snapshot.reset();
  progress_.base.reset();
  for (const Change& change : changes) Apply(change, sequence);
  return removed;
}

const ServiceEntry* Store::Find(const std::string& key) const {
  const auto found = services_.find(key);
  return found == services_.end() ? nullptr : &found->second;
}

void Store::ForEachObject(const std::function<void(Kind, const std::string&)>& fn) const {
  for (const auto& [key, entry] : services_) {
    if (entry.service) fn(Kind::kService, key);
  }
  for (const auto& [key, slice] : slices_) fn(Kind::kEndpointSlice, key);
  for (const auto& [key, node] : nodes_) fn(Kind::kNode, key);
  for (const auto& [key, cidr] : service_cidrs_) fn(Kind::kServiceCidr, key);
}

std::string LossBeyond(const SnapshotLoss& loss, unsigned percent) {
  std::string text;
  const auto add = [&](const SnapshotLoss::Part& part, std::string_view name) {
    if (percent == 0 || part.before < kMinBoundedObjects) return;
    if (part.lost * 100 < part.before * percent) return;
    if (!text.empty()) text += ", ";
    text += std::to_string(part.lost) + " of " + std::to_string(part.before) + " ";
    text += name;
  };
  for (const Kind kind : kKinds) {
    add(loss.kinds[Index(kind)], std::string(KindName(kind)) + "s");
  }
  add(loss.with_endpoints, "Services with endpoints");
  add(loss.previous_services, "Services with endpoints in the rules of the previous run");
  return text;
}

}  // namespace svcmap::proxy
