// Saved objects in memory, with failures. One FakeDisk holds the state of several runs.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "proxy/saved/object_writer.h"

namespace svcmap::proxy::test {

class FakeDisk : public ObjectWriter {
 public:
  // Called once for each transaction and each rewrite. Returns true if the write fails.
  std::function<bool()> fails = [] { return false; };

  // Starts the next run. The last `lost` transactions that the previous run did not wait for are
  // lost. Returns what the run finds.
  SavedObjects Begin(size_t lost = 0) {
    while (lost-- > 0 && !written_.empty()) written_.pop_back();
    works_ = true;
    Await();
    SavedObjects found{.objects = {}, .partial = partial_, .revision = revision_, .leader = {}};
    for (const auto& [key, object] : objects_) found.objects.push_back(object);
    return found;
  }
  size_t unfinished() const { return written_.size(); }
  // The disk fails from now on, including earlier writes without an Await().
  void Break() {
    works_ = false;
    fails = [] { return true; };
  }

  void Write(SavedBatch batch) override {
    if (batch.everything) written_.clear();
    works_ = (works_ || batch.everything) && !fails();
    if (works_) written_.push_back(std::move(batch));
  }
  bool Await() override {
    for (const SavedBatch& batch : std::exchange(written_, {})) {
      if (batch.everything) objects_.clear();
      for (const SavedObject& object : batch.objects) {
        objects_.erase({object.kind, object.key});
        if (object.message) objects_[{object.kind, object.key}] = object;
      }
      partial_ = batch.partial;
      revision_ = batch.revision;
    }
    return works_;
  }
  bool works() const override { return works_; }
  bool needs_everything() const override { return !works_; }

 private:
  std::deque<SavedBatch> written_;  // Lost if the process is killed before Await().
  bool works_ = true;
  std::map<std::pair<Kind, std::string>, SavedObject> objects_;
  bool partial_ = false;
  uint64_t revision_ = 0;
};

}  // namespace svcmap::proxy::test
