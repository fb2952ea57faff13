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
  static constexpr size_t kMaxObjects = 1000;  // Of more, nothing is kept.
  static constexpr size_t kMaxFindings = 100;  // Per object, of those that Add() reports.

  // Replaces what was said about an object when it came in.
  void Set(proxy::Kind kind, const std::string& key, const std::vector<proxy::Finding>& findings);
  // A snapshot has begun; when it ends, what was said about objects that it did not name goes.
  void BeginSnapshot();
  void EndSnapshot();

  // Adds to it what came up when it was programmed.
  void Add(const std::vector<proxy::Finding>& findings);

  std::vector<proxy::Finding> All() const;
  uint64_t rejected() const;  // Objects of which something was refused.

 private:
  using Key = std::pair<proxy::Kind, std::string>;
  mutable std::mutex mutex_;
  struct Reported {
    std::vector<proxy::Finding> findings;
    uint64_t snapshot = 0;  // Counted; when it was said.
  };
  std::map<Key, Reported> reported_;
  uint64_t snapshot_ = 0;
};

}  // namespace svcmap::api
