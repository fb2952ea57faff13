// Stores the findings (rejections and warnings) about received objects until the object is removed
// or sent again without findings. Used by svcmapctl status. The size is bounded. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "proxy/state/objects.h"

namespace svcmap::api {

class FindingsBook {
 public:
  static constexpr size_t kMaxObjects = 1000;  // Findings of further objects are dropped.
  static constexpr size_t kMaxFindings = 100;  // Maximum number of findings per object for Add().

  // Replaces the findings of an object when the object is received.
  void Set(proxy::Kind kind, const std::string& key, const std::vector<proxy::Finding>& findings);
  // Call these functions at the start and end of a snapshot. EndSnapshot removes the findings of
  // objects that the snapshot did not contain.
  void BeginSnapshot();
  void EndSnapshot();

  // Adds findings that occur after the objects were converted, for example limits of the store.
  void Add(const std::vector<proxy::Finding>& findings);

  std::vector<proxy::Finding> All() const;

 private:
  using Key = std::pair<proxy::Kind, std::string>;
  mutable std::mutex mutex_;
  struct Reported {
    std::vector<proxy::Finding> findings;
    uint64_t snapshot = 0;  // Number of the snapshot in which the findings were reported.
  };
  bool HasRoomFor(const Key& key) const;

  std::map<Key, Reported> reported_;
  uint64_t snapshot_ = 0;
};

}  // namespace svcmap::api
