// The storage of the fake API server, which contains objects with versions and their events.
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
  const std::string& item() const { return item_; }  // Returns the result of EncodeItem.

 private:
  const v1::Object object_;
  const std::string item_;
};
using StoredObjectPtr = std::shared_ptr<const StoredObject>;

// Label and field selectors of a request.
class KubeSelector {
 public:
  // Parses "!a", "a", "a=b", "a==b", "a!=b", or a comma-separated list of these. Returns
  // INVALID_ARGUMENT for any other syntax and for fields that the collection does not support.
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
  // Adds or updates an object. Storing an equal object does not create a new version.
  void Put(const v1::Object& object);
  // Removes an object. Returns false if the object did not exist.
  bool Remove(Collection collection, const std::string& key);

  StoredObjectPtr Get(Collection collection, const std::string& key) const;
  uint64_t version() const;

  // The contents of a list at one version, by key. All pages of a list have the same version.
  struct Snapshot {
    uint64_t version = 0;
    std::vector<StoredObjectPtr> objects;
  };
  Snapshot List(Collection collection) const;

  struct Event {
    uint64_t version = 0;
    // The object before the event, with the version of the event. Null if the event added the
    // object.
    StoredObjectPtr before;
    StoredObjectPtr after;  // The object after the event. Null if the event deleted the object.
  };
  // Returns the events after `version`, oldest first. Returns OUT_OF_RANGE if some of these events
  // are no longer stored.
  absl::StatusOr<std::vector<Event>> EventsAfter(Collection collection, uint64_t version) const;

  // Waits for the next event or Wake call. Returns a number that increases with each event in any
  // collection and with each Wake call. Returns immediately if the number differs from `seen`.
  uint64_t WaitForMore(uint64_t seen, std::chrono::milliseconds timeout) const;
  void Wake();

  // Deletes all events, so that clients with an older version must list again.
  void ForgetEvents();

 private:
  struct Kept {
    std::map<std::string, StoredObjectPtr> objects;  // Objects of the collection by key.
    std::deque<Event> events;
    // Oldest version from which events are complete. Clients with an older version have missed
    // deleted events.
    uint64_t floor = 0;
  };
  void Log(Kept& kept, Event event);  // The caller holds mutex_.
  void Trim(Kept& kept);              // The caller holds mutex_.

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::map<Collection, Kept> kept_;
  uint64_t version_ = 1000;
  uint64_t wakes_ = 0;
};

// Returns "namespace/name", or "name" for objects without namespace.
std::string KeyOf(const v1::Object& object);

}  // namespace svcmap::testing
