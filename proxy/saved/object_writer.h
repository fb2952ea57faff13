// Writes received objects to disk, so that the next run has them. ObjectStore writes to a file;
// tests use an implementation in memory.
//
// Only one thread may call these functions. None of them waits for the disk, except Await().
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "proxy/saved/leader.h"
#include "proxy/state/objects.h"

namespace svcmap::proxy {

struct SavedObject {
  Kind kind = Kind::kService;
  std::string key;
  std::string message;      // The object as received, serialized.
  uint64_t first_seen = 0;  // ServiceEntry::first_seen. 0 for other kinds.
};

// The state that a run finds on disk.
struct SavedObjects {
  std::vector<SavedObject> objects;  // Without duplicates.
  // True if the agent has received no complete state. The objects, if any, are a part of the first
  // snapshot, which has not ended.
  bool partial = false;
  uint64_t revision = 0;  // Of the last Write() or Rewrite(). 0: nothing was saved.
  Leader leader;
};

class ObjectWriter {
 public:
  using PutFn = std::function<void(Kind kind, const std::string& key, const std::string& message,
                                   uint64_t first_seen)>;

  virtual ~ObjectWriter() = default;

  // Collect changes for the next Write().
  virtual void Put(Kind kind, const std::string& key, const std::string& message,
                   uint64_t first_seen) = 0;
  virtual void Remove(Kind kind, const std::string& key) = 0;
  virtual void SetPartial(bool partial) = 0;

  // Starts to write the collected changes as one transaction. Does nothing if neither an object,
  // nor `partial`, nor the revision has changed.
  virtual void Write(uint64_t revision) = 0;
  // Waits for a limited time until all transactions are in the file. A later crash of the process
  // does not lose them. Returns false if saving does not work.
  virtual bool Await() = 0;

  // Returns false from the first error until a Rewrite() has succeeded.
  virtual bool works() const = 0;
  // Returns true if saving does not work and should be retried now.
  virtual bool needs_everything() const = 0;
  // Starts to replace the saved state. `objects` must call its argument with each object.
  virtual void Rewrite(const std::function<void(const PutFn&)>& objects, uint64_t revision) = 0;
};

}  // namespace svcmap::proxy
