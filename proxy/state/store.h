// Everything we were told, by object: the state that the kernel is brought to. Keeps which Services
// have changed since they were last taken, in the order in which they changed first.
//
// Not thread-safe; owned by the reconcile loop. The objects themselves are immutable.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "proxy/state/claims.h"
#include "proxy/state/objects.h"

namespace svcmap::proxy {

// A Service with its slices. Either may be there without the other (S-28).
struct ServiceEntry {
  std::shared_ptr<const Service> service;
  std::vector<std::shared_ptr<const EndpointSlice>> slices;
};

// Stands for a set of objects: equal for equal messages under equal names, in whatever order they
// came. Not for those who want to be deceived: the hash is no cryptographic one.
using StateToken = std::array<uint64_t, 2>;

class Store {
 public:
  // Takes one change over; `sequence` says when, and never decreases. An object equal to the one
  // held changes nothing: false.
  bool Apply(const Change& change, uint64_t sequence);

  // Between BeginSnapshot and EndSnapshot applied changes and Mention() say what the snapshot
  // names; EndSnapshot removes the rest. Beginning again forgets the snapshot that was open.
  void BeginSnapshot();
  void Mention(Kind kind, const std::string& key);
  void EndSnapshot(uint64_t sequence);
  // What was named is forgotten, and nothing is removed.
  void AbandonSnapshot() { mentioned_.reset(); }

  // What is applied from here to EndTrial() is only tried: then everything is again as it was, at a
  // cost that follows what was tried. A trial begins with nothing dirty and without a snapshot.
  void BeginTrial();
  void EndTrial();

  // From now on it is kept which objects have changed.
  void KeepTouched() { keep_touched_ = true; }
  // Each object that changed since the last call, once or more.
  std::vector<std::pair<Kind, std::string>> TakeTouched() { return std::exchange(touched_, {}); }
  // Of all objects held.
  const StateToken& token() const { return token_; }
  // What would bring the object back to what is held of it.
  Change Held(Kind kind, const std::string& key) const;
  // The object as it was sent, serialized; null if it is not held.
  const std::string* FindMessage(Kind kind, const std::string& key) const;

  // The Service that changed first, without taking it; nothing when none is left.
  struct Dirty {
    std::string key;
    uint64_t sequence;
  };
  const Dirty* FirstDirty() const { return dirty_.empty() ? nullptr : &dirty_.front(); }
  Dirty TakeDirty();
  // Puts back what could not be programmed, in front of the others.
  void ReturnDirty(std::vector<Dirty> dirty);
  // Walks all Services.
  void MarkDirtyIf(const std::function<bool(const ServiceEntry&)>& affected);
  // One Service, known or not.
  void MarkDirty(const std::string& key, uint64_t sequence);

  template <typename Fn>
  void ForEachDirty(Fn&& fn) const {
    for (const Dirty& dirty : dirty_) fn(dirty);
  }
  size_t dirty_count() const { return dirty_.size(); }
  // True if, since nothing was dirty, an address may have gone from one Service to another: they
  // must be programmed together.
  bool addresses_moved() const { return moved_; }

  const ServiceEntry* Find(const std::string& key) const;
  const Claims& claims() const { return claims_; }
  const absl::btree_map<std::string, std::shared_ptr<const Node>>& nodes() const { return nodes_; }
  const absl::btree_map<std::string, std::shared_ptr<const ServiceCidr>>& service_cidrs() const {
    return service_cidrs_;
  }
  // Grows whenever a Node or a ServiceCIDR changes.
  uint64_t node_version() const { return node_version_; }

  void ForEachService(const std::function<void(const std::string&, const ServiceEntry&)>& fn) const;
  void ForEachSlice(
      const std::function<void(const std::shared_ptr<const EndpointSlice>&)>& fn) const;
  size_t service_count() const { return service_count_; }
  size_t slice_count() const { return slices_.size(); }

 private:
  using Slices = std::vector<std::shared_ptr<const EndpointSlice>>;

  // What stands still during a trial, and what was there before it.
  struct Trial {
    std::vector<Change> undo;                         // The last one first.
    absl::flat_hash_map<std::string, Slices> slices;  // Of the Services whose slices were tried.
    uint64_t node_version;
    StateToken token;
    std::vector<std::pair<Kind, std::string>> touched;
    std::deque<Dirty> dirty;
    absl::flat_hash_set<std::string> dirty_keys;
    bool released;
    bool moved;
    std::optional<absl::flat_hash_set<std::string>> mentioned;
  };

  bool Replace(const Change& change, uint64_t sequence);
  void Remember(const Change& change);
  bool ApplyService(const Change& change, uint64_t sequence);
  bool ApplySlice(const Change& change, uint64_t sequence);
  void DropIfEmpty(const std::string& key);
  // To be called with the object as it was and as it is; null where it is not there.
  void Touch(const Change& change, const std::string* before, const std::string* after);

  absl::flat_hash_map<std::string, ServiceEntry> services_;
  absl::flat_hash_map<std::string, std::shared_ptr<const EndpointSlice>> slices_;
  absl::btree_map<std::string, std::shared_ptr<const Node>> nodes_;
  absl::btree_map<std::string, std::shared_ptr<const ServiceCidr>> service_cidrs_;
  size_t service_count_ = 0;
  uint64_t node_version_ = 0;
  Claims claims_;

  StateToken token_ = {};
  bool keep_touched_ = false;
  std::vector<std::pair<Kind, std::string>> touched_;

  std::deque<Dirty> dirty_;
  absl::flat_hash_set<std::string> dirty_keys_;
  bool released_ = false;  // Since nothing was dirty some Service has given up an address.
  bool moved_ = false;
  std::optional<absl::flat_hash_set<std::string>>
      mentioned_;  // "KIND key", while a snapshot is open.
  std::optional<Trial> trial_;
};

}  // namespace svcmap::proxy
