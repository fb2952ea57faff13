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
    Finish();
    collected_ = {};
    works_ = true;
    SavedObjects found{.objects = {}, .partial = partial_, .revision = revision_, .leader = {}};
    for (const auto& [key, object] : objects_) found.objects.push_back(object);
    return found;
  }
  size_t unfinished() const { return written_.size(); }

  void Put(Kind kind, const std::string& key, const std::string& message,
           uint64_t first_seen) override {
    collected_.objects[{kind, key}] = {kind, key, message, first_seen};
  }
  void Remove(Kind kind, const std::string& key) override {
    collected_.objects[{kind, key}] = {kind, key, "", kRemoved};
  }
  void SetPartial(bool partial) override { collected_.partial = partial_now_ = partial; }
  void Write(uint64_t revision) override {
    collected_.revision = revision;
    Transaction transaction = std::exchange(collected_, {});
    if (works_ && !fails()) {
      written_.push_back(std::move(transaction));
    } else {
      works_ = false;
    }
  }
  bool Await() override {
    Finish();
    return works_;
  }
  bool works() const override { return works_; }
  bool needs_everything() const override { return !works_; }
  void Rewrite(const std::function<void(const PutFn&)>& objects, uint64_t revision) override {
    works_ = !fails();
    if (!works_) return;
    written_.clear();
    collected_ = {.everything = true, .partial = partial_now_};
    objects([this](Kind kind, const std::string& key, const std::string& message,
                   uint64_t first_seen) { Put(kind, key, message, first_seen); });
    Write(revision);
  }

 private:
  static constexpr uint64_t kRemoved = UINT64_MAX;
  using Objects = std::map<std::pair<Kind, std::string>, SavedObject>;
  struct Transaction {
    bool everything = false;
    Objects objects;
    std::optional<bool> partial;
    uint64_t revision = 0;
  };

  void Finish() {
    for (const Transaction& transaction : std::exchange(written_, {})) {
      if (transaction.everything) objects_.clear();
      for (const auto& [key, object] : transaction.objects) {
        if (object.first_seen == kRemoved) {
          objects_.erase(key);
        } else {
          objects_[key] = object;
        }
      }
      if (transaction.partial) partial_ = *transaction.partial;
      revision_ = transaction.revision;
    }
  }

  Transaction collected_;
  std::deque<Transaction> written_;  // Lost if the process is killed before Await().
  bool works_ = true;
  bool partial_now_ = false;
  Objects objects_;
  bool partial_ = false;
  uint64_t revision_ = 0;
};

}  // namespace svcmap::proxy::test
