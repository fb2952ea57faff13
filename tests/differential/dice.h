// Random numbers that are reproducible on every machine, unlike the distributions of the standard
// library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace svcmap::testing {

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}

  uint64_t Number() { return random_(); }
  size_t Below(size_t n) { return static_cast<size_t>(random_() % n); }
  bool Chance(unsigned percent) { return Below(100) < percent; }

  template <typename T, size_t n>
  const T& OneOf(const T (&list)[n]) {
    return list[Below(n)];
  }
  template <typename T>
  const T& OneOf(const std::vector<T>& list) {
    return list[Below(list.size())];
  }

  template <typename T>
  void Shuffle(std::vector<T>& list) {
    for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[Below(i)]);
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace svcmap::testing
