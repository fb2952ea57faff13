// Stores the objects as received from the API server or etcd, and the changes that are not
// sent to svcmapd yet.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "api/source/object.h"

namespace svcmap::source {

// The watches write objects, and Push reads the changes. Objects are stored as
// serialized v1::Change messages. An object that is equal to the stored version is not a change.
// The cost of a call depends on the size of the change, except for Replace and StartSnapshot. In
// addition to its serialized size, an object takes about 200 bytes including its key. Thread-safe.
//
// A change counts as sent when Push has taken it. If a taken change may not have arrived, or if a
// snapshot was interrupted, Push must call StartSnapshot again.
class Mirror {
 public:
  // ---- Called by the watches ----

  // Stores a complete list. Removes objects that `items` does not contain. Each item must contain
  // an object.
  void Replace(Resource resource, std::vector<Item> items);
  void Upsert(Resource resource, const Item& item);
  void Remove(Resource resource, const std::string& key);

  // A change of one object. Without item.change, the object is removed.
  struct Change {
    Resource resource;
    Item item;
  };
  // Stores a group of changes, which TakeChanges returns together. `position` identifies the state
  // with these changes.
  void Apply(std::vector<Change> group, uint64_t position);

  // Stores complete lists of all resources as one group. An item without `change` keeps the stored
  // object, if any. If the mirror was complete before and the lists remove at least
  // kSnapshotRemovals objects, the changes are sent as a snapshot, because svcmapd holds snapshots
  // that remove too many objects (svcmapd's flag --hold-removals).
  using Lists = std::array<std::vector<Item>, kResources.size()>;
  void ReplaceAll(Lists lists, uint64_t position);
  static constexpr size_t kSnapshotRemovals = 10;

  // ---- Called by Push ----

  // Returns whether each resource was listed at least once. Nothing may be sent before that,
  // because a snapshot prunes the objects that it does not contain.
  bool complete() const;

  enum class Wake : uint8_t { kChanges, kSnapshot, kTimeout, kEnded };
  // Waits until the mirror is complete and has changes, until `deadline`, or until End or Interrupt
  // is called. Returns kSnapshot if the changes must be sent as a snapshot.
  Wake Wait(std::chrono::steady_clock::time_point deadline);
  void End();        // Wait returns kEnded from now on.
  void Interrupt();  // The current or the next call of Wait returns kTimeout immediately.

  // Takes waiting changes, oldest first, and returns serialized v1::Change messages. Their total
  // size is at most `max_bytes`, but at least one waiting change is returned. If an object was
  // changed and then removed, only the removal is returned.
  //
  // Changes of a group are taken in one call, up to `max_group_bytes`, even if they exceed
  // `max_bytes`. If a later group changes an object that is still waiting, both groups and all
  // changes between them are taken in one call. Objects that StartSnapshot has marked belong to no
  // group, because a snapshot becomes complete with its end.
  //
  // Takes nothing if the changes must be sent as a snapshot.
  std::vector<std::string> TakeChanges(size_t max_bytes, size_t max_group_bytes = 0);

  // Marks all stored objects as changed and drops all earlier changes, including removals, because
  // a snapshot prunes. TakeChanges then returns EndpointSlices before Services, because a Service
  // without EndpointSlices rejects connections. If an object is removed before TakeChanges returns
  // the object, TakeChanges returns neither the object nor its removal. If an object is removed
  // afterwards, TakeChanges returns its removal.
  void StartSnapshot();
  bool snapshot_wanted() const;

  // Returns the position of the state that contains all changes, or nullopt if TakeChanges has not
  // returned all of them yet.
  std::optional<uint64_t> SentPosition() const;

  struct Counts {
    size_t objects = 0;
    size_t waiting = 0;
    size_t bytes = 0;  // Total size of the serialized objects.
  };
  Counts counts() const;

 private:
  struct Stored {
    // A serialized v1::Change. Empty if the object was removed, but its removal is still waiting.
    std::string bytes;
    uint64_t turn = 0;  // Key in waiting_, or 0 if no change is waiting.
    uint32_t list = 0;  // Number of the last list that contained the object.
    bool sent = false;  // True if the object was taken since the last StartSnapshot.
  };
  using Objects = std::unordered_map<std::string, Stored>;

  // mutex_ must be held.
  size_t ReplaceOne(Resource resource, std::vector<Item> items);  // Returns the number of removals.
  void EndGroup(uint64_t position);
  // Returns whether the change must be taken together with the previous change.
  bool IsJoined(uint64_t turn) const;
  void Put(Resource resource, const std::string& key, std::string bytes);
  void RemoveObject(Resource resource, Objects::iterator object);
  // Appends the object to waiting_ unless it is already waiting.
  void Line(Resource resource, Objects::value_type& object);
  bool Complete() const;
  void WakeUp();

  Objects& objects(Resource resource) { return objects_[static_cast<size_t>(resource)]; }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  bool interrupted_ = false;
  std::array<Objects, kResources.size()> objects_;
  std::array<uint32_t, kResources.size()> lists_{};  // Number of lists per resource.
  // Oldest first. Each pointer stays valid until its object is erased.
  absl::btree_map<uint64_t, std::pair<Resource, Objects::value_type*>> waiting_;
  uint64_t last_turn_ = 0;
  uint64_t snapshot_turn_ = 0;  // The last turn of the last StartSnapshot.
  // The first turn that changed since the end of the last group.
  uint64_t group_start_ = UINT64_MAX;
  // First and last turns of changes that are taken in one call. The ranges do not overlap.
  absl::btree_map<uint64_t, uint64_t> groups_;
  bool snapshot_wanted_ = false;
  uint64_t position_ = 0;
  Counts counts_;  // Does not include `waiting`.
};

}  // namespace svcmap::source
