// What an API server holds: objects with versions, and what happened to them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/support/kube_encoding.h"

namespace svcmap::testing {

// One version of an object.
class StoredObject {
 public:
  StoredObject(v1::Object object, uint64_t version);

  const v1::Object& object() const { return object_; }
  uint64_t version() const { return version_; }
  const std::string& Item(Encoding encoding) const;  // EncodeItem's.

 private:
  const v1::Object object_;
  const uint64_t version_;
  const std::string protobuf_;
  mutable std::once_flag json_once_;
  mutable std::string json_;
};
using StoredObjectPtr = std::shared_ptr<const StoredObject>;

// Label and field selectors of a query, as far as the server knows the fields.
class KubeSelector {
 public:
  // "!a", "a", "a=b", "a==b", "a!=b", several with commas. INVALID_ARGUMENT: anything else, and
  // fields that this collection cannot be selected by.
  static absl::StatusOr<KubeSelector> Parse(Collection collection, const std::string& labels,
                                            const std::string& fields);
  bool Matches(const v1::Object& object) const;

 private:
  struct Term {
    enum class Kind : uint8_t { kPresent, kAbsent, kEqual, kNotEqual } kind;
    std::string key, value;
  };
  static absl::StatusOr<std::vector<Term>> ParseTerms(const std::string& text);

  std::vector<Term> labels_, fields_;
};

// Thread-safe.
class KubeStore {
 public:
  // An equal object is no change.
  void Put(const v1::Object& object);
  // False if it was not there.
  bool Remove(Collection collection, const std::string& key);

  StoredObjectPtr Get(Collection collection, const std::string& key) const;
  uint64_t version() const;

  // What a list is made of: by key, as of one version. Pages of one list are of the same version.
  struct Snapshot {
    uint64_t version = 0;
    std::vector<StoredObjectPtr> objects;
  };
  Snapshot List(Collection collection) const;

  struct Event {
    uint64_t version = 0;
    StoredObjectPtr before;  // With the version of the event; null: it was added.
    StoredObjectPtr after;   // Null: it was deleted.
  };
  // Those after `version`, the oldest first. OUT_OF_RANGE: they are not all kept any more.
  absl::StatusOr<std::vector<Event>> EventsAfter(Collection collection, uint64_t version) const;

  // Of any collection, and of Wake: a number that grows. Returns at once if it is not `seen`.
  uint64_t WaitForMore(uint64_t seen, std::chrono::milliseconds timeout) const;
  void Wake();

  // Keeps only the newest `count` events of each collection.
  void KeepEvents(size_t count);
  // Deletes all events, so that clients with an old version must list again.
  void ForgetEvents();

 private:
  struct Kept {
    std::map<std::string, StoredObjectPtr> objects;  // By key.
    std::deque<Event> events;
    uint64_t floor = 0;  // Who knows less than this has missed events that are forgotten.
  };
  void Log(Kept& kept, Event event);  // With mutex_ held.
  void Trim(Kept& kept);              // With mutex_ held.

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<Collection, Kept> kept_;
  uint64_t version_ = 1000;
  uint64_t wakes_ = 0;
  size_t keep_events_ = 10000;
};

std::string KeyOf(const v1::Object& object);  // "namespace/name", or "name".

}  // namespace svcmap::testing
