// Writes received objects to disk, so that the next run has them. ObjectStore writes to a file;
// tests use an implementation in memory.
//
// Only one thread may call these functions. None of them waits for the disk, except Await().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proxy/state/objects.h"

namespace svcmap::proxy {

// The controller session with the highest epoch that the agent has accepted.
struct Leader {
  uint64_t epoch = 0;  // 0 if no controller has sent an epoch.
  std::string name;
  std::string instance;
  friend bool operator==(const Leader&, const Leader&) = default;
};

struct SavedObject {
  Kind kind = Kind::kService;
  std::string key;
  // The object as received, serialized. Absent in a SavedBatch if the object was removed.
  std::optional<std::string> message;
  uint64_t first_seen = 0;  // ServiceEntry::first_seen. 0 for other kinds.
};

// The state that a run finds on disk.
struct SavedObjects {
  std::vector<SavedObject> objects;  // Without duplicates.
  // True if the agent has received no complete state. The objects, if any, are a part of the first
  // snapshot, which has not ended.
  bool partial = false;
  uint64_t revision = 0;  // Of the last SavedBatch. 0: nothing was saved.
  Leader leader;
};

// The content of one transaction.
struct SavedBatch {
  bool everything = false;  // `objects` replaces all saved objects.
  std::vector<SavedObject> objects;
  bool partial = false;  // As in SavedObjects.
  uint64_t revision = 0;
};

class ObjectWriter {
 public:
  virtual ~ObjectWriter() = default;

  // Starts to write the batch. Does nothing if neither an object, nor `partial`, nor the revision
  // has changed.
  virtual void Write(SavedBatch batch) = 0;
  // Waits for a limited time until all transactions are in the file. A later crash of the process
  // does not lose them. Returns false if saving does not work.
  virtual bool Await() = 0;

  // Returns false from the first error until a batch with everything is written.
  virtual bool works() const = 0;
  // Returns true if saving does not work and should be retried now, with a batch of everything.
  virtual bool needs_everything() const = 0;
};

}  // namespace svcmap::proxy
