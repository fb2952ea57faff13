// What the cluster has, as the API server told it, and what the agent still has to be told.
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
#include "api/kube/resource.h"
#include "api/kube/wire/decode.h"

namespace svcmap::kube {

// Written by one watch per resource, read by the one that pushes. Objects are kept serialized, as
// changes of svcmap.v1; what is equal to what is held is no change. Costs follow the change, but
// for Replace and StartSnapshot. Beside its bytes an object takes some 200, its key among them.
// Threads: any.
//
// What is taken counts as told: where it did not arrive, or may not have, the push has to start a
// snapshot, and one that broke off from its beginning.
class Mirror {
 public:
  // ---- The watches ----

  // A complete list: what it does not name is gone. Items have their object.
  void Replace(Resource resource, std::vector<Item> items);
  void Upsert(Resource resource, const Item& item);
  void Remove(Resource resource, const std::string& key);

  // ---- The push ----

  // Whether every resource was listed once. Before that nothing may be pushed: a snapshot would
  // prune what was not listed yet.
  bool complete() const;

  enum class Wake : uint8_t { kChanges, kTimeout, kEnded };
  // Until the mirror is complete and there are changes, `deadline`, or End.
  Wake Wait(std::chrono::steady_clock::time_point deadline);
  void End();        // Wait returns kEnded from now on.
  void Interrupt();  // Wait returns kTimeout at once, now or the next time it is called.

  // Takes the changes since the last Take..., the oldest first, as serialized v1::Change messages
  // of together at most `max_bytes` (one at least): what was changed and then removed is one
  // removal.
  std::vector<std::string> TakeChanges(size_t max_bytes);

  // Everything held, as if all of it had changed, instead of what had changed so far: TakeChanges
  // gives it, slices before Services, which would reject without them. Removals that are waiting
  // are dropped: a snapshot prunes. So is what goes before it was taken; what goes afterwards
  // becomes a removal.
  void StartSnapshot();
  bool AllSent() const;

  struct Counts {
    size_t objects = 0;
    size_t waiting = 0;
    size_t bytes = 0;  // Serialized.
  };
  Counts counts() const;

 private:
  struct Stored {
    std::string bytes;  // A serialized v1::Change. Empty: gone, and the agent has to be told.
    uint64_t turn = 0;  // Its key in waiting_; 0: it does not wait.
    uint32_t list = 0;  // The number of the last list that named it.
    bool sent = false;  // Taken since the last StartSnapshot.
  };
  using Objects = std::unordered_map<std::string, Stored>;

  // With mutex_ held.
  void Put(Resource resource, const std::string& key, std::string bytes);
  void RemoveObject(Resource resource, Objects::iterator object);
  void Line(Resource resource, Objects::value_type& object);  // At the end, unless it stands there.
  bool Complete() const;
  void WakeUp();

  Objects& objects(Resource resource) { return objects_[static_cast<size_t>(resource)]; }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  bool interrupted_ = false;
  std::array<Objects, kResources.size()> objects_;
  std::array<uint32_t, kResources.size()> lists_{};  // How many there were.
  // The oldest first. Objects stay where they are in their map.
  absl::btree_map<uint64_t, std::pair<Resource, Objects::value_type*>> waiting_;
  uint64_t last_turn_ = 0;
  Counts counts_;  // All but `waiting`.
};

}  // namespace svcmap::kube
