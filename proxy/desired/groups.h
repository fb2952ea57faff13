// Allocates the numbers that identify endpoint groups, and Service ports with session affinity, in
// the kernel. A freed number is reused as late as possible, because a packet in flight with an old
// descriptor must not reach another Service's endpoints.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "nft/types/family.h"
#include "proxy/ruleset/descriptor.h"

namespace svcmap::proxy {

// Each family has its own numbers, because each family has its own maps.
enum class NumberPool : uint8_t { kGroups, kStickyGroups, kStickyPorts };
inline constexpr std::array kNumberPools = {NumberPool::kGroups, NumberPool::kStickyGroups,
                                            NumberPool::kStickyPorts};
constexpr size_t Index(NumberPool pool) { return static_cast<size_t>(pool); }
// The last number of each pool. The first number is 1.
inline constexpr uint32_t kLastNumbers[] = {kMaxGroup, kMaxStickyGroup, kMaxStickyPort};

struct Number {
  NumberPool pool = NumberPool::kGroups;
  Family family = Family::kIpv4;
  uint32_t value = 0;

  friend auto operator<=>(const Number&, const Number&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const Number& number) {
    return H::combine(std::move(state), number.pool, number.family, number.value);
  }
};

// The lowest number that was never allocated, by pool and family.
using NextNumbers = std::array<std::array<uint32_t, 2>, 3>;

class NumberAllocator {
 public:
  explicit NumberAllocator(uint32_t last) : last_(last) {}

  // Returns 0 if all numbers are in use.
  uint32_t Allocate() {
    if (next_ <= last_) return next_++;
    if (free_.empty()) return 0;
    const uint32_t number = free_.front();
    free_.pop_front();
    return number;
  }
  void Release(uint32_t number) { free_.push_back(number); }
  // Undoes the allocation of a number that the kernel has never used. Call GiveBack in reverse
  // order of allocation.
  void GiveBack(uint32_t number) {
    if (number + 1 == next_) {
      --next_;
    } else {
      free_.push_front(number);
    }
  }

  // Continue with the numbers of the previous run. Before the first allocation, call Keep for each
  // number that elements in the kernel contain, in ascending order, and then SkipTo with the
  // previous run's next(), or 0 if it is unknown.
  void Keep(uint32_t number) {
    SkipTo(number);
    next_ = number + 1;
  }
  void SkipTo(uint32_t next) {
    while (next_ < std::min(next, last_ + 1)) free_.push_back(next_++);
  }
  uint32_t next() const { return next_; }  // The lowest number that was never allocated.

 private:
  uint32_t last_;
  uint32_t next_ = 1;
  std::deque<uint32_t> free_;
};

class Numbers {
 public:
  NumberAllocator& Of(NumberPool pool, Family family) { return pools_[Index(pool)][Index(family)]; }
  NextNumbers Next() {
    NextNumbers next;
    for (const NumberPool pool : kNumberPools) {
      for (const Family family : kFamilies) {
        next[Index(pool)][Index(family)] = Of(pool, family).next();
      }
    }
    return next;
  }
  void Release(const std::vector<Number>& numbers) {
    for (const Number& number : numbers) Of(number.pool, number.family).Release(number.value);
  }
  // Undoes the allocations of a plan that was not committed. `numbers` must be in order of
  // allocation.
  void GiveBack(const std::vector<Number>& numbers) {
    for (size_t i = numbers.size(); i-- > 0;) {
      Of(numbers[i].pool, numbers[i].family).GiveBack(numbers[i].value);
    }
  }

 private:
  NumberAllocator pools_[3][2] = {  // By pool and Index(Family).
      {NumberAllocator(kMaxGroup), NumberAllocator(kMaxGroup)},
      {NumberAllocator(kMaxStickyGroup), NumberAllocator(kMaxStickyGroup)},
      {NumberAllocator(kMaxStickyPort), NumberAllocator(kMaxStickyPort)}};
};

}  // namespace svcmap::proxy
