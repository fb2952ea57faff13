// What the cluster has, as the API server told it, and what the agent still has to be told.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/kube/resource.h"
#include "api/kube/wire/decode.h"

namespace svcmap::kube {

// Written by one watch per resource, read by the one that pushes. Objects are kept serialized, as
// changes of svcmap.v1; what is equal to what is held is no change. Threads: any.
class Mirror {
 public:
  // ---- The watches ----

  // A complete list: what it does not name is gone.
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
  void End();  // Wait returns kEnded from now on.

  // Takes the changes since the last Take..., the oldest first, as serialized v1::Change messages
  // of together at most `max_bytes` (one at least): what was changed and then removed is one
  // removal.
  std::vector<std::string> TakeChanges(size_t max_bytes);

  // Everything held, as if all of it had changed, instead of what had changed so far: TakeChanges
  // gives it. Removals that are waiting are dropped: a snapshot prunes.
  void StartSnapshot();
  bool AllTaken() const;

  struct Counts {
    size_t objects = 0;
    size_t waiting = 0;
    size_t bytes = 0;  // Serialized.
  };
  Counts counts() const;
};

}  // namespace svcmap::kube
