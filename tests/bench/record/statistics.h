// Statistical functions. All functions are pure and return 0 if there are no values.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

namespace svcmap::bench {

// Values by round.
using Rounds = std::map<int, std::vector<double>>;

// Returns a percentile. `share` is between 0 and 1. Interpolates linearly between two values, like
// numpy.
inline double Percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double position = share * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (position - static_cast<double>(below)) * (values[above] - values[below]);
}

inline double Median(std::vector<double> values) { return Percentile(std::move(values), 0.5); }

inline std::vector<double> AllRounds(const Rounds& rounds) {
  std::vector<double> all;
  for (const auto& [round, values] : rounds) all.insert(all.end(), values.begin(), values.end());
  return all;
}

// Returns the ratio of `of` to `reference`. Calculates the ratio for each round that contains both
// values, and returns the median ratio. A ratio uses values of the same round, because a slow phase
// of the machine affects both values. Returns 0 if no round contains both values.
inline double Ratio(const Rounds& of, const Rounds& reference) {
  std::vector<double> ratios;
  for (const auto& [round, values] : of) {
    const auto other = reference.find(round);
    if (other == reference.end()) continue;
    const double base = Median(other->second);
    if (base > 0) ratios.push_back(Median(values) / base);
  }
  return Median(std::move(ratios));
}

}  // namespace svcmap::bench
