// Saves the received objects for the next run. A write to the disk runs at the same time as the
// commit to the kernel.
//
// Not thread-safe.
#pragma once

#include <cstdint>

#include "proxy/saved/object_writer.h"
#include "proxy/state/store.h"

namespace svcmap::proxy {

class Journal {
 public:
  // If `disk` is null, nothing is saved.
  Journal(ObjectWriter* disk, Store& store);

  // Call Outdate if the saved objects are not those of the stored state. The next Write() replaces
  // all saved objects.
  void Outdate() { outdated_ = true; }
  // Sets whether the stored objects are only a part of the first snapshot, which has not ended.
  void SetPartial(bool partial) { partial_ = partial; }

  // Starts to save the objects that have changed since the last call. `revision` is the revision of
  // the tables after the commit of these changes.
  void Write(uint64_t revision);
  // Waits until the objects of Write() are saved. Returns false if saving does not work.
  bool Await();
  // Starts to save all objects again if an error had stopped saving and a retry is due.
  void Retry(uint64_t revision);

  // Returns true if all objects that were passed to Write() are saved, or are being saved.
  bool works() const { return disk_ != nullptr && !outdated_ && disk_->works(); }
  // Returns true if objects are saved, even if saving does not work at the moment.
  bool enabled() const { return disk_ != nullptr; }

 private:
  ObjectWriter* const disk_;
  Store& store_;
  bool outdated_ = false;
  bool partial_ = false;
};

}  // namespace svcmap::proxy
