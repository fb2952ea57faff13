// Stores the objects as received from the API server or etcd, and the changes that are not
// sent to svcmapd yet.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "api/source/object.h"
#include "api/source/resource.h"

namespace svcmap::source {

// Each watch writes the objects of one resource, and Push reads the changes. Objects are stored as
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

  // ---- Called by Push ----

  // Returns whether each resource was listed at least once. Nothing may be sent before, because a
  // snapshot prunes the objects that it does not contain.
  bool complete() const;

  enum class Wake : uint8_t { kChanges, kTimeout, kEnded };
  // Waits until the mirror is complete and has changes, until `deadline`, or until End or Interrupt
  // is called.
  Wake Wait(std::chrono::steady_clock::time_point deadline);
  void End();        // Wait returns kEnded from now on.
  void Interrupt();  // The current or the next call of Wait returns kTimeout immediately.

  // Takes waiting changes, oldest first, and returns serialized v1::Change messages. Their total
  // size is at most `max_bytes`, but at least one waiting change is returned. If an object was
  // changed and then removed, only the removal is returned.
  std::vector<std::string> TakeChanges(size_t max_bytes);

  // Marks all stored objects as changed and drops all earlier changes, including removals, because
  // a snapshot prunes. TakeChanges then returns EndpointSlices before Services, because a Service
  // without EndpointSlices rejects connections. An object that is removed before it was taken is
  // not returned. An object that is removed after it was taken results in a removal.
  void StartSnapshot();
  bool AllSent() const;

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
  Counts counts_;  // Does not include `waiting`.
};

}  // namespace svcmap::source
