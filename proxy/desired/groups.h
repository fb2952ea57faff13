// Hands out the numbers of endpoint groups. A number that became free is used again as late as can
// be: a packet that has read the old descriptor must not find another Service's endpoints.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "proxy/ruleset/descriptor.h"

namespace svcmap::proxy {

class GroupAllocator {
 public:
  explicit GroupAllocator(uint32_t max_group = kMaxGroup) : max_group_(max_group) {}

  // 0 when all are in use.
  uint32_t Allocate() {
    if (next_ <= max_group_) return next_++;
    if (free_.empty()) return 0;
    const uint32_t group = free_.front();
    free_.pop_front();
    return group;
  }
  void Release(const std::vector<uint32_t>& groups) {
    free_.insert(free_.end(), groups.begin(), groups.end());
  }

 private:
  uint32_t max_group_;
  uint32_t next_ = 1;
  std::deque<uint32_t> free_;
};

}  // namespace svcmap::proxy
