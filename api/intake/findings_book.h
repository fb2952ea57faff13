// What we have to say about objects, by object: refusals and warnings, until the object is sent
// again in order or removed. For svcmapctl status; bounded. Any thread.
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
  static constexpr size_t kMaxObjects = 1000;  // Of more, only the number is kept.

  // Replaces what was said about an object when it came in.
  void Set(proxy::Kind kind, const std::string& key, const std::vector<proxy::Finding>& findings);
  // Adds to it what came up when it was programmed.
  void Add(const std::vector<proxy::Finding>& findings);

  std::vector<proxy::Finding> All() const;
  uint64_t refused_total() const;  // Refusals since the start.

 private:
  using Key = std::pair<proxy::Kind, std::string>;
  mutable std::mutex mutex_;
  std::map<Key, std::vector<proxy::Finding>> findings_;
  uint64_t refused_total_ = 0;
};

}  // namespace svcmap::api
